"""Rules on request fields: compression, User-Agent, contact, cookies and parameters; and notes on connections."""

import re
from urllib.parse import urlsplit, urlunsplit

from feedproxy.clock import Instant
from feedproxy.findings import Category, Level, Note
from feedproxy.http.memoize import memoize_short
from feedproxy.http.negotiation import weights_in
from feedproxy.http.user_agent import parse_claim, product
from feedproxy.scoring.reader_state import ReaderState
from feedproxy.scoring.rules import NO_VIOLATIONS, Observation, Verdict, redact_target
from feedproxy.scoring.scored_request import Poll

_LIBRARY = re.compile(
    r"(?:python-requests|python-urllib\d?|python-httpx|aiohttp|python|urllib3|curl|libcurl|wget|go-http-client|java|okhttp|"
    r"libwww-perl|lwp|perl|node|node-fetch|axios|undici|got|ruby|rest-client|faraday|php|guzzlehttp|guzzle|dart|"
    r"apache-httpclient|apache-httpasyncclient|jakarta|httpx|reqwest|ureq|hyper|feedparser|universalfeedparser|simplepie|"
    r"rome|magpierss|libsoup|libfetch|cfnetwork|http_request2?|winhttp)(?:[/ ].*)?",
    re.IGNORECASE | re.DOTALL,
)
_LIBRARY_PAGE = re.compile(r"kurtmckee/feedparser|feedparser\.org|simplepie\.org|rometools", re.IGNORECASE)
"""Addresses of a library's own pages in its default User-Agent; they are not a contact for the reader."""
_BROWSERS = frozenset({"Mozilla", "Chrome", "Safari", "Firefox", "Edge", "Opera"})
# The look-behind keeps the search linear: a long name before an `@` is scanned once.
_CONTACT = re.compile(r"https?://|www\.|(?<![\w.+-])[\w.+-]++@[\w-]++\.\w", re.IGNORECASE)
_OLD_VERSIONS = ("/0.9", "/1.0")
_FORWARDING_FIELDS = ("via", "forwarded", "x-forwarded-for")

_BUSTER_NAMES = re.compile(
    r"(?:_|t|ts|time|timestamp|rand|random|rnd|cb|cachebust(?:er)?|nocache|no-?cache|bust|utm_\w+|fbclid|gclid)",
    re.IGNORECASE,
)
_RANDOM_VALUE = re.compile(r"\d{9,14}|0\.\d{6,}|[0-9a-f]{8,}", re.IGNORECASE)


AGENTS_MAX = 4096
"""Size of the caches of verdicts on User-Agents."""


def evaluate_coding(poll: Poll, _: ReaderState) -> Verdict:
    """Return a violation if the request does not accept compression."""
    return _evaluate_accept_encoding(poll.fields.combined("accept-encoding") or "")


@memoize_short(entries=256)
def _evaluate_accept_encoding(accepted: str) -> Verdict:
    weights = weights_in(accepted)
    if any(weights.get(name, 0) > 0 for name in ("gzip", "x-gzip", "br", "zstd", "deflate", "*")):
        return NO_VIOLATIONS
    return (Observation(NO_COMPRESSION, f"Accept-Encoding: {accepted}" if accepted else "no Accept-Encoding"),)


def evaluate_version(poll: Poll, _: ReaderState) -> Verdict:
    """Return a violation if the protocol is older than HTTP/1.1."""
    return (Observation(OLD_HTTP, poll.version),) if poll.version.endswith(_OLD_VERSIONS) else NO_VIOLATIONS


def evaluate_identity(poll: Poll, _: ReaderState) -> Verdict:
    """Return a violation if the User-Agent does not name the reader."""
    return _evaluate_agent((poll.fields.get("user-agent") or "").strip())


@memoize_short(entries=AGENTS_MAX)
def _evaluate_agent(agent: str) -> Verdict:
    if not agent:
        return (Observation(NO_USER_AGENT, "no User-Agent"),)
    if _LIBRARY.fullmatch(agent) and (not _CONTACT.search(agent) or _LIBRARY_PAGE.search(agent)):
        return (Observation(LIBRARY_USER_AGENT, f"User-Agent: {agent}", {"agent": agent}),)
    if agent.startswith("Mozilla/") and product(agent) in _BROWSERS:
        return (Observation(BROWSER_USER_AGENT, f"User-Agent: {agent}", {"agent": agent}),)
    return NO_VIOLATIONS


