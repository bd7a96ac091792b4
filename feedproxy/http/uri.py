"""Target URIs and their normal form.  RFC 3986

Resources are stored and requested under the normal form. Normalisation is idempotent, and never changes the resource
that a URI identifies. The input is bytes of the wire, decoded as ISO-8859-1, or Unicode from a document. The normal
form is percent-encoded UTF-8.
"""

import ipaddress
import re
from collections.abc import Callable
from functools import wraps
from urllib.parse import parse_qs

import idna

from feedproxy.errors import BadTarget
from feedproxy.http.memoize import memoize_short

_URI = re.compile(r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.DOTALL)
"""Pattern of any URI, with groups for its components.  RFC 3986, appendix B"""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PORTS = {"http": 80, "https": 443}

_REG_NAME = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
"""Pattern of host names that resolvers accept, including names with an underscore."""
_HOST_MAX = 253
"""Maximum length of a host name, in characters: 255 octets on the wire (RFC 1035, section 2.3.4)."""

_NORMAL = re.compile(
    r"https?://[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63}){0,3}(?::(?!80/|443/)[1-9][0-9]{1,3})?"
    r"/[!$&'()*+,\-./0-9:;=@A-Z_a-z~\[\]]*(?:\?[!$&'()*+,\-./0-9:;=?@A-Z_a-z~\[\]]*)?"
)
"""Pattern of most URIs in normal form: short names, ports of two to four digits, and no percent-encoding."""

LENGTH_MAX = 16_384
"""Maximum length of a target URI, in characters. A request target has at most half as many bytes
(request_validation.py), but percent-encoding makes it longer."""

_CONTROLS_AND_SPACE = re.compile(r"[\x00-\x20\x7f]")
_PERCENT = re.compile(r"%(?:([0-9A-Fa-f]{2}))?")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_EXCLUDED = re.compile(r"[^!#$%&'()*+,\-./0-9:;=?@A-Z_a-z~\[\]]+")
"""Pattern of characters that must be percent-encoded. Brackets are accepted, because they are common."""


@memoize_short(longest=2048)
def normalise(uri: str) -> str:
    """Return the normal form of a target URI (RFC 3986, sections 6.2.2 and 6.2.3; RFC 9110, section 4.2).

    Raises BadTarget for schemes other than http and https, user information, a missing or invalid host or port, white
    space, and control characters.
    """
    if _NORMAL.fullmatch(uri) and "/." not in uri and len(uri) <= LENGTH_MAX:
        return uri
    if len(uri) > LENGTH_MAX:
        raise BadTarget(f"invalid URL: longer than {LENGTH_MAX} characters")
    if _CONTROLS_AND_SPACE.search(uri):
        raise BadTarget("invalid URL: spaces or control characters")
    scheme, authority, path, query = _parts(_unicode(uri))
    scheme = (scheme or "").lower()
    if scheme not in _PORTS:
        raise BadTarget("invalid URL: expected http:// or https:// at its beginning")
    host, port = _authority(authority or "")
    host_and_port = host if port in (None, _PORTS[scheme]) else f"{host}:{port}"
    target = f"{scheme}://{host_and_port}{_remove_dot_segments(_normalise_text(path))}"
    target = target if query is None else f"{target}?{_normalise_text(query)}"
    if len(target) > LENGTH_MAX:
        raise BadTarget(f"invalid URL: longer than {LENGTH_MAX} characters when it is percent-encoded")
    return target


def is_same(one: str, other: str) -> bool:
    """Return True if two addresses are equal, or have the same normal form. White space around `one` is ignored."""
    try:
        return one.strip() == other or normalise(one.strip()) == normalise(other)
    except BadTarget:
        return False


