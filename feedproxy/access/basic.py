"""Basic credentials (RFC 7617), from clients and for origins."""

import base64
from dataclasses import dataclass, field

from feedproxy.http.field_values import quote

CREDENTIALS_MAX = 4_096
"""A field of more than this many characters is not parsed as credentials."""


@dataclass(frozen=True, slots=True)
class BasicCredentials:
    """A user name with its password."""

    user: str
    password: str = field(repr=False)


def parse(value: str) -> BasicCredentials | None:
    """Return the credentials in a value of Authorization, or None if the scheme is not Basic or the value is malformed.

    A value with control characters is malformed (RFC 7617, section 2). Bytes that are not UTF-8 are decoded as
    ISO-8859-1, which old feed readers send.
    """
    scheme, _, token = value.strip().partition(" ")
    if scheme.lower() != "basic" or len(token) > CREDENTIALS_MAX:
        return None
    try:
        raw = base64.b64decode(token.strip(), validate=True)
    except ValueError:  # also for characters outside ASCII
        return None
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    user, colon, password = text.partition(":")
    if not colon or not user or any(ord(sign) < 32 or ord(sign) == 127 for sign in text):
        return None
    return BasicCredentials(user, password)


def format_credentials(credentials: BasicCredentials) -> str:
    """Return the credentials as a value of Authorization."""
    pair = f"{credentials.user}:{credentials.password}"
    return "Basic " + base64.b64encode(pair.encode()).decode("ascii")


def challenge(realm: str) -> str:
    """Return a value of WWW-Authenticate or Proxy-Authenticate that requests UTF-8 (RFC 7617, section 2.1)."""
    return f'Basic realm={quote(realm)}, charset="UTF-8"'