def evaluate_contact(poll: Poll, _: ReaderState) -> Verdict | None:
    """Return a violation if neither User-Agent nor From has a contact; None without a User-Agent."""
    agent = (poll.fields.get("user-agent") or "").strip()
    if not agent:
        return None
    return (
        NO_VIOLATIONS
        if _has_contact(agent) or poll.fields.get("from")
        else (Observation(NO_CONTACT, f"User-Agent: {agent}"),)
    )


@memoize_short(entries=AGENTS_MAX)
def _has_contact(agent: str) -> bool:
    return bool(_CONTACT.search(agent)) and not _LIBRARY_PAGE.search(agent)


def observe_subscribers(poll: Poll, _: ReaderState) -> Observation | None:
    """Return the number of subscribers that the User-Agent claims, or its absence behind a shared proxy."""
    if (subscribers := _observe_claim(poll.fields.get("user-agent") or "")) is not None:
        return subscribers
    forwarding = next((name for name in _FORWARDING_FIELDS if name in poll.fields), None)
    return Observation(SUBSCRIBERS_UNTOLD, f"{forwarding} was sent, and no count") if forwarding else None


@memoize_short(entries=AGENTS_MAX)
def _observe_claim(agent: str) -> Observation | None:
    claim = parse_claim(agent)
    return Observation(TELLS_SUBSCRIBERS, f"User-Agent: {agent}", {"subscribers": claim.count}) if claim else None


def evaluate_needless(poll: Poll, _: ReaderState) -> Verdict:
    """Return violations for a cookie, a referrer, and parameters that the reader added."""
    observations = []
    if "cookie" in poll.fields:
        observations.append(Observation(COOKIES_SENT, "Cookie was sent"))
    if referrer := poll.fields.get("referer"):
        observations.append(Observation(REFERRER_SENT, f"Referer: {redact_target(referrer)}"))
    if (plain := strip_cache_busters(poll.target, poll.at)) != poll.target:
        observations.append(Observation(QUERY_ADDED, f"{redact_target(poll.target)} for {redact_target(plain)}"))
    return tuple(observations)


def strip_cache_busters(target: str, at: Instant) -> str:
    """Return a target without the parameters that defeat caches or track the client's origin."""
    if "?" not in target or not (parts := urlsplit(target)).query:
        return target
    parameters = [parameter for parameter in parts.query.split("&") if not _is_cache_buster(parameter, at)]
    return urlunsplit((parts.scheme, parts.netloc, parts.path, "&".join(parameters), ""))


def _is_cache_buster(parameter: str, at: Instant) -> bool:
    name, equals, value = parameter.partition("=")
    if name.lower().startswith(("utm_", "fbclid", "gclid")):
        return True
    if not equals:
        return _is_request_time(name, at)
    return _is_request_time(value, at) or bool(_BUSTER_NAMES.fullmatch(name) and _RANDOM_VALUE.fullmatch(value))


def _is_request_time(text: str, at: Instant) -> bool:
    """Return True for the time of the request (a day more or less) in seconds or milliseconds."""
    if not (text.isascii() and text.isdigit() and len(text) in (10, 13)):
        return False
    return abs(int(text) / (1000 if len(text) == 13 else 1) - at) < 86_400


class NO_COMPRESSION(Note):
    level = Level.WARN
    category = Category.CODING
    summary = "%(times)s did not ask for compression."
    advice = (
        "Feeds shrink to a quarter or less. Send `Accept-Encoding: gzip`, or what the library can unpack by itself."
    )
    reference = "RFC 9110, section 12.5.3"


class TAKES_COMPRESSION(Note):
    level = Level.GOOD
    category = Category.CODING
    summary = "Compression was asked for."
    advice = "%(times)s said Accept-Encoding."
    reference = "RFC 9110, section 12.5.3"


class OLD_HTTP(Note):
    level = Level.WARN
    category = Category.CONNECTION
    summary = "%(times)s spoke HTTP/1.0."
    advice = "HTTP/1.1 is from 1997; without it there are no lasting connections, and some servers refuse."
    reference = "RFC 9112, section 2.3"


class NO_USER_AGENT(Note):
    level = Level.BAD
    category = Category.IDENTITY
    summary = "%(times)s had no User-Agent."
    advice = """\
    Say who asks: `Name/1.2 (+https://example.com/about-the-reader)`. Servers refuse the nameless first, and nobody can
    tell you that something is wrong."""
    reference = "RFC 9110, section 10.1.5"