def resolve(base: str, reference: str) -> str:
    """Return the normalised target of a reference, such as a Location, relative to `base` (RFC 3986, section 5.2).

    Spaces in it are encoded, and white space around it is removed: origins send both. Raises BadTarget if it is
    invalid.
    """
    text = reference.strip(" \t\r\n\f").replace(" ", "%20")
    if _CONTROLS_AND_SPACE.search(text):
        raise BadTarget("invalid reference: control characters")
    scheme, authority, path, query = _parts(text)
    if scheme is None:
        base_scheme, base_authority, base_path, base_query = _parts(base)
        scheme = base_scheme
        if authority is None:
            authority = base_authority
            if not path:
                path = base_path
                query = base_query if query is None else query
            elif not path.startswith("/"):
                path = base_path[: base_path.rfind("/") + 1] + path
                path = path if path.startswith("/") else "/" + path
    authority_part = "" if authority is None else f"//{authority}"
    return normalise(f"{scheme}:{authority_part}{path}" + ("" if query is None else f"?{query}"))


def is_absolute(reference: str) -> bool:
    """Return True if a reference has a scheme (RFC 3986, section 4.1)."""
    return _SCHEME.match(reference.strip(" \t")) is not None


def fragment_of(reference: str) -> str:
    """Return the fragment of a reference with its `#`, or "". Spaces in it are encoded."""
    _, mark, fragment = reference.strip(" \t\r\n\f").replace(" ", "%20").partition("#")
    return mark + fragment


def query_value(query: str, name: str) -> str:
    """Return the first value of a query parameter, or "" if it is absent or the query is invalid."""
    try:
        return parse_qs(query, keep_blank_values=True, max_num_fields=20).get(name, [""])[0]
    except ValueError:
        return ""


def without_fragment(uri: str) -> str:
    """Return the target of a store key: the key without its fragment, which names a credential
    (access/origin_credentials.py)."""
    return uri.partition("#")[0]


def memoize_by_origin[Result](function: Callable[[str], Result]) -> Callable[[str], Result]:
    """Return a function that applies `function` to the scheme and authority of a target, and caches the results."""
    cached = memoize_short()(function)

    @wraps(function)
    def call(uri: str) -> Result:
        end = uri.find("/", len("https://"))
        return cached(uri if end < 0 else uri[:end])

    return call


@memoize_by_origin
def origin_of(uri: str) -> str:
    """Return the origin of a normalised target: its scheme, host and port, such as `https://example.com`."""
    scheme, authority, _, _ = _parts(uri)
    return f"{scheme}://{authority}"


@memoize_by_origin
def split_host_port(uri: str) -> tuple[str, int]:
    """Return host and port of a normalised target. An IPv6 host is returned without brackets."""
    scheme, authority, _, _ = _parts(uri)
    host, port = _split_port(authority or "")
    return host.strip("[]"), int(port) if port else _PORTS[scheme or ""]


def is_local(uri: str) -> bool:
    """Return True if the host is on this machine or in a local network. A name is not resolved."""
    host, _ = split_host_port(uri)
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".test", ".internal", ".local"))


@memoize_by_origin
def host_of(uri: str) -> str:
    """Return the host of a normalised target. An IPv6 address has its brackets."""
    return _split_port(_parts(uri)[1] or "")[0]


@memoize_by_origin
def is_trustworthy(uri: str) -> bool:
    """Return True if a normalised URL is a secure context: TLS, or a loopback host (Secure Contexts, section 3.1)."""
    return uri.startswith("https:") or is_this_machine(host_of(uri))


