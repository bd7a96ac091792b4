"""What an address gives away: names and passwords in it, and what looks like a token.

Addresses of private feeds are secrets themselves. Wherever one is shown, logged or listed, it is asked for here.
"""

import re
from collections.abc import Callable
from urllib.parse import unquote, urlsplit, urlunsplit

from feedproxy.http.memoize import memoised

# Addresses come from strangers, and are as long as they like: each of these goes over a text once, and never back.
# An address within an address may be percent-encoded, several times over, and so are the signs that part it.
_NAME = r"((?:(?!%(?:25)*(?:26|3[BDF]))[^=&;?{0}])*+)(?:=|%(?:25)*3D)"
_VALUE = r"(?:(?!%(?:25)*(?:26|3B))[^&;{0}])*+"
_PARAMETER = (
    re.compile(r"(?i)(?:^|[&;?]|%(?:25)*(?:26|3[BF]))" + _NAME.format("")),
    re.compile("(?i)" + _VALUE.format("")),
)
_PATH_PARAMETER = (
    re.compile(r"(?i)(?:[&;]|%(?:25)*(?:26|3[BF]))" + _NAME.format("/")),
    re.compile("(?i)" + _VALUE.format("/")),
)
_SOUNDS_SECRET = re.compile(
    r"token|secret|pass(?!age|i|eng)|pwd|auth(?!or)|credential|signature|sig\Z|sess|jwt|key(?!word)|cookie|hmac|ticket"
    r"|private|invit|magic|nonce|csrf|xsrf|e?mail\Z"
    r"|\A(?:pw|pk|sid|code|t|k|h|hash|md5|sha1|digest|access|otp|pin|rss|guid|uuid|sso|login|member|subscriber|uid)\Z"
)
"""Names of parameters, in lower case and without what separates words."""

_WORDS_ARE_PUBLIC = frozenset({"rss", "guid", "uuid", "login", "member", "subscriber", "uid", "t", "h", "pin"})
"""Of these only a value that is no number of a few digits, and no word, is a secret: forums count topics by `t`."""

_PUBLIC_PARAMETERS = frozenset({"channel_id", "playlist_id", "list"})
"""Parameters whose values are long and random, and stand on every page (YouTube)."""

PUBLIC_IDENTIFIERS = (
    "anchor.fm/s/",
    "bsky.app/profile/",
    "feed.podbean.com/",
    "feeds.acast.com/public/",
    "feeds.buzzsprout.com/",
    "feeds.captivate.fm/",
    "feeds.fireside.fm/",
    "feeds.megaphone.fm/",
    "feeds.redcircle.com/",
    "feeds.simplecast.com/",
    "feeds.transistor.fm/",
    "odysee.com/$/rss/",
    "podcasts.files.bbci.co.uk/",
    "rss.art19.com/",
    "rss.buzzsprout.com/",
    "rss.libsyn.com/shows/",
    "www.omnycontent.com/d/playlist/",
    "www.spreaker.com/show/",
    "www.youtube.com/feeds/",
)
"""Beginnings of addresses, after the scheme, below which feeds for everybody have random names. Private feeds of these
hosts are at other hosts or paths.

No rule tells such a name from a token: both are drawn by lot. The list ages on the safe side: what it lacks is masked
and left out of public lists. An entry whose host begins to give private feeds such addresses has to go.
"""

_PUBLIC_IDENTIFIER = re.compile(
    rf"https?://(?:{'|'.join(map(re.escape, PUBLIC_IDENTIFIERS))}|mastodon\.[a-z]+/@[^/]*/)"
)

_SLASH = r"(?:/|%(?:25)*2f)"
_OWN_SECRET = re.compile(
    rf"(?i)({_SLASH}(?:push{_SLASH}(?:websub|rsscloud|cnws)|-{_SLASH}with){_SLASH})((?:(?!%(?:25)*2f)[^/?#&\s])++)"
)
"""What comes behind the paths of our own secret addresses: callbacks for hubs and clouds, and readers' tokens. Now and
then a token that was drawn by lot looks like words, and these are known without a look at them."""

_PRIVATE_PLACE = re.compile(
    r"(?i)[/.](?:private|secret|personal|members?-only|subscriber-only)(?:[/.:]|\Z)|/(?:private|secret)[-_:][^/]*\d"
)
"""Parts of a path that say of themselves that not everybody is meant to read there."""

