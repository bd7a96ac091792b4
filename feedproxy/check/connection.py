"""Checks of the connection: redirects, TLS, HTTP version, framing, response time, and HEAD."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from feedproxy.check.observations import FeedObservations, ProbeExchange, scheme_of
from feedproxy.clock import DAY
from feedproxy.http import uri
from feedproxy.notes import Category, Level, Note

EXPIRY_WARNING = 14 * DAY
"""A Note warns if a certificate expires within this many seconds.

A certificate of 90 days is usually renewed 30 days before its expiry. If 14 days are left, renewal probably fails.
"""
SLOW_RESPONSE = 3.0
"""A Note warns if the response with the feed takes more than this many seconds. A user waits for the response when
subscribing."""

_PERMANENT = (301, 308)
_HEAD_FIELDS = ("content-type", "etag", "last-modified", "cache-control")


def check(observations: FeedObservations) -> Iterator[Note]:
    last = observations.last
    yield from _check_redirects(observations)
    if not last.status:
        return
    yield from _check_tls(observations)
    if last.minor == 0:
        yield HTTP_1_0()
    if last.status == 200 and not last.error:
        if last.framing_anomaly:
            yield FRAMING_CONTRADICTORY(detail=last.framing_anomaly)
        elif not last.has_length and last.minor == 1:
            yield LENGTH_MISSING()
        if last.seconds > SLOW_RESPONSE:
            yield RESPONSE_SLOW(seconds=f"{last.seconds:.1f}")
        if observations.head is not None:
            yield from _check_head(observations, observations.head)


def _check_redirects(observations: FeedObservations) -> Iterator[Note]:
    if observations.redirect_error:
        yield REDIRECT_FAILED(observations.address, reason=observations.redirect_error)
    steps = observations.hops[:-1]
    for hop, next_hop in zip(steps, observations.hops[1:], strict=True):
        if scheme_of(hop.target) == "https" and scheme_of(next_hop.target) == "http":
            yield REDIRECT_TO_HTTP(hop.target, location=next_hop.target)
    if len(steps) > 1:
        yield REDIRECT_CHAIN(observations.address, count=len(steps), location=observations.target)
    elif steps and steps[0].status in _PERMANENT:
        yield PERMANENT_REDIRECT(observations.address, location=observations.target, status=steps[0].status)
    elif steps:
        yield TEMPORARY_REDIRECT(observations.address, location=observations.target, status=steps[0].status)


class REDIRECT_FAILED(Note, level=Level.BAD, category=Category.MOVES):
    summary = "A redirect cannot be followed: %(reason)s."
    advice = "Readers do not get the feed. Redirect the old address directly to the new address."
    reference = "RFC 9110, section 15.4"


class REDIRECT_TO_HTTP(Note, level=Level.WARN, category=Category.SECURITY):
    summary = "A redirect leads from https to http: %(location)s."
    advice = "The answer is not protected by TLS, and some clients do not follow the redirect. Redirect to https."
    reference = "RFC 9110, section 17.1"


class REDIRECT_CHAIN(Note, level=Level.WARN, category=Category.MOVES):
    summary = "The feed is reached through %(count)s redirects."
    advice = """\
    Each redirect costs a request in every poll, and some readers follow only a few. Redirect directly to
    %(location)s."""
    reference = "RFC 9110, section 15.4"


class PERMANENT_REDIRECT(Note, level=Level.INFO, category=Category.MOVES):
    summary = "The feed has moved permanently to %(location)s (%(status)s)."
    advice = """\
    The status is right for a permanent move. Use the new address in your pages and in the feed's self link, too."""
    reference = "RFC 9110, section 15.4.2"


class TEMPORARY_REDIRECT(Note, level=Level.INFO, category=Category.MOVES):
    summary = "The feed is redirected temporarily to %(location)s (%(status)s)."
    advice = """\
    Readers keep the old address and send two requests in each poll. If the move is permanent, answer 301 or 308."""
    reference = "RFC 9110, section 15.4.3"


