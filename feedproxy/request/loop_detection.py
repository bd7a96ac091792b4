"""Detection of requests that this installation has forwarded before (RFC 9110, section 7.6.3)."""

from feedproxy.http.message import Fields


def is_loop(fields: Fields, pseudonym: str) -> bool:
    """Return True if Via contains the pseudonym of this installation."""
    via = fields.combined("via")
    return via is not None and any(
        len(parts := member.split()) >= 2 and parts[1] == pseudonym for member in via.split(",")
    )