class LIBRARY_USER_AGENT(Note):
    level = Level.WARN
    category = Category.IDENTITY
    summary = "%(times)s named a library, and not the reader that uses it."
    advice = "`%(agent)s` may be anybody. Send a name of your own, the library's behind it if you like."
    reference = "RFC 9110, section 10.1.5"


class BROWSER_USER_AGENT(Note):
    level = Level.WARN
    category = Category.IDENTITY
    summary = "%(times)s claimed to come from a browser."
    advice = "`%(agent)s` asks for a page made for people, and hides who polls. Send a name of your own."
    reference = "RFC 9110, section 10.1.5"


class NAMES_ITSELF(Note):
    level = Level.GOOD
    category = Category.IDENTITY
    summary = "The User-Agent names the reader."
    advice = "%(times)s said who asks."
    reference = "RFC 9110, section 10.1.5"


class NO_CONTACT(Note):
    level = Level.WARN
    category = Category.IDENTITY
    summary = "%(times)s did not tell where to reach whoever runs or writes the reader."
    advice = (
        "Put an address into the User-Agent, `(+https://example.com/reader)`: you hear of a mistake before a block."
    )
    reference = "RFC 9110, section 10.1.5; docs/how-to/ask-readers-who-they-are.md"


class TELLS_CONTACT(Note):
    level = Level.GOOD
    category = Category.IDENTITY
    summary = "The User-Agent tells where to reach somebody."
    advice = "%(times)s had an address in it."
    reference = "RFC 9110, section 10.1.5"


class TELLS_SUBSCRIBERS(Note):
    level = Level.GOOD
    category = Category.IDENTITY
    summary = "The reader tells for how many it asks: %(subscribers)s."
    advice = "Publishers want to know, and a shared reader is the only one that does."
    reference = "docs/explanation/subscribers.md"


class SUBSCRIBERS_UNTOLD(Note):
    level = Level.INFO
    category = Category.IDENTITY
    summary = "%(times)s came through something shared, which did not tell how many read there."
    advice = """\
    Whoever fetches once for many can say so in the User-Agent:
    `Name/1.2 (+https://example.com/reader; 12 subscribers)`."""
    reference = "docs/explanation/subscribers.md"


class COOKIES_SENT(Note):
    level = Level.WARN
    category = Category.PRIVACY
    summary = "%(times)s had a Cookie."
    advice = (
        "No feed needs one. It keeps shared caches from answering, and lets people be followed. Switch the jar off."
    )
    reference = "RFC 6265, section 7; RFC 9111, section 7.3"


class REFERRER_SENT(Note):
    level = Level.WARN
    category = Category.PRIVACY
    summary = "%(times)s had a Referer."
    advice = "A poll comes from nowhere. What stands there tells of the user's other reading, or is made up."
    reference = "RFC 9110, section 10.1.3"


class QUERY_ADDED(Note):
    level = Level.BAD
    category = Category.PRIVACY
    summary = "%(times)s had parameters in the address that only keep caches from knowing it."
    advice = """\
    To each cache on the way `?_=1700000000` is another page, so each poll goes to the origin. Ask for the address as it
    was subscribed to, with a condition; where it has to be fresh, `Cache-Control: no-cache` says so."""
    reference = "RFC 9111, section 5.2.1.4"


class NOTHING_NEEDLESS(Note):
    level = Level.GOOD
    category = Category.PRIVACY
    summary = "No cookies, referrers or parameters of the reader's own."
    advice = "%(times)s had nothing that the feed does not need."
    reference = "RFC 9110, section 17"


class CONNECTIONS_UNUSED(Note):
    level = Level.WARN
    category = Category.CONNECTION
    summary = "%(times)s had a connection made anew within seconds of the one before."
    advice = """\
    Connections stay open for more requests: for where a redirect leads, and for the next feed of the same site. Use one
    session for a whole round of polls."""
    reference = "RFC 9112, section 9.3"


class REUSES_CONNECTIONS(Note):
    level = Level.GOOD
    category = Category.CONNECTION
    summary = "Connections are used again."
    advice = "%(times)s needed no new one."
    reference = "RFC 9112, section 9.3"


class FEW_REQUESTS(Note):
    level = Level.INFO
    category = Category.SCHEDULE
    summary = "Only %(times)s to judge by."
    advice = "Most of what makes a reader shows over days. Take the grade for a beginning."
    reference = "docs/explanation/grades.md"