_RUN = re.compile(r"[0-9A-Za-z_~-]++")
_PIECE = re.compile(r"[0-9A-Za-z]+")
_SWITCH = re.compile(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[0-9])(?=[A-Za-z])|(?<=[A-Z])(?=[0-9])|(?<=[A-Z]{2})(?=[a-z])")
"""Where a run goes from one kind of sign to another; not after the capital of a word."""

_DATE = re.compile(r"\d{4}-?\d\d-?\d\dT?\d{0,6}Z?")
_UUID = re.compile(r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}")
_JWT = re.compile(
    # The three parts of a JSON Web Token (RFC 7519): each begins as base64url of `{"` does. What is joined to it
    # before is taken with it, so that of many beginnings only the first is tried.
    r"(?<![\w-])(?>[\w-]*?\beyJ)[\w-]{4,}+\.[\w-]{4,}+\.[\w-]*+"
)
_NO_WORD = re.compile(r"(?i)[bcdfghjklmnpqrstvwxz]{8}|[aeiou]{6}|q(?!u)[a-z]|[jvwxz]{3}")
"""What is in no word of a language that is written in Latin letters, or hardly any."""

_RUN_MAX = 2048
"""Signs of a run that are looked at; a longer one is no word, and no title."""


_DOUBTFUL = re.compile(r"[?@&;%\[\]]")
"""Without one of these an address has no parameters, no user information, and no host that could be misunderstood."""

_PLAIN = re.compile(r"https?://[a-z0-9.:-]+/[!$&-;=A-Z_a-z~]*")
"""An address that nothing is left out of but for a long token: without query, name, brackets and fragment."""

_ADDRESS = re.compile(r"https?://[^\s<>\"']++")
"""An address in a sentence."""

_AUTHORITY = re.compile(r"(?i)(https?(?::|%3a)(?:/|%2f){1,2})((?:(?!https?(?::|%3a)/)[^/?#&\s])*+)")
_USERINFO = re.compile(r"(?i)\A.*(?:@|%40)", re.DOTALL)
"""A name and password in an address within an address: a gateway's request that is refused is logged, too."""


@memoised(entries=4096, longest=128)
def is_random(run: str) -> bool:
    """Return whether letters and digits look random: a token, rather than a word, title, date or number.

    What tells them apart is how often the kind of sign changes within them. Hyphens and underscores separate words in
    a title, and are signs like others in base64url: changes are counted between them only.
    """
    if len(run) < 6:
        return False
    if _DATE.fullmatch(run):
        return False
    if len(run) > _RUN_MAX or _UUID.search(run):
        return True
    pieces = _PIECE.findall(run)
    size = sum(map(len, pieces))
    if size < 6:
        return False
    letters = re.sub(r"[^A-Za-z]", "", run)
    digits = size - len(letters)
    if not letters:
        return max(map(len, pieces)) >= 20
    switches = sum(len(_SWITCH.findall(piece)) for piece in pieces)
    if digits:
        if size < 8:
            return switches >= 3 and any(map(str.islower, letters)) and any(map(str.isupper, letters))
        if switches >= 3 and switches * 10 >= size * 2.2:
            return True
        longest = max(pieces, key=len)
        if re.fullmatch(r"[0-9a-f]{8,}|[0-9A-F]{8,}", longest):
            return len(_SWITCH.findall(longest)) >= 2 or (len(longest) >= 12 and not longest.isdigit())
        return len(longest) >= 16 and (switches >= 3 or _NO_WORD.search(longest) is not None)
    if switches >= 3 and size <= (2.75 if size >= 16 else 2.2) * (switches + 1):
        return True
    return max(map(len, pieces)) >= 16 and _NO_WORD.search(letters) is not None


def without_secrets(target: str, mask: Callable[[str], str] = lambda _: "…") -> str:
    """Return a target URI that may be shown: no userinfo, no values of parameters that sound secret, no tokens.

    `mask` gives what stands in the place of each.
    """
    if _PLAIN.fullmatch(target) and not has_secret(target):
        return target
    split = urlsplit(target)
    host = split.netloc.rpartition("@")[2]
    path, query = _without_parameters(split.path, split.query, mask)
    shown = _AUTHORITY.sub(
        lambda found: found[1] + _USERINFO.sub("", found[2]), urlunsplit((split.scheme, host, path, query, ""))
    )
    return _without_tokens(shown, mask)


