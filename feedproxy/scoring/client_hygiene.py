"""How a reader introduces itself, what it asks for, and what it sends that nobody needs."""

import re
from urllib.parse import urlsplit, urlunsplit

from feedproxy.clock import Instant
from feedproxy.findings import Category, Level, Note
from feedproxy.http.memoize import memoised
from feedproxy.http.negotiation import weights_in
from feedproxy.http.user_agent import parse_claim, product
from feedproxy.scoring.reader_state import ReaderState
from feedproxy.scoring.rules import KEPT, Observation, Verdict, redact_target
from feedproxy.scoring.scored_request import Poll

_LIBRARY = re.compile(
    r"(?:python-requests|python-urllib\d?|python-httpx|aiohttp|python|urllib3|curl|libcurl|wget|go-http-client|java|okhttp|"
    r"libwww-perl|lwp|perl|node|node-fetch|axios|undici|got|ruby|rest-client|faraday|php|guzzlehttp|guzzle|dart|"
    r"apache-httpclient|apache-httpasyncclient|jakarta|httpx|reqwest|ureq|hyper|feedparser|universalfeedparser|simplepie|"
    r"rome|magpierss|libsoup|libfetch|cfnetwork|http_request2?|winhttp)(?:[/ ].*)?",
    re.IGNORECASE | re.DOTALL,
)
_LIBRARYS_OWN = re.compile(r"kurtmckee/feedparser|feedparser\.org|simplepie\.org|rometools", re.IGNORECASE)
"""Pages about a library, which it names by itself: whoever uses it is somebody else."""
_BROWSERS = frozenset({"Mozilla", "Chrome", "Safari", "Firefox", "Edge", "Opera"})
# The look-behind keeps the search linear: a name before an `@` is looked at once, however long it is.
_CONTACT = re.compile(r"https?://|www\.|(?<![\w.+-])[\w.+-]++@[\w-]++\.\w", re.IGNORECASE)
_OLD_VERSIONS = ("/0.9", "/1.0")
_FORWARDING_FIELDS = ("via", "forwarded", "x-forwarded-for")

_BUSTER_NAMES = re.compile(
    r"(?:_|t|ts|time|timestamp|rand|random|rnd|cb|cachebust(?:er)?|nocache|no-?cache|bust|utm_\w+|fbclid|gclid)",
    re.IGNORECASE,
)
_RANDOM_VALUE = re.compile(r"\d{9,14}|0\.\d{6,}|[0-9a-f]{8,}", re.IGNORECASE)


AGENTS_MAX = 4096
"""User-Agents of which it is remembered what is to be said: the same reader comes again and again."""


def coding(poll: Poll, _: ReaderState) -> Verdict:
    """Whether compression is asked for."""
    return _accepted_coding(poll.fields.combined("accept-encoding") or "")


@memoised(entries=256)
def _accepted_coding(accepted: str) -> Verdict:
    weights = weights_in(accepted)
    if any(weights.get(name, 0) > 0 for name in ("gzip", "x-gzip", "br", "zstd", "deflate", "*")):
        return KEPT
    return (Observation(NO_COMPRESSION, f"Accept-Encoding: {accepted}" if accepted else "no Accept-Encoding"),)


def version(poll: Poll, _: ReaderState) -> Verdict:
    """Whether the protocol is of this century."""
    return (Observation(OLD_HTTP, poll.version),) if poll.version.endswith(_OLD_VERSIONS) else KEPT


def identity(poll: Poll, _: ReaderState) -> Verdict:
    """Whether the User-Agent says which reader this is."""
    return _identity((poll.fields.get("user-agent") or "").strip())


@memoised(entries=AGENTS_MAX)
def _identity(agent: str) -> Verdict:
    if not agent:
        return (Observation(NO_USER_AGENT, "no User-Agent"),)
    if _LIBRARY.fullmatch(agent) and (not _CONTACT.search(agent) or _LIBRARYS_OWN.search(agent)):
        return (Observation(LIBRARY_USER_AGENT, f"User-Agent: {agent}", {"agent": agent}),)
    if agent.startswith("Mozilla/") and product(agent) in _BROWSERS:
        return (Observation(BROWSER_USER_AGENT, f"User-Agent: {agent}", {"agent": agent}),)
    return KEPT


def contact(poll: Poll, _: ReaderState) -> Verdict | None:
    """Whether it says where somebody can be reached."""
    agent = (poll.fields.get("user-agent") or "").strip()
    if not agent:
        return None
    return (
        KEPT if _has_contact(agent) or poll.fields.get("from") else (Observation(NO_CONTACT, f"User-Agent: {agent}"),)
    )


@memoised(entries=AGENTS_MAX)
def _has_contact(agent: str) -> bool:
    return bool(_CONTACT.search(agent)) and not _LIBRARYS_OWN.search(agent)


def shared(poll: Poll, _: ReaderState) -> Observation | None:
    """What is worth saying of how many read through this one, or could."""
    if (told := _subscribers(poll.fields.get("user-agent") or "")) is not None:
        return told
    passed = next((name for name in _FORWARDING_FIELDS if name in poll.fields), None)
    return Observation(SUBSCRIBERS_UNTOLD, f"{passed} was sent, and no count") if passed else None


@memoised(entries=AGENTS_MAX)
def _subscribers(agent: str) -> Observation | None:
    claim = parse_claim(agent)
    return Observation(TELLS_SUBSCRIBERS, f"User-Agent: {agent}", {"subscribers": claim.count}) if claim else None


def needless(poll: Poll, _: ReaderState) -> Verdict:
    """Cookies, referrers, and parameters of the reader's own."""
    said = []
    if "cookie" in poll.fields:
        said.append(Observation(COOKIES_SENT, "Cookie was sent"))
    if referrer := poll.fields.get("referer"):
        said.append(Observation(REFERRER_SENT, f"Referer: {redact_target(referrer)}"))
    if (plain := strip_cache_busters(poll.target, poll.at)) != poll.target:
        said.append(Observation(QUERY_ADDED, f"{redact_target(poll.target)} for {redact_target(plain)}"))
    return tuple(said)


def strip_cache_busters(target: str, at: Instant) -> str:
    """An address without parameters that only keep caches from knowing it, or tell where the reader comes from."""
    if "?" not in target or not (split := urlsplit(target)).query:
        return target
    kept = [each for each in split.query.split("&") if not _is_cache_buster(each, at)]
    return urlunsplit((split.scheme, split.netloc, split.path, "&".join(kept), ""))


def _is_cache_buster(parameter: str, at: Instant) -> bool:
    name, equals, value = parameter.partition("=")
    if name.lower().startswith(("utm_", "fbclid", "gclid")):
        return True
    if not equals:
        return _is_time(name, at)
    return _is_time(value, at) or bool(_BUSTER_NAMES.fullmatch(name) and _RANDOM_VALUE.fullmatch(value))


def _is_time(text: str, at: Instant) -> bool:
    """Whether this is the time of the request, in seconds or milliseconds."""
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
