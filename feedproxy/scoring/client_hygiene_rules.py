"""Rules on single requests: HTTP version, compression, User-Agent, contact address, cookies, and added query
parameters.

An empty verdict means that the request keeps the rule. None means that the rule does not apply to the request.
"""

import re

from feedproxy.http.content_negotiation import weights_in
from feedproxy.http.memoize import memoize_short
from feedproxy.http.user_agent import parse_claim, product
from feedproxy.notes import Category, Level, Note
from feedproxy.scoring.cache_busting_parameters import strip_cache_busters
from feedproxy.scoring.reader_names import distinguishing_part
from feedproxy.scoring.reader_state import ReaderState
from feedproxy.scoring.rule_weights import NO_VIOLATIONS, Observation, Verdict, short_target, violation
from feedproxy.scoring.scored_request import Poll

_LIBRARY = re.compile(
    r"(?:python-requests|python-urllib\d?|python-httpx|aiohttp|python|urllib3|curl|libcurl|wget|go-http-client|java|okhttp|"
    r"libwww-perl|lwp|perl|node|node-fetch|axios|undici|got|ruby|rest-client|faraday|php|guzzlehttp|guzzle|dart|"
    r"apache-httpclient|apache-httpasyncclient|jakarta|httpx|reqwest|ureq|hyper|feedparser|universalfeedparser|simplepie|"
    r"rome|magpierss|libsoup|libfetch|cfnetwork|http_request2?|winhttp)(?:[/ ].*)?",
    re.IGNORECASE | re.DOTALL,
)
_LIBRARY_PAGE = re.compile(r"kurtmckee/feedparser|feedparser\.org|simplepie\.org|rometools", re.IGNORECASE)
"""Pattern of the address of a library's own page. Default User-Agents of libraries contain such an address. It
does not count as a contact, because a publisher cannot reach the operator of the reader through it."""
_BROWSERS = frozenset({"Mozilla", "Chrome", "HeadlessChrome", "Safari", "Firefox", "Edge", "Opera"})
# The look-behind keeps the search linear: a long name before an `@` is scanned once.
_CONTACT = re.compile(r"https?://|www\.|(?<![\w.+-])[\w.+-]++@[\w-]++\.\w", re.IGNORECASE)
_OLD_VERSIONS = ("/0.9", "/1.0")
_FORWARDING_FIELDS = ("via", "forwarded", "x-forwarded-for")


READ_MAX = 24_000_000
"""A reader should stop reading an endless answer before this many bytes. The number includes some megabytes that the
network's buffers can hold, and that the reader has not read."""

AGENTS_MAX = 4096
"""The verdicts on at most this many User-Agents are cached."""


def evaluate_coding(poll: Poll, _: ReaderState) -> Verdict:
    """Return a violation if the request does not accept a compressed answer."""
    return _evaluate_accept_encoding(poll.fields.combined("accept-encoding") or "")


@memoize_short(entries=256)
def _evaluate_accept_encoding(accepted: str) -> Verdict:
    weights = weights_in(accepted)
    if any(weights.get(name, 0) > 0 for name in ("gzip", "x-gzip", "br", "zstd", "deflate", "*")):
        return NO_VIOLATIONS
    return violation(COMPRESSION_NOT_ACCEPTED, f"Accept-Encoding: {accepted}" if accepted else "no Accept-Encoding")


def evaluate_version(poll: Poll, _: ReaderState) -> Verdict:
    """Return a violation if the request was sent with HTTP/1.0 or HTTP/0.9."""
    return violation(HTTP_1_0_USED, poll.version) if poll.version.endswith(_OLD_VERSIONS) else NO_VIOLATIONS


def evaluate_size(poll: Poll, _: ReaderState) -> Verdict | None:
    """Return a violation if at least READ_MAX bytes of an incomplete answer were sent to the reader, otherwise None."""
    if poll.complete or poll.size < READ_MAX:
        return None
    return violation(ENDLESS_ANSWER_READ, f"{poll.size / 1e6:.0f} MB of an answer without end were read")


def evaluate_identity(poll: Poll, state: ReaderState) -> Verdict:
    """Return a violation if the User-Agent is absent, differs from the previous one, or names only a library or a
    browser."""
    agent = poll.fields.get("user-agent") or ""
    verdict = _evaluate_agent(agent.strip())
    if state.previous is None or hash(distinguishing_part(agent)) == state.user_agent_hash:
        return verdict
    return (*verdict, Observation(USER_AGENT_CHANGES, f"User-Agent: {agent}"))


@memoize_short(entries=AGENTS_MAX)
def _evaluate_agent(agent: str) -> Verdict:
    if not agent:
        return violation(USER_AGENT_MISSING, "no User-Agent")
    if _LIBRARY.fullmatch(agent) and (not _CONTACT.search(agent) or _LIBRARY_PAGE.search(agent)):
        return violation(LIBRARY_USER_AGENT, f"User-Agent: {agent}", {"agent": agent})
    if agent.startswith("Mozilla/") and product(agent) in _BROWSERS:
        return violation(BROWSER_USER_AGENT, f"User-Agent: {agent}", {"agent": agent})
    return NO_VIOLATIONS


