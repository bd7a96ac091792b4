"""Request fields that identify a user, and credentials that authenticate a connection.  RFC 4559, section 6"""

import re

from feedproxy.http.field_values import TOKEN
from feedproxy.http.memoize import memoize_short

CONNECTION_SCHEMES = frozenset({"ntlm", "negotiate", "kerberos", "credssp"})
"""Schemes that authenticate a connection, and thereby all later requests on the connection (RFC 4559, section 6)."""

_CREDENTIAL = re.compile(
    r"(?:(?!proxy-).*-)?authori[sz]ation|cookie2?|x-wsse|dpop|(?:x-)?auth(?!or).*|(?:(?!surrogate).*-)?key"
    r"|.*(?:token|secret|passw|api-?key|access-?key|session|signature|credential|csrf|xsrf|-auth(?:\Z|-)).*"
    r"|.*(?:jwt|oidc|bearer|client-?cert).*"
)


@memoize_short()
def is_credential(name: str) -> bool:
    """Return True if a field with this name identifies a user."""
    return _CREDENTIAL.fullmatch(name.lower().replace("_", "-")) is not None


def authenticates_connection(credentials: str) -> bool:
    """Return True if this value of Authorization authenticates the connection.

    The connection must then not be shared: the origin would take another client's request for one of this client.
    """
    scheme = TOKEN.match(credentials)
    return scheme is not None and scheme[0].lower() in CONNECTION_SCHEMES
