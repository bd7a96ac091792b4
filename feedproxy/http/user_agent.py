"""User-Agent: product names, claimed numbers of subscribers, and feedproxy's own value.  RFC 9110, section 10.1.5

A service that fetches a feed for many people claims their number in its User-Agent: `457 subscribers`, `2 readers`,
`users 2`, `15 subscriber(s)`, `subscribers 1`. Some services add their own id of the feed.
subscribers/claim_confirmation.py decides which claims are believed.

A service can use several User-Agent strings. Its claims are counted under the part that these have in common. Its
claims with different ids for one feed are added.
"""

import re
from urllib.parse import quote

from msgspec import Struct

from feedproxy.http.memoize import memoize_short

LENGTH_MAX = 512
"""Number of characters at the beginning of a User-Agent that are parsed. Real values have fewer than 400."""

COUNT_MAX = 10**12
"""Maximum number of subscribers in a claim. A larger claim counts as this number."""


class Claim(Struct, frozen=True):
    """A service's statement that it fetches a feed for `count` subscribers.

    `fetcher` is the name under which the service's claims are counted. `feed_id` is its own id of the feed, or "".
    """

    fetcher: str
    count: int
    feed_id: str


# The look-behind prevents matches inside a run of digits, and keeps the search linear.
_NUMBER = r"(?<![\w.])(?<!\d,)(\d[\d,]*)"
_COUNTS = tuple(
    re.compile(pattern, re.ASCII | re.IGNORECASE)
    for pattern in (
        # The singular "reader" counts only after 1: "Example 2 Reader" is a name.
        rf"{_NUMBER}\s+(?:subscribers?(?:\(s\))?|readers|(?<=\b1\s)reader)(?![\w/])",
        r"\busers\s+(\d[\d,]*)",
        r"(?:\b|_)subscribers[ _](\d[\d,]*)",  # logs print a space as an underscore
    )
)
_FEED_ID = re.compile(r"\bfeed-?id\s*[=:]\s*([\w.-]{1,64})", re.ASCII | re.IGNORECASE)

_NAME_END = re.compile(r"[/(;,]|\s-\s|\sfeed-?id\b", re.IGNORECASE)
_COMMENT = re.compile(r"\(([^()]*)")
_PRODUCT = re.compile(r"(?<![\w.-])(?:(?![A-Za-z])[\w.-])*+([A-Za-z][\w.-]*+)/")
_PLATFORM = re.compile(
    r"(?:(?:compatible|x11|u|b|robot|wayland|linux|windows|win64|wow64|x64|x86\w*|arm\w*|macintosh|intel|ppc|android|"
    r"iphone|ipad|ipod|cpu|cros|mobile|msie|trident|mozilla|khtml|like|ubuntu|fedora|freebsd|openbsd)(?![\w.-])|"
    r"[a-z]{2}-[a-z]{2}$|rv:|\+?https?:|\d)",
    re.IGNORECASE,
)
_ENGINES = frozenset({"mozilla", "applewebkit", "gecko", "version", "mobile", "safari", "chrome"})

_COMMON_WORDS = frozenset({"feed", "page", "favicon", "fetcher", "poller", "bot", "studios"})
_NAMES = {
    "edg": "Edge",
    "feedfetcher-google": "Google Reader",
    "inoreader": "Inoreader",
    "livejournal": "LiveJournal",
    "newsblur": "NewsBlur",
    "opr": "Opera",
    "theoldreader": "The Old Reader",
}
"""Displayed names of services, by the names in their User-Agent in lower case."""


@memoize_short(longest=LENGTH_MAX)
def parse_claim(user_agent: str) -> Claim | None:
    """Return the claim in a User-Agent, or None."""
    user_agent = user_agent[:LENGTH_MAX]
    match = _count(user_agent)
    if match is None:
        return None
    count = min(int(match[1].replace(",", "")), COUNT_MAX)
    feed_id = _FEED_ID.search(user_agent)
    return Claim(_fetcher(_name(user_agent)), count, feed_id[1] if feed_id else "")


@memoize_short(longest=LENGTH_MAX)
def product(user_agent: str) -> str:
    """Return the displayed name of a feed reader, such as `Feedly` or `curl`, or `unknown`."""
    name = _name(user_agent[:LENGTH_MAX])
    return _NAMES.get(_fetcher(name)) or name or "unknown"


def format_user_agent(version: str, contact: str, subscribers: int, feed_id: str) -> str:
    """Return feedproxy's own User-Agent: `feedproxy/VERSION (+CONTACT; N subscribers; feed-id=HEX)`.

    Empty parts and a count of zero are left out.
    """
    parts = []
    if contact:
        # A parenthesis would end the comment, and a line break would end the field.
        parts.append("+" + quote(contact, safe="%/:?#[]@!$&'*+,=~-._"))
    if subscribers > 0:
        parts.append("1 subscriber" if subscribers == 1 else f"{subscribers} subscribers")
    if feed_id:
        parts.append(f"feed-id={feed_id}")
    return f"feedproxy/{version} ({'; '.join(parts)})" if parts else f"feedproxy/{version}"


def _count(user_agent: str) -> re.Match[str] | None:
    return next((match for pattern in _COUNTS if (match := pattern.search(user_agent))), None)


def _fetcher(name: str) -> str:
    """Return the part of a product name that all User-Agent strings of a service have in common, or `unknown`."""
    parts = name.lower().split()
    distinctive = [part for part in parts if part not in _COMMON_WORDS] or parts
    return re.sub(r"\.(com|net|org)$", "", "".join(distinctive)) or "unknown"


def _name(user_agent: str) -> str:
    """Return the first 40 printable ASCII characters of the product's name, or "" if there is no name."""
    if claim := _count(user_agent):
        # The claim is removed, because a name may precede it directly: `Example 12 readers`.
        user_agent = f"{user_agent[: claim.start()]};{user_agent[claim.end() :]}"
    text = re.sub(r"[^\x20-\x7e]", "", user_agent).strip(" ;,-")
    if text.lower().startswith("mozilla/"):
        name = _mozilla_product(text)
    else:
        name = _NAME_END.split(re.sub(r"^\+?https?://", "", text), maxsplit=1)[0]
    return name.strip()[:40].strip()


def _mozilla_product(text: str) -> str:
    """Return the product in a User-Agent that begins with `Mozilla/`.

    The result is the first of these that exists: the name after `compatible;`, a product that is not a browser engine,
    a name with a version in the comment, and the browser.
    """
    comment = _COMMENT.search(text)
    members = [member.strip() for member in comment[1].split(";")] if comment else []
    distinctive = [member for member in members if member and not _PLATFORM.match(member)]
    if distinctive and members[0].lower() == "compatible":
        return str(_NAME_END.split(distinctive[0], maxsplit=1)[0])
    products = _PRODUCT.findall(re.sub(r"\([^()]*\)?", "", text))
    own = [product for product in products if product.lower() not in _ENGINES]
    versioned = [match[1] for member in distinctive if (match := re.fullmatch(r"(\D+)\s[\d]+\.[\d.]+", member))]
    browsers = [browser for browser in ("Chrome", "Safari") if browser in products]
    return str(next(iter((*own, *versioned, *browsers, "Mozilla"))))