def evaluate_contact(poll: Poll, _: ReaderState) -> Verdict | None:
    """Return a violation if neither User-Agent nor From contains a contact address. Return None if there is no
    User-Agent."""
    agent = (poll.fields.get("user-agent") or "").strip()
    if not agent:
        return None
    return (
        NO_VIOLATIONS
        if _has_contact(agent) or poll.fields.get("from")
        else violation(CONTACT_MISSING, f"User-Agent: {agent}")
    )


@memoize_short(entries=AGENTS_MAX)
def _has_contact(agent: str) -> bool:
    return bool(_CONTACT.search(agent)) and not _LIBRARY_PAGE.search(agent)


def observe_subscribers(poll: Poll, _: ReaderState) -> Observation | None:
    """Return an observation on the number of subscribers that the User-Agent claims.

    Return an observation that the number is missing if a field such as X-Forwarded-For shows that a proxy forwarded the
    request. Return None for all other requests without a number.
    """
    if (subscribers := _observe_claim(poll.fields.get("user-agent") or "")) is not None:
        return subscribers
    forwarding = next((name for name in _FORWARDING_FIELDS if name in poll.fields), None)
    return (
        Observation(SUBSCRIBERS_MISSING, f"{forwarding} was sent, but no number of subscribers") if forwarding else None
    )


@memoize_short(entries=AGENTS_MAX)
def _observe_claim(agent: str) -> Observation | None:
    claim = parse_claim(agent)
    return Observation(SUBSCRIBERS_STATED, f"User-Agent: {agent}", {"subscribers": claim.count}) if claim else None


def evaluate_needless(poll: Poll, state: ReaderState) -> Verdict:
    """Return the violations of a request that causes needless traffic. These are violations:

    * a Cookie or Referer field,
    * query parameters that defeat caches, and differ from those of the previous poll,
    * a HEAD before a GET.
    """
    observations = []
    if "cookie" in poll.fields:
        observations.append(Observation(COOKIES_SENT, "Cookie was sent"))
    if referrer := poll.fields.get("referer"):
        observations.append(Observation(REFERRER_SENT, f"Referer: {short_target(referrer)}"))
    # A value that stays the same from poll to poll, or that a redirect contains, is no invention of the reader.
    is_changed = bool(state.chain) and poll.target not in state.chain and not state.follows(poll)
    if is_changed and (plain := strip_cache_busters(poll.target, poll.at)) != poll.target:
        observations.append(
            Observation(CACHE_BUSTING_QUERY, f"{short_target(poll.target)} instead of {short_target(plain)}")
        )
    if state.is_get_after_head(poll):
        observations.append(Observation(HEAD_BEFORE_GET, "a HEAD for the same feed came just before this GET"))
    return tuple(observations)


class COMPRESSION_NOT_ACCEPTED(Note, level=Level.WARN, category=Category.CODING):
    summary = "%(times)s did not accept a compressed answer."
    advice = """\
    Compression reduces feeds to a quarter of their size or less. Send `Accept-Encoding: gzip`, or the codings that
    the reader's HTTP library can decode."""
    reference = "RFC 9110, section 12.5.3"


class COMPRESSION_ACCEPTED(Note, level=Level.GOOD, category=Category.CODING):
    summary = "The reader accepts compressed answers."
    advice = "%(times)s had Accept-Encoding."
    reference = "RFC 9110, section 12.5.3"


class HTTP_1_0_USED(Note, level=Level.WARN, category=Category.CONNECTION):
    summary = "%(times)s used HTTP/1.0."
    advice = "HTTP/1.0 has no persistent connections by default, and some servers refuse it. Use HTTP/1.1 or later."
    reference = "RFC 9112, section 2.3"


class ENDLESS_ANSWER_READ(Note, level=Level.WARN, category=Category.CONNECTION):
    summary = "%(times)s read an answer of many megabytes that did not end."
    advice = """\
    A server that fails or attacks can send without end, until the reader has no memory left. Stop reading above some
    megabytes, close the connection, and treat the answer as a failure."""
    reference = "RFC 9110, section 17.5"


class USER_AGENT_MISSING(Note, level=Level.BAD, category=Category.IDENTITY):
    summary = "%(times)s had no User-Agent."
    advice = """\
    Name the reader and its version: `Name/1.2 (+https://example.com/about-the-reader)`. Many servers block
    unnamed clients, and their operators cannot tell the reader's developer of a problem."""
    reference = "RFC 9110, section 10.1.5"


class LIBRARY_USER_AGENT(Note, level=Level.WARN, category=Category.IDENTITY):
    summary = "%(times)s named only the library that the reader uses."
    advice = """\
    `%(agent)s` stands for every program that uses the library. Send the reader's own name. The library's name may
    follow it."""
    reference = "RFC 9110, section 10.1.5"


