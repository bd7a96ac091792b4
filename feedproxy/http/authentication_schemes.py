"""Authentication schemes that authenticate a connection.  RFC 4559, section 6"""

from feedproxy.http.field_values import TOKEN

CONNECTION_SCHEMES = frozenset({"ntlm", "negotiate", "kerberos", "credssp"})
"""Schemes that authenticate a connection, and thereby all later requests on the connection (RFC 4559, section 6)."""


def authenticates_connection(credentials: str) -> bool:
    """Return True if this value of Authorization authenticates the connection.

    The connection must then not be shared: the origin would take a later request of another client as a request of the
    first client.
    """
    scheme = TOKEN.match(credentials)
    return scheme is not None and scheme[0].lower() in CONNECTION_SCHEMES
