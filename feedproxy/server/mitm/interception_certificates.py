"""mitmproxy's certificate authority, and its certificates for intercepted connections.

Both remain usable if the machine's clock is set after they were made.

mitmproxy makes a certificate for a host at the first connection to the host. The certificate is valid for about 200
days, and mitmproxy keeps it until the process ends.
"""

import datetime

from mitmproxy import certs
from mitmproxy.addons import tlsconfig
from mitmproxy.certs import CertStoreEntry
from mitmproxy.proxy.context import Context

from feedproxy.clock import Instant, is_unset

RENEW_BEFORE = datetime.timedelta(days=30)
"""A certificate is made again when it is valid for less than this time."""


AUTHORITY_LIFETIME_WITHOUT_CLOCK = datetime.timedelta(days=80 * 365)
"""A certificate authority that is made while the clock shows 1970 is valid for this time. With mitmproxy's ten years,
it would have expired as soon as the clock is set."""


def extend_new_authority(now: Instant) -> None:
    """Let mitmproxy make an authority that is valid for longer if the machine's clock is not set."""
    if is_unset(now):
        certs.CA_EXPIRY = AUTHORITY_LIFETIME_WITHOUT_CLOCK


class TlsConfig(tlsconfig.TlsConfig):
    """mitmproxy's addon of this name, which here also renews certificates that it has made."""

    def get_cert(self, conn_context: Context) -> CertStoreEntry:
        entry = super().get_cert(conn_context)
        now = datetime.datetime.now(datetime.UTC)
        # A certificate that was made before the clock was set back is not valid yet.
        is_valid = entry.cert.notbefore <= now and entry.cert.notafter - now >= RENEW_BEFORE
        # The operator's own certificates (option certs) are not in the queue.
        if is_valid or entry not in self.certstore.expire_queue:
            return entry
        self.certstore.expire_queue.remove(entry)
        self.certstore.certs = {name: other for name, other in self.certstore.certs.items() if other is not entry}
        return super().get_cert(conn_context)
