"""Redaction of secrets in addresses: user names and passwords, secret parameters, and tokens.

The address of a private feed can itself be a secret.
"""

import re
from collections.abc import Callable
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from feedproxy.http.memoize import memoize_short

# Clients send addresses of any length: each of these patterns matches in linear time, without backtracking. An address
# inside an address, including its delimiters, may be percent-encoded several times.
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
_SECRET_NAME = re.compile(
    r"token|secret|pass(?!age|i|eng)|pwd|auth(?!or(?!i[sz]))|credential|signature|sig\Z|sess|jwt|key(?!word)|cookie|hmac|ticket"
    r"|private|invit|magic|nonce|csrf|xsrf|e?mail\Z"
    r"|\A(?:pw|pk|sid|code|t|k|h|hash|md5|sha1|digest|access|otp|pin|rss|guid|uuid|sso|login|member|subscriber|uid)\Z"
)
"""Pattern of names of secret parameters, in lower case and without word separators."""

_PARTLY_SECRET = frozenset({"rss", "guid", "uuid", "login", "member", "subscriber", "uid", "t", "h", "pin"})
"""Names of parameters with values that can be public or secret, such as `t`, a topic number in forums.

Short numbers and words count as public.
"""

_PUBLIC_PARAMETERS = frozenset({"channel_id", "playlist_id", "list"})
"""Parameters with long random values that are public (YouTube)."""

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
"""Prefixes of addresses, after the scheme, below which public feeds have random names.

Addresses with random names look secret. They are redacted and left out of public lists, except below these prefixes. An
entry must be removed when its service begins to use such addresses for private feeds.
"""

_PUBLIC_IDENTIFIER = re.compile(
    rf"https?://(?:{'|'.join(map(re.escape, PUBLIC_IDENTIFIERS))}|mastodon\.[a-z]+/@[^/]*/)"
)

_SLASH = r"(?:/|%(?:25)*2f)"
_OWN_SECRET = re.compile(
    rf"(?i)({_SLASH}(?:push{_SLASH}(?:websub|rsscloud|cnws)|-{_SLASH}with){_SLASH})((?:(?!%(?:25)*2f)[^/?#&\s])++)"
)
"""Pattern of this proxy's own paths with a token: callback URLs, and the secret addresses of users.

The path identifies the token, because a random token can look like words.
"""

_PRIVATE_PATH = re.compile(
    r"(?i)[/.](?:private|secret|personal|members?-only|subscriber-only)(?:[/.:]|\Z)|/(?:private|secret)[-_:][^/]*\d"
)
"""Pattern of parts of a path that mark private content."""

_RUN = re.compile(r"[0-9A-Za-z_~-]++")
_PIECE = re.compile(r"[0-9A-Za-z]+")
_SWITCH = re.compile(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[0-9])(?=[A-Za-z])|(?<=[A-Z])(?=[0-9])|(?<=[A-Z]{2})(?=[a-z])")
"""Pattern of the positions at which the kind of character changes: small letter, capital letter or digit.

The position after the capital letter at the beginning of a word does not match.
"""

_DATE = re.compile(r"\d{4}-?\d\d-?\d\dT?\d{0,6}Z?")
_UUID = re.compile(r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}")
_JWT = re.compile(
    # The three parts of a JSON Web Token (RFC 7519), which begins as base64url of `{"` does. Characters directly in
    # front are included, so that the pattern is tried from one position only.
    r"(?<![\w-])(?>[\w-]*?\beyJ)[\w-]{4,}+\.[\w-]{4,}+\.[\w-]*+"
)
_NO_WORD = re.compile(r"(?i)[bcdfghjklmnpqrstvwxz]{8}|[aeiou]{6}|q(?!u)[a-z]|[jvwxz]{3}")
"""Pattern of letter sequences that are rare or absent in words of languages with Latin script."""

_RUN_MAX = 2048
"""A run of more than this many letters, digits, hyphens and underscores counts as random (`is_random`)."""


_DOUBTFUL = re.compile(r"[?@&;%\[\]]")
"""Pattern of characters of addresses that are ambiguous, or have parameters or user information."""

_PLAIN = re.compile(r"https?://[a-z0-9.:-]+/[!$&-;=A-Z_a-z~]*")
"""Pattern of an address without query, user information, brackets and fragment. Only its path can contain a secret."""

_ADDRESS = re.compile(r"https?://[^\s<>\"']*[^\s<>\"'.,:;]")
"""Pattern of an address in a text, without punctuation at the end."""

_AUTHORITY = re.compile(r"(?i)(https?(?::|%3a)(?:/|%2f){1,2})((?:(?!https?(?::|%3a)/)[^/?#&\s])*+)")
_USERINFO = re.compile(r"(?i)\A.*(?:@|%40)", re.DOTALL)
"""Pattern of a user name and password, up to their `@`, in the text after the scheme of an address."""


