"""Names of hosts for private use: names that the public DNS does not have."""

PRIVATE_SUFFIXES = frozenset(
    {"example", "internal", "local", "localhost", "test", "home", "lan", "corp", "intranet", "private"}
)
"""Top-level names outside the public DNS (RFC 6761; RFC 6762, appendix G; ICANN for `internal` in 2024)."""


def has_private_suffix(host: str) -> bool:
    """Return True if a host name is below a suffix for private use. `host` must be in lower case."""
    _, dot, suffix = host.rpartition(".")
    return (bool(dot) and suffix in PRIVATE_SUFFIXES) or is_residential(host)


def is_residential(host: str) -> bool:
    """Return True if a name is below `home.arpa`, and therefore "not globally unique" (RFC 8375, section 3)."""
    return host.endswith(".home.arpa")