class BROWSER_USER_AGENT(Note, level=Level.WARN, category=Category.IDENTITY):
    summary = "%(times)s had a browser's User-Agent."
    advice = """\
    With `%(agent)s`, servers take the reader for a browser, and can send a page for people. Their operators cannot see
    which feed reader polls. Send the reader's own name."""
    reference = "RFC 9110, section 10.1.5"


class USER_AGENT_NAMES_READER(Note, level=Level.GOOD, category=Category.IDENTITY):
    summary = "The User-Agent names the reader."
    advice = "%(times)s had the reader's name in the User-Agent."
    reference = "RFC 9110, section 10.1.5"


class USER_AGENT_CHANGES(Note, level=Level.WARN, category=Category.IDENTITY):
    summary = "%(times)s had a different User-Agent than the previous request."
    advice = """\
    Servers count each User-Agent as a separate reader, and can take the requests for an attack. Send the same
    User-Agent in every request, and change it only with a new version of the reader."""
    reference = "RFC 9110, section 10.1.5"


class CONTACT_MISSING(Note, level=Level.WARN, category=Category.IDENTITY):
    summary = "%(times)s had no contact address for the reader's developer or operator."
    advice = """\
    Put an address into the User-Agent, such as `(+https://example.com/reader)`. Operators of servers can then report
    a problem before they block the reader. The address of a library that the reader uses does not count."""
    reference = "RFC 9110, sections 10.1.2 and 10.1.5"


class CONTACT_STATED(Note, level=Level.GOOD, category=Category.IDENTITY):
    summary = "The User-Agent contains a contact address."
    advice = "%(times)s had a contact address in the User-Agent."
    reference = "RFC 9110, section 10.1.5"


class SUBSCRIBERS_STATED(Note, level=Level.GOOD, category=Category.IDENTITY):
    summary = "The User-Agent tells the number of subscribers: %(subscribers)s."
    advice = """\
    Publishers want to know how many people read their feeds. For a shared reader, only the reader itself knows the
    number."""
    reference = "docs/explanation/subscribers.md"


class SUBSCRIBERS_MISSING(Note, level=Level.INFO, category=Category.IDENTITY):
    summary = "%(times)s came from a shared proxy or service and did not state the number of subscribers."
    advice = """\
    A service that fetches a feed once for many people can tell their number in the User-Agent: `Name/1.2
    (+https://example.com/reader; 12 subscribers)`."""
    reference = "docs/explanation/subscribers.md"


class COOKIES_SENT(Note, level=Level.WARN, category=Category.PRIVACY):
    summary = "%(times)s had a Cookie."
    advice = """\
    Feeds do not need cookies. A Cookie keeps shared caches from answering and lets servers track people. Disable
    cookies in the reader's HTTP library."""
    reference = "RFC 6265, section 7; RFC 9111, section 7.3"


class REFERRER_SENT(Note, level=Level.WARN, category=Category.PRIVACY):
    summary = "%(times)s had a Referer."
    advice = """\
    A feed reader does not follow a link when it polls, so the value is either invented or reveals another page that
    the user read. Send no Referer."""
    reference = "RFC 9110, section 10.1.3"


class CACHE_BUSTING_QUERY(Note, level=Level.BAD, category=Category.PRIVACY):
    summary = "%(times)s had query parameters that only prevent caching."
    advice = """\
    Every value of a parameter such as `?_=1700000000` is another address for caches, so each poll goes to the
    origin. Send conditional requests to the address that the user subscribed to, without added parameters. If the
    answer has to be validated at the origin, send `Cache-Control: no-cache`."""
    reference = "RFC 9111, section 5.2.1.4"


class HEAD_BEFORE_GET(Note, level=Level.WARN, category=Category.CONDITIONS):
    summary = "%(times)s came after a HEAD that only asked whether the feed had changed."
    advice = """\
    A conditional GET needs one request: the answer is 304 without content, or the new content. Send no HEAD."""
    reference = "RFC 9110, sections 9.3.2 and 13.1"


class NO_NEEDLESS_DATA(Note, level=Level.GOOD, category=Category.PRIVACY):
    summary = "The reader sends no cookies, no Referer and no query parameters of its own."
    advice = "%(times)s had only fields and parameters that the feed needs."
    reference = "RFC 9110, section 17"


class CONNECTION_NOT_REUSED(Note, level=Level.WARN, category=Category.CONNECTION):
    summary = "%(times)s opened a new connection within seconds of the previous connection to the same host."
    advice = """\
    A connection can serve further requests: the target of a redirect on the same host, and other feeds of the same
    site. Use one session for all polls that are due at the same time."""
    reference = "RFC 9112, section 9.3"


class CONNECTIONS_REUSED(Note, level=Level.GOOD, category=Category.CONNECTION):
    summary = "The reader reuses connections."
    advice = "%(times)s used a connection that was already open."
    reference = "RFC 9112, section 9.3"


class FEW_REQUESTS(Note, level=Level.INFO, category=Category.SCHEDULE):
    summary = "The grade is based on %(times)s only."
    advice = "Many violations show only after several days of polling. Take this grade as provisional."
    reference = "docs/explanation/grades.md"
