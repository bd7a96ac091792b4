"""Names that distinguish readers.

A reader is a network address with a User-Agent; the number of subscribers in the User-Agent does not count. If
the target contains a secret, such as the token of a private feed, a hash of the secret replaces the network address.
"""

import hashlib
from typing import NamedTuple

from feedproxy.client_network import client_network
from feedproxy.http.memoize import memoize_short
from feedproxy.http.target_uri.url_redaction import without_secrets
from feedproxy.http.user_agent import parse_claim


class ReaderName(NamedTuple):
    """The name of a reader.

    `reader` is the hash of the secrets in the target (`secret_hash`), or a pseudonym of the network address if the
    target has no secret. `user_agent` is the User-Agent without the number of subscribers.
    """

    reader: str
    user_agent: str


def reader_name(address: str, user_agent: str, target: str) -> ReaderName:
    """Return the name of the reader that sent a request."""
    return ReaderName(secret_hash(target) or address, distinguishing_part(user_agent))


def address_pseudonym(address: str, key: bytes) -> str:
    """Return the pseudonym of a network address: a hash, under `key`, of the network that counts as one client."""
    return f"reader-{hashlib.blake2b(client_network(address).encode(), key=key, digest_size=4).hexdigest()}"


@memoize_short()
def distinguishing_part(user_agent: str) -> str:
    """Return the part of a User-Agent that distinguishes readers: everything except the number of subscribers."""
    claim = parse_claim(user_agent)
    return f"{claim.fetcher}\0claim" if claim is not None else user_agent


@memoize_short(longest=2048)
def secret_hash(target: str) -> str:
    """Return a hash of the secrets in a target, or "" if the target has no secret."""
    secrets: list[str] = []

    def collect(secret: str) -> str:
        secrets.append(secret)
        return ""

    try:
        without_secrets(target, collect)
    except ValueError:
        return ""
    joined = "\0".join(filter(None, secrets))
    # Placeholders for secrets in recordings are not hashed, so that they can be searched for in the recording.
    if not joined or joined.startswith("redacted-"):
        return joined
    return f"key-{hashlib.blake2b(joined.encode(), digest_size=6).hexdigest()}"
