"""The certification authorities for the verification of origins."""

import ssl
from functools import lru_cache


@lru_cache(maxsize=4)
def upstream_context(trusted_ca: str | None, *, insecure: bool) -> ssl.SSLContext:
    """Return the TLS context for origins. It trusts the system's authorities and those in the file `trusted_ca`. If
    `insecure` is true, no certificate is verified."""
    context = ssl.create_default_context()
    if trusted_ca:
        context.load_verify_locations(cafile=trusted_ca)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
