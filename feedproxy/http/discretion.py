"""What an address gives away: names and passwords in it, and what looks like a token.

Addresses of private feeds are secrets themselves. Wherever one is shown, logged or listed, it is asked for here.
"""

import re
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

from feedproxy.http.memo import memoised

# Addresses come from strangers, and are as long as they like: each of these goes over a text once, and never back.
_PARAMETER = re.compile(r"((?:^|[&;])([^=&;]*+)=)([^&;]*+)")
_SOUNDS_SECRET = re.compile(
    r"(?i)token|secret|pass|pwd|auth|credential|signature|sig|session|jwt|key|\A(?:pw|sid|code)\Z"
)
LONG_SECRET = re.compile(
    # A UUID, or a run of letters and digits too long to be a word: addresses of private feeds are made of these.
    r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"
    r"|(?<![0-9A-Za-z])(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[0-9A-Za-z]{16,}"
    # The three parts of a JSON Web Token (RFC 7519): each begins as base64url of `{"` does. What is joined to it
    # before is taken with it, so that of many beginnings only the first is tried.
    r"|(?<![\w-])(?>[\w-]*?\beyJ)[\w-]{4,}+\.[\w-]{4,}+\.[\w-]*+"
)

_DOUBTFUL = re.compile(r"[?@\[\]]|%40")
"""Without one of these an address has no query, no user information, and no host that could be misunderstood."""

_PLAIN = re.compile(r"https?://[a-z0-9.:-]+/[!$&-;=A-Z_a-z~]*")
"""An address that nothing is left out of but for a long token: without query, name, brackets and fragment."""

_AUTHORITY = re.compile(r"(?i)(https?(?::|%3a)(?:/|%2f){1,2})((?:(?!https?(?::|%3a)/)[^/?#&\s])*+)")
_USERINFO = re.compile(r"(?i)\A.*(?:@|%40)", re.DOTALL)
"""A name and password in an address within an address: a gateway's request that is refused is logged, too."""


def without_secrets(target: str, mask: Callable[[str], str] = lambda _: "…") -> str:
    """A target URI that may be shown: no userinfo, no values of parameters that sound secret, no long tokens.

    `mask` gives what stands in the place of each.
    """
    if _PLAIN.fullmatch(target) and not has_secret(target):
        return target
    split = urlsplit(target)
    host = split.netloc.rpartition("@")[2]
    query = _PARAMETER.sub(
        lambda found: found[1] + mask(found[3]) if _SOUNDS_SECRET.search(found[2]) else found[0], split.query
    )
    shown = _AUTHORITY.sub(
        lambda found: found[1] + _USERINFO.sub("", found[2]), urlunsplit((split.scheme, host, split.path, query, ""))
    )
    return LONG_SECRET.sub(lambda found: mask(found[0]), shown)


@memoised(entries=1024)
def has_secret(target: str) -> bool:
    """Whether an address holds user information or something token-like: then it is nobody else's to know."""
    bare = target.partition("#")[0]
    if not _DOUBTFUL.search(bare):
        return LONG_SECRET.search(bare) is not None
    try:
        return without_secrets(target) != urlunsplit((*urlsplit(target)[:4], ""))
    except ValueError:
        return True
