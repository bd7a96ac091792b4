"""Certificates of mitmproxy's authority for intercepted connections, renewed before they expire.

mitmproxy makes a certificate for a host at the first connection to the host. The certificate is valid for about 200
days, and mitmproxy keeps it until the process ends.
"""

import datetime

from mitmproxy.addons import tlsconfig
from mitmproxy.certs import CertStoreEntry
from mitmproxy.proxy.context import Context

RENEW_BEFORE = datetime.timedelta(days=30)
"""A certificate is made again when it is valid for less than this time."""


class TlsConfig(tlsconfig.TlsConfig):
    """mitmproxy's addon of this name, which here also renews certificates that it has made."""

    def get_cert(self, conn_context: Context) -> CertStoreEntry:
        entry = super().get_cert(conn_context)
        now = datetime.datetime.now(datetime.UTC)
        # The operator's own certificates (option certs) are not in the queue.
        if entry.cert.notafter - now >= RENEW_BEFORE or entry not in self.certstore.expire_queue:
            return entry
        self.certstore.expire_queue.remove(entry)
        self.certstore.certs = {name: other for name, other in self.certstore.certs.items() if other is not entry}
        return super().get_cert(conn_context)
