"""Checks of the connection: redirects, TLS, version of HTTP, framing, response time, and HEAD."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from feedproxy.check.observations import FeedObservations, is_local, scheme_of
from feedproxy.clock import Instant
from feedproxy.findings import Category, Level, Note

DAY = 86_400.0
EXPIRY_WARNING = 14 * DAY
"""Seconds before a certificate's end. Certificates of 90 days are renewed after 60; half of the rest has passed."""
SLOW_RESPONSE = 3.0
"""Seconds for the first response, for which a subscribing user waits."""

_PERMANENT = (301, 308)
_HEAD_FIELDS = ("content-type", "etag", "last-modified", "cache-control")


def check(observations: FeedObservations, now: Instant) -> Iterator[Note]:
    """Yield the Notes on the connection. `now` is the time of the first answer."""
    last = observations.last
    yield from _check_redirects(observations)
    if not last.status:
        return
    yield from _check_tls(observations, now)
    if last.minor == 0:
        yield HTTP_1_0(observations.target)
    if last.status == 200 and not last.error:
        yield from _check_head(observations)
        if last.framing_anomaly:
            yield FRAMING_DOUBTFUL(observations.target, what=last.framing_anomaly)
        elif not len(last.framing) and last.minor == 1:
            yield LENGTH_UNTOLD(observations.target)
        if last.seconds > SLOW_RESPONSE:
            yield SLOW_TO_ANSWER(observations.target, seconds=f"{last.seconds:.1f}")


def _check_redirects(observations: FeedObservations) -> Iterator[Note]:
    if observations.redirect_error:
        yield REDIRECT_LEADS_NOWHERE(observations.address, why=observations.redirect_error)
    steps = observations.hops[:-1]
    for hop, next_hop in zip(steps, observations.hops[1:], strict=True):
        if scheme_of(hop.target) == "https" and scheme_of(next_hop.target) == "http":
            yield REDIRECT_TO_HTTP(hop.target, there=next_hop.target)
    if len(steps) > 1:
        yield REDIRECTS_IN_A_ROW(observations.address, count=len(steps), there=observations.target)
    elif steps and steps[0].status in _PERMANENT:
        yield HAS_MOVED(observations.address, there=observations.target, status=steps[0].status)
    elif steps:
        yield LEADS_ELSEWHERE(observations.address, there=observations.target, status=steps[0].status)


class REDIRECT_LEADS_NOWHERE(Note):
    level = Level.BAD
    category = Category.MOVES
    summary = "A redirect cannot be followed: %(why)s."
    advice = "Readers get no feed at all. Let the old address lead straight to the new one."
    reference = "RFC 9110, section 15.4"


class REDIRECT_TO_HTTP(Note):
    level = Level.WARN
    category = Category.SECURITY
    summary = "A redirect leads from https to http: %(there)s."
    advice = "What was safe on the way is not any more, and browsers refuse to follow. Lead to an https address."
    reference = "RFC 9110, section 17.1"


class REDIRECTS_IN_A_ROW(Note):
    level = Level.WARN
    category = Category.MOVES
    summary = "There are %(count)s redirects on the way to the feed."
    advice = "Each is a request more at every poll, and some readers follow only a few. Lead straight to %(there)s."
    reference = "RFC 9110, section 15.4"


class HAS_MOVED(Note):
    level = Level.INFO
    category = Category.MOVES
    summary = "The feed has moved for good to %(there)s (%(status)s)."
    advice = "That is how to say it. Name the new address in your pages and in the feed's self link."
    reference = "RFC 9110, section 15.4.2"


class LEADS_ELSEWHERE(Note):
    level = Level.INFO
    category = Category.MOVES
    summary = "The address leads to %(there)s for now (%(status)s)."
    advice = "Readers keep the old address and ask twice at each poll. If the move is for good, say 301 or 308."
    reference = "RFC 9110, section 15.4.3"