def is_this_machine(host: str) -> bool:
    """Return True if a URL's host is a loopback address or localhost."""
    host = host.strip("[]").removesuffix(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_every_address(host: str) -> bool:
    """Return True if a listener at this host listens at all addresses of the machine."""
    return host in ("", "0.0.0.0", "::")  # noqa: S104 -- compared, not bound


def join_host_port(host: str, port: int) -> str:
    """Return host and port as in a URI, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _parts(uri: str) -> tuple[str | None, str | None, str, str | None]:
    match = _URI.fullmatch(uri)
    assert match is not None, "the pattern matches any text"
    return match[1], match[2], match[3], match[4]


def _unicode(text: str) -> str:
    """Return text from the wire decoded as UTF-8, or unchanged if it is not UTF-8."""
    if text.isascii():
        return text
    try:
        return text.encode("iso-8859-1").decode("utf-8")
    except UnicodeError:
        return text


def _split_port(authority: str) -> tuple[str, str]:
    host, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        return authority, ""
    return host, port


def _authority(authority: str) -> tuple[str, int | None]:
    """Return the normalised host and port of an authority. The port is None if the authority has no port."""
    if "@" in authority:
        # User information is deprecated (RFC 9110, section 4.2.4) and is used to disguise the host.
        raise BadTarget("invalid URL: a user name or password belongs into the field Authorization")
    host, port = _split_port(authority)
    if not host:
        raise BadTarget("invalid URL: the host is missing")
    return _host(host), _port(port)


def _port(port: str) -> int | None:
    if not port:
        return None
    digits = port.lstrip("0")
    if not (port.isascii() and port.isdigit() and 1 <= len(digits) <= 5 and int(digits) <= 65535):
        # The port is not shown: in `http://user:a/b@host/`, it is the beginning of a password.
        raise BadTarget("invalid port: expected a number from 1 to 65535")
    return int(digits)


def _host(host: str) -> str:
    if host.startswith("["):
        return _ipv6(host)
    name = _a_labels(_percent_decoded(host)).lower().removesuffix(".")
    if len(name) > _HOST_MAX or not _REG_NAME.fullmatch(name):
        # A host with a colon is not shown: in `http://user:a:b/c@host/`, it is the beginning of a password.
        raise BadTarget("invalid host" if ":" in host else f"invalid host {host[:80]!r}")
    return name


def _ipv6(literal: str) -> str:
    if not literal.endswith("]") or "%" in literal:  # a zone is valid on this machine only
        raise BadTarget(f"invalid IPv6 address {literal[:80]!r}")
    try:
        address = ipaddress.IPv6Address(literal[1:-1])
    except ValueError:
        raise BadTarget(f"invalid IPv6 address {literal[:80]!r}") from None
    # Versions of Python differ in how they write mapped addresses; this form is the same in all of them.
    mapped = address.ipv4_mapped
    return f"[::ffff:{mapped}]" if mapped else f"[{address.compressed}]"


def _percent_decoded(host: str) -> str:
    if "%" not in host:
        return host
    try:
        encoded = bytearray()
        for piece in re.split(r"(%[0-9A-Fa-f]{2})", host):
            encoded += bytes.fromhex(piece[1:]) if piece.startswith("%") else piece.encode("utf-8")
        return encoded.decode("utf-8")
    except ValueError:
        raise BadTarget(f"invalid host {host[:80]!r}") from None


def _a_labels(name: str) -> str:
    """Return an internationalised name in ASCII, by IDNA 2008, or by IDNA 2003 if IDNA 2008 fails."""
    if name.isascii():
        return name
    if len(name) > _HOST_MAX:
        raise BadTarget("invalid URL: the host is too long")
    try:
        return idna.encode(name, uts46=True).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        pass
    try:
        return name.encode("idna").decode("ascii")
    except UnicodeError:
        raise BadTarget(f"invalid host {name[:80]!r}") from None


def _normalise_text(text: str) -> str:
    """Return a path or query with unreserved characters decoded (RFC 3986, sections 6.2.2.1 and 6.2.2.2).

    All other percent-encodings remain, in upper case.
    """
    if "%" in text:
        text = _PERCENT.sub(_percent, text)
    return _EXCLUDED.sub(_encode_match, text)


def _percent(match: re.Match[str]) -> str:
    if match[1] is None:
        return "%25"  # a bare percent sign could become percent-encoding together with a decoded character after it
    character = chr(int(match[1], 16))
    return character if character in _UNRESERVED else match[0].upper()


def _encode_match(match: re.Match[str]) -> str:
    try:
        return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8"))
    except UnicodeEncodeError:
        raise BadTarget("invalid URL: the text is not valid Unicode") from None


def _remove_dot_segments(path: str) -> str:
    """Return the path without dot segments (RFC 3986, section 5.2.4). The path of a target is never empty."""
    if "/." not in path:
        return path or "/"
    remaining: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            del remaining[-1:]
        elif segment != ".":
            remaining.append(segment)
    if segments[-1] in (".", ".."):
        remaining.append("")
    return "/" + "/".join(remaining)