def _check_tls(observations: FeedObservations) -> Iterator[Note]:
    handshake, now = observations.handshake, observations.last.at
    if handshake is not None:
        if handshake.not_after and handshake.not_after - now < EXPIRY_WARNING:
            days = max(0, int((handshake.not_after - now) // DAY))
            yield CERTIFICATE_EXPIRES_SOON(host=urlsplit(observations.target).netloc, days=days)
        if handshake.version in ("TLSv1", "TLSv1.1"):
            yield TLS_OLD(version=handshake.version)
        if handshake.protocol == "h2":
            yield HTTP_2_SUPPORTED()
        yield HTTPS_AVAILABLE()
    elif scheme_of(observations.target) == "http" and not uri.is_local(observations.target):
        if observations.by_https is not None and observations.by_https.status == 200:
            yield NO_REDIRECT_TO_HTTPS(location=observations.by_https.target)
        else:
            yield HTTP_ONLY()


class HTTPS_AVAILABLE(Note, level=Level.GOOD, category=Category.SECURITY):
    summary = "The feed is available by https with a valid certificate."
    reference = "RFC 9110, section 4.2.2"


class HTTP_2_SUPPORTED(Note, level=Level.GOOD, category=Category.CONNECTION):
    summary = "The server supports HTTP/2."
    reference = "RFC 9113, section 3.2"


class CERTIFICATE_EXPIRES_SOON(Note, level=Level.WARN, category=Category.SECURITY):
    summary = "The certificate of %(host)s expires in %(days)s days."
    advice = """\
    After the certificate has expired, nearly all readers fail to get the feed, often without an explanation. Check
    why the certificate has not been renewed yet."""
    reference = "RFC 5280, section 4.1.2.5"


class TLS_OLD(Note, level=Level.WARN, category=Category.SECURITY):
    summary = "The highest TLS version that the server supports is %(version)s."
    advice = "Most current TLS libraries refuse such an old version by default. Enable TLS 1.2 and 1.3."
    reference = "RFC 8996"


class NO_REDIRECT_TO_HTTPS(Note, level=Level.WARN, category=Category.SECURITY):
    summary = "The same feed is available by https, but this address does not redirect to it."
    advice = "With http, anyone on the network path can read and change the feed. Answer 301 to %(location)s."
    reference = "RFC 9110, section 17.1; RFC 7258"


class HTTP_ONLY(Note, level=Level.INFO, category=Category.SECURITY):
    summary = "The feed is available by http only."
    advice = "Anyone on the network path can read and change the feed. Certificates are free of charge (ACME)."
    reference = "RFC 9110, section 17.1; RFC 7258"


class HTTP_1_0(Note, level=Level.INFO, category=Category.CONNECTION):
    summary = "The server answers in HTTP/1.0."
    advice = "Every poll needs a new connection. The cause is often an old proxy in front of the server."
    reference = "RFC 9112, section 9.3"


class LENGTH_MISSING(Note, level=Level.INFO, category=Category.CONNECTION):
    summary = "The response has neither a length nor chunks: it ends with the connection."
    advice = "Readers cannot detect a truncated feed, and each poll needs a new connection. Send Content-Length."
    reference = "RFC 9112, section 6.3"


class FRAMING_CONTRADICTORY(Note, level=Level.WARN, category=Category.CONNECTION):
    summary = "The response has contradictory framing: %(detail)s."
    advice = """\
    Readers and proxies disagree about where the response ends. Some refuse it, and some wait for content that never
    comes. An attacker can hide a second response in such a response. Often a program sends Content-Length, and the
    server in front of it sends chunks. Let only the program or only the server frame the response."""
    reference = "RFC 9112, sections 6.1 to 6.3"


class RESPONSE_SLOW(Note, level=Level.INFO, category=Category.CONNECTION):
    summary = "The first response took %(seconds)s seconds."
    advice = """\
    If a program creates the feed for each request, let it create the feed once per change, or put a cache in front
    of the program."""
    reference = "RFC 9111, section 1"


def _check_head(observations: FeedObservations, head: ProbeExchange) -> Iterator[Note]:
    if head.status in (405, 501):
        yield HEAD_REFUSED(status=head.status)
        return
    if head.status != 200:
        yield HEAD_DIFFERS(detail=f"its status ({head.status or head.error})")
        return
    # A field that differs between two GET responses says nothing about the method.
    stable = [
        name
        for name in _HEAD_FIELDS
        if observations.repeat is None or observations.repeat.fields.get(name) == observations.last.fields.get(name)
    ]
    differing = [name for name in stable if head.fields.get(name) != observations.last.fields.get(name)]
    if differing:
        yield HEAD_DIFFERS(detail=", ".join(differing))


class HEAD_REFUSED(Note, level=Level.INFO, category=Category.CONNECTION):
    summary = "HEAD is refused (%(status)s)."
    advice = """\
    Link checkers and some readers send HEAD first. GET and HEAD are the two methods that every server must support."""
    reference = "RFC 9110, sections 9.1 and 9.3.2"


class HEAD_DIFFERS(Note, level=Level.WARN, category=Category.CONNECTION):
    summary = "The responses to HEAD and GET differ: %(detail)s."
    advice = """\
    Clients that send HEAD before GET are misled. The response to HEAD should have the fields of the response to GET."""
    reference = "RFC 9110, section 9.3.2"
