"""WebSub signatures of pushed content (W3C Recommendation, section 7.1), challenges, and tokens of callbacks."""

import hmac
import secrets

SEAL_LENGTH = 16
"""Number of hexadecimal digits (64 bits) of the HMAC at the end of a sealed token (`sealed_token`)."""

METHODS = ("sha1", "sha256", "sha384", "sha512")
"""Recognised names of hash algorithms (WebSub, section 7.1.1)."""


def challenge(nonce: str, attempt: int) -> str:
    """Return a "random, single-use hub.challenge" for an attempt at a verification. `nonce` is the random text of the
    verification, and `attempt` the number of the attempt."""
    return hmac.new(nonce.encode(), str(attempt).encode(), "sha256").hexdigest()


def signature(secret: str, body: bytes, method: str) -> str:
    """Return the value of the field X-Hub-Signature."""
    return f"{method}={hmac.new(secret.encode(), body, method).hexdigest()}"


def is_signed(value: str | None, secret: str, body: bytes) -> bool:
    """Return whether X-Hub-Signature is valid for this secret and body, in constant time. Return False if `secret` is
    empty."""
    method, _, digest = (value or "").strip().partition("=")
    if not secret or method.lower() not in METHODS or not digest.isascii():
        return False
    expected = hmac.new(secret.encode(), body, method.lower()).hexdigest()
    return hmac.compare_digest(expected.encode(), digest.strip().lower().encode())


def token() -> str:
    """Return a secret of 192 random bits, for callback URLs and signatures."""
    return secrets.token_urlsafe(24)


def sealed_token(key: bytes) -> str:
    """Return a random token that ends in an HMAC by `key`. `is_sealed` recognises the token without the database."""
    nonce = secrets.token_urlsafe(24)
    return nonce + _seal(key, nonce)


def is_sealed(key: bytes, text: str) -> bool:
    """Return whether `text` is a token that `sealed_token` made with `key`."""
    nonce, seal = text[:-SEAL_LENGTH], text[-SEAL_LENGTH:]
    return hmac.compare_digest(_seal(key, nonce).encode(), seal.encode("utf-8", "replace"))


def _seal(key: bytes, nonce: str) -> str:
    return hmac.new(key, nonce.encode("utf-8", "replace"), "sha256").hexdigest()[:SEAL_LENGTH]