@memoize_short(entries=4096, longest=128)
def is_random(run: str) -> bool:
    """Return True if a run of letters, digits, hyphens and underscores looks like a random token.

    Words, dates and numbers are not random. In a random token, small letters, capital letters and digits alternate
    often. Alternations are counted in each part between hyphens and underscores.
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
    """Return a target URI with user information, values of secret parameters, and tokens replaced by `mask`."""
    if _PLAIN.fullmatch(target) and not has_secret(target):
        return target
    split = urlsplit(target)
    path, query = _without_parameters(split.path, split.query, mask)
    return _without_name_and_tokens(split._replace(path=path, query=query), mask)


def text_without_secrets(text: str) -> str:
    """Return a text with the secrets of each address replaced."""
    return _ADDRESS.sub(lambda match: redact_target(match[0]), text) if "://" in text else text


def redact_setting(text: str) -> str:
    """Return the value of an option for an error message, without its secrets.

    A value with both `@` and `:` becomes `…`, because these can surround a password. In any other value, the secrets of
    addresses and a fragment are replaced.
    """
    if "@" in text and ":" in text:
        return "…"
    beginning, mark, _ = text.partition("#")
    return text_without_secrets(beginning) + (f"{mark}…" if mark else "")


def redact_target(target: str) -> str:
    """Return an address without secrets, or `…` if the address is invalid."""
    try:
        return without_secrets(target)
    except ValueError:
        return "…"  # the brackets of the host are invalid, so the parts of the address are unknown


def _without_parameters(path: str, query: str, mask: Callable[[str], str]) -> tuple[str, str]:
    return _mask_parameter(path, *_PATH_PARAMETER, mask), _mask_parameter(query, *_PARAMETER, mask)


def _mask_parameter(text: str, parameter: re.Pattern[str], value: re.Pattern[str], mask: Callable[[str], str]) -> str:
    parts, end = list[str](), 0
    for match in parameter.finditer(text):
        # A parameter inside the value of a secret parameter is part of that secret.
        if match.start() < end or not sounds_secret(match[1]):
            continue
        secret = value.match(text, match.end())
        if secret is not None and secret[0] and _is_secret_value(match[1], secret[0]):
            parts += text[end : match.end()], mask(secret[0])
            end = secret.end()
    return "".join((*parts, text[end:]))


def _plain_name(name: str) -> str:
    return re.sub(r"[-_.\[\]]", "", unquote(name).lower()) if len(name) <= _RUN_MAX else name.lower()


def sounds_secret(name: str) -> bool:
    """Return True if parameters with this name usually contain a secret."""
    return _SECRET_NAME.search(_plain_name(name)) is not None


def _is_secret_value(name: str, value: str) -> bool:
    return _plain_name(name) not in _PARTLY_SECRET or not re.fullmatch(r"\d{1,9}|[a-z]{1,12}\d?", value)


def _without_tokens(text: str, mask: Callable[[str], str]) -> str:
    text = _OWN_SECRET.sub(lambda match: match[1] + mask(match[2]), text)
    text = _JWT.sub(lambda match: mask(match[0]), text)
    if _PUBLIC_IDENTIFIER.match(text):
        return text
    public = 0

    def shown(match: re.Match[str]) -> str:
        nonlocal public
        if match[0] in _PUBLIC_PARAMETERS and text[match.end() : match.end() + 1] == "=":
            public = match.end() + 1
        elif match.start() != public or not public:
            return mask(match[0]) if is_random(match[0]) else match[0]
        return match[0]

    return _RUN.sub(shown, text)


_SHORT_WORDS = re.compile(r"https?://(?:(?:[a-z]{1,11}+|[0-9]{1,11}+)(?![0-9a-z])|[-_~./:]+)*+")
"""Pattern of an address of short words and numbers. Such an address has no random token (`is_random`)."""


@memoize_short(entries=1024)
def has_secret(target: str) -> bool:
    """Return True if an address has user information, a secret parameter, a private path, or a token."""
    bare = target.partition("#")[0]
    if "%" in bare and len(bare) <= _RUN_MAX and (decoded := unquote(bare)) != bare and "%" not in decoded:
        return _has_secret(bare) or _has_secret(decoded)
    return _has_secret(bare)


def _has_secret(bare: str) -> bool:
    if _PRIVATE_PATH.search(bare.partition("?")[0]):
        return True
    if len(bare) <= _RUN_MAX and _SHORT_WORDS.fullmatch(bare) and "/push/" not in bare and "/-/" not in bare:
        return False
    if not _DOUBTFUL.search(bare):
        return _without_tokens(bare, lambda _: "") != bare
    try:
        split = urlsplit(bare)
        if _without_parameters(split.path, split.query, lambda _: "") != (split.path, split.query):
            return True
        return _without_name_and_tokens(split, lambda _: "") != urlunsplit((*split[:4], ""))
    except ValueError:
        return True


def _without_name_and_tokens(split: SplitResult, mask: Callable[[str], str]) -> str:
    redacted = urlunsplit(split._replace(netloc=split.netloc.rpartition("@")[2], fragment=""))
    redacted = _AUTHORITY.sub(lambda match: match[1] + _USERINFO.sub("", match[2]), redacted)
    return _without_tokens(redacted, mask)


def host_alone(target: str) -> str:
    """Return the scheme and authority of an address, without user information, such as `https://example.com/…`.

    Raises ValueError if the address has no host.
    """
    split = urlsplit(target)
    if not split.netloc:
        raise ValueError(target)
    return f"{split.scheme}://{split.netloc.rpartition('@')[2]}/…"
