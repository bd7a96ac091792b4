"""Whom we believe that an origin is who it says."""

import ssl


def upstream_context(trusted_ca: str | None, *, insecure: bool) -> ssl.SSLContext:
    """TLS to origins: the system's authorities and the operator's (`ssl_verify_upstream_trusted_ca`)."""
    context = ssl.create_default_context()
    if trusted_ca:
        context.load_verify_locations(cafile=trusted_ca)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
