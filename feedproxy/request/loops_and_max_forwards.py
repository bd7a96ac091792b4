"""Loops of proxies: detection by Via (RFC 9110, section 7.6.3), and the limit of Max-Forwards (section 7.6.2)."""

import re
from collections.abc import Callable

from feedproxy.http.message import Fields, Request


def new_pseudonym(random_bytes: Callable[[int], bytes]) -> bytes:
    """Return a new pseudonym, which stands for this installation in Via."""
    return f"feedproxy-{random_bytes(4).hex()}".encode()


def is_loop(fields: Fields, pseudonym: str) -> bool:
    """Return True if Via contains the pseudonym of this installation."""
    via = fields.combined("via")
    return (
        via is not None
        and pseudonym in via
        and any(len(parts := member.split()) >= 2 and parts[1] == pseudonym for member in via.split(","))
    )


def may_forward(request: Request) -> bool:
    """Return True unless this proxy must answer the request itself: OPTIONS with `Max-Forwards: 0` (RFC 9110, section
    7.6.2)."""
    return request.method != "OPTIONS" or _max_forwards(request.fields) != 0


def with_lower_max_forwards(fields: Fields, method: str) -> Fields:
    """Return the fields with which a request is forwarded: in OPTIONS, Max-Forwards is one less (RFC 9110, section
    7.6.2). An invalid value stays unchanged."""
    hops = _max_forwards(fields) if method == "OPTIONS" else None
    return fields if hops is None else fields.with_field("Max-Forwards", str(hops - 1))


def _max_forwards(fields: Fields) -> int | None:
    hops = fields.combined("max-forwards") or ""
    return int(hops) if re.fullmatch(r"[0-9]{1,9}", hops) else None