def text_without_secrets(text: str) -> str:
    """Return a sentence that may be shown: each address in it as `without_secrets` has it."""
    return _ADDRESS.sub(_shown_address, text) if "://" in text else text


def _shown_address(found: re.Match[str]) -> str:
    try:
        return without_secrets(found[0])
    except ValueError:
        return "…"  # brackets in the place of a host: what is secret in it is not known


def _without_parameters(path: str, query: str, mask: Callable[[str], str]) -> tuple[str, str]:
    """Return path and query without the values of parameters that sound secret."""
    return _masked(path, *_PATH_PARAMETER, mask), _masked(query, *_PARAMETER, mask)


def _masked(text: str, parameter: re.Pattern[str], value: re.Pattern[str], mask: Callable[[str], str]) -> str:
    parts, end = list[str](), 0
    for found in parameter.finditer(text):
        # What looks like a parameter in the value of a secret one belongs to the secret.
        if found.start() < end or not sounds_secret(found[1]):
            continue
        said = value.match(text, found.end())
        if said is not None and said[0] and _is_secret_value(found[1], said[0]):
            parts += text[end : found.end()], mask(said[0])
            end = said.end()
    return "".join((*parts, text[end:]))


def _plain_name(name: str) -> str:
    return re.sub(r"[-_.\[\]]", "", unquote(name).lower()) if len(name) <= _RUN_MAX else name.lower()


def sounds_secret(name: str) -> bool:
    """Tell whether a parameter of this name holds a secret as a rule."""
    return _SOUNDS_SECRET.search(_plain_name(name)) is not None


def _is_secret_value(name: str, value: str) -> bool:
    return _plain_name(name) not in _WORDS_ARE_PUBLIC or not re.fullmatch(r"\d{1,9}|[a-z]{1,12}\d?", value)


def _without_tokens(text: str, mask: Callable[[str], str]) -> str:
    text = _OWN_SECRET.sub(lambda found: found[1] + mask(found[2]), text)
    text = _JWT.sub(lambda found: mask(found[0]), text)
    if _PUBLIC_IDENTIFIER.match(text):
        return text
    public = 0

    def shown(found: re.Match[str]) -> str:
        nonlocal public
        if found[0] in _PUBLIC_PARAMETERS and text[found.end() : found.end() + 1] == "=":
            public = found.end() + 1
        elif found.start() != public or not public:
            return mask(found[0]) if is_random(found[0]) else found[0]
        return found[0]

    return _RUN.sub(shown, text)


@memoised(entries=1024)
def has_secret(target: str) -> bool:
    """Return whether an address holds user information or something token-like: then it is nobody else's to know."""
    bare = target.partition("#")[0]
    if "%" in bare and len(bare) <= _RUN_MAX and (decoded := unquote(bare)) != bare and "%" not in decoded:
        return _has_secret(bare) or _has_secret(decoded)
    return _has_secret(bare)


def _has_secret(bare: str) -> bool:
    if _PRIVATE_PLACE.search(bare.partition("?")[0]):
        return True
    if not _DOUBTFUL.search(bare):
        return _without_tokens(bare, lambda _: "") != bare
    try:
        split = urlsplit(bare)
        if _without_parameters(split.path, split.query, lambda _: "") != (split.path, split.query):
            return True
        return _without_name_and_tokens(bare) != urlunsplit((*split[:4], ""))
    except ValueError:
        return True


def _without_name_and_tokens(bare: str) -> str:
    """Return an address without its fragment, without user information and tokens."""
    split = urlsplit(bare)
    host = split.netloc.rpartition("@")[2]
    shown = urlunsplit((split.scheme, host, split.path, split.query, ""))
    shown = _AUTHORITY.sub(lambda found: found[1] + _USERINFO.sub("", found[2]), shown)
    return _without_tokens(shown, lambda _: "")


def host_alone(target: str) -> str:
    """Return `https://HOST/…`: an address of which the rest is kept to itself. Raises ValueError for no address."""
    split = urlsplit(target)
    if not split.netloc:
        raise ValueError(target)
    return f"{split.scheme}://{split.netloc.rpartition('@')[2]}/…"
