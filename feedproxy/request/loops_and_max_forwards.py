"""Loops of proxies: detection by Via (RFC 9110, section 7.6.3), and the limit of Max-Forwards (section 7.6.2)."""

import re
from collections.abc import Callable

from feedproxy.http.message import Fields


def new_pseudonym(random_bytes: Callable[[int], bytes]) -> bytes:
    """Return a new pseudonym of an installation in Via."""
    return f"feedproxy-{random_bytes(4).hex()}".encode()


def is_loop(fields: Fields, pseudonym: str) -> bool:
    """Return True if Via contains the pseudonym of this installation."""
    via = fields.combined("via")
    return (
        via is not None
        and pseudonym in via
        and any(len(parts := member.split()) >= 2 and parts[1] == pseudonym for member in via.split(","))
    )


def max_forwards(fields: Fields) -> int | None:
    """Return the value of Max-Forwards (RFC 9110, section 7.6.2), or None if it is missing or invalid."""
    hops = fields.combined("max-forwards") or ""
    return int(hops) if re.fullmatch(r"[0-9]{1,9}", hops) else None