def _check_tls(observations: FeedObservations, now: Instant) -> Iterator[Note]:
    handshake = observations.handshake
    if handshake is not None:
        if handshake.not_after and handshake.not_after - now < EXPIRY_WARNING:
            days = max(0, int((handshake.not_after - now) // DAY))
            yield CERTIFICATE_ENDS_SOON(observations.target, host=urlsplit(observations.target).netloc, days=days)
        if handshake.version in ("TLSv1", "TLSv1.1"):
            yield TLS_OLD(observations.target, version=handshake.version)
        if handshake.protocol == "h2":
            yield HTTP_2(observations.target)
        yield BY_HTTPS(observations.target)
    elif scheme_of(observations.target) == "http" and not is_local(observations.target):
        if observations.by_https is not None and observations.by_https.status == 200:
            yield HTTPS_UNUSED(observations.target, there=observations.by_https.target)
        else:
            yield HTTP_ONLY(observations.target)


class BY_HTTPS(Note):
    level = Level.GOOD
    category = Category.SECURITY
    summary = "The feed comes by https, with a certificate that holds."
    advice = "Nothing is to be done."
    reference = "RFC 9110, section 4.2.2"


class HTTP_2(Note):
    level = Level.GOOD
    category = Category.CONNECTION
    summary = "The server speaks HTTP/2."
    advice = "Nothing is to be done."
    reference = "RFC 9113, section 3.2"


class CERTIFICATE_ENDS_SOON(Note):
    level = Level.WARN
    category = Category.SECURITY
    summary = "The certificate of %(host)s ends in %(days)s days."
    advice = "From then on nearly no reader gets the feed, and few of them say why. Has its renewal failed?"
    reference = "RFC 5280, section 4.1.2.5"


class TLS_OLD(Note):
    level = Level.WARN
    category = Category.SECURITY
    summary = "The best that the server speaks is %(version)s."
    advice = "Readers of today refuse it. Let the server speak TLS 1.2 and 1.3."
    reference = "RFC 8996"


class HTTPS_UNUSED(Note):
    level = Level.WARN
    category = Category.SECURITY
    summary = "The same feed is to be had by https, and this address does not lead there."
    advice = "With http, anyone on the network path can read and change it. Answer 301 to %(there)s."
    reference = "RFC 9110, section 17.1; RFC 7258"


class HTTP_ONLY(Note):
    level = Level.INFO
    category = Category.SECURITY
    summary = "The feed is to be had by http only."
    advice = "Anyone on the network path can read and change it. Certificates cost nothing nowadays (ACME)."
    reference = "RFC 9110, section 17.1; RFC 7258"


class HTTP_1_0(Note):
    level = Level.INFO
    category = Category.CONNECTION
    summary = "The server answers in HTTP/1.0."
    advice = "Every poll costs a connection of its own. Often an old proxy in front is the reason."
    reference = "RFC 9112, section 9.3"


class LENGTH_UNTOLD(Note):
    level = Level.INFO
    category = Category.CONNECTION
    summary = "Neither a length nor chunks: the end of the connection is the end of the feed."
    advice = "Readers cannot detect a truncated feed, and each poll costs a connection. Send Content-Length."
    reference = "RFC 9112, section 6.3"


class FRAMING_DOUBTFUL(Note):
    level = Level.WARN
    category = Category.CONNECTION
    summary = "Where the answer ends is said in two ways: %(what)s."
    advice = """\
Readers and proxies believe one or the other: some refuse the answer, some wait for what never comes, and an attacker
can hide a second answer between the two. Often a program says a length and the server in front of it chunks: let one
of them frame the answer."""
    reference = "RFC 9112, sections 6.1 to 6.3"


class SLOW_TO_ANSWER(Note):
    level = Level.INFO
    category = Category.CONNECTION
    summary = "The answer took %(seconds)s seconds."
    advice = "A feed that is made anew for each request can be made once per change, or kept by a cache in front."
    reference = "RFC 9111, section 1"


def _check_head(observations: FeedObservations) -> Iterator[Note]:
    head = observations.head
    if head is None:
        return
    if head.status in (405, 501):
        yield HEAD_REFUSED(observations.target, status=head.status)
        return
    if head.status != 200:
        yield HEAD_DIFFERS(observations.target, what=f"its status ({head.status or head.error})")
        return
    # Fields that differ between two GET requests do not depend on the method.
    stable = [
        name
        for name in _HEAD_FIELDS
        if observations.repeat is None or observations.repeat.fields.get(name) == observations.last.fields.get(name)
    ]
    differing = [name for name in stable if head.fields.get(name) != observations.last.fields.get(name)]
    if differing:
        yield HEAD_DIFFERS(observations.target, what=", ".join(differing))


class HEAD_REFUSED(Note):
    level = Level.INFO
    category = Category.CONNECTION
    summary = "HEAD is refused (%(status)s)."
    advice = "Checkers of links and some readers ask so first. GET and HEAD are the two that every server has to know."
    reference = "RFC 9110, sections 9.1 and 9.3.2"


class HEAD_DIFFERS(Note):
    level = Level.WARN
    category = Category.CONNECTION
    summary = "HEAD says something else than GET: %(what)s."
    advice = "Clients that send HEAD before GET are misled. The fields should be those of the response to GET."
    reference = "RFC 9110, section 9.3.2"
