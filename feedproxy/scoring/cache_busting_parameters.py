"""Query parameters that defeat caches: addresses that differ only in such parameters are the same feed."""

import re
from urllib.parse import urlsplit, urlunsplit

from feedproxy.clock import Instant

_BUSTER_NAMES = re.compile(
    r"(?:_|t|ts|time|timestamp|rand|random|rnd|cb|cachebust(?:er)?|nocache|no-?cache|bust|utm_\w+|fbclid|gclid)",
    re.IGNORECASE,
)
_RANDOM_VALUE = re.compile(r"\d{9,14}|0\.\d{6,}|[0-9a-f]{8,}", re.IGNORECASE)


def strip_cache_busters(target: str, at: Instant) -> str:
    """Return the target without query parameters that defeat caches or track how the client found the link. A parameter
    with the approximate time of the request (`at`) as its value defeats caches, too."""
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
    """Return True if `text` is a Unix time in seconds or milliseconds within one day of `at`."""
    if not (text.isascii() and text.isdigit() and len(text) in (10, 13)):
        return False
    return abs(int(text) / (1000 if len(text) == 13 else 1) - at) < 86_400
