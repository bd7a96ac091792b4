"""TLS with clients by mitmproxy: the certificates of its certificate authority, and the protocols on offer (ALPN).

mitmproxy makes a certificate for a host at the first connection to the host, valid for about 200 days. It would use the
certificate until the process ends. Here, a certificate is replaced before it expires, or if it is not valid yet because
the clock was set back.
"""

import datetime

from mitmproxy import certs, tls
from mitmproxy.addons import tlsconfig
from mitmproxy.certs import CertStoreEntry
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http import HttpStream

from feedproxy.clock import Instant, is_unset

RENEW_BEFORE = datetime.timedelta(days=30)
"""A certificate is replaced when its remaining validity is less than this time."""


AUTHORITY_LIFETIME_WITHOUT_CLOCK = datetime.timedelta(days=80 * 365)
"""A certificate authority that is made while the clock shows 1970 is valid for this time. With mitmproxy's ten years,
it would expire when the clock is set."""


def extend_new_authority(now: Instant) -> None:
    """Give a new certificate authority AUTHORITY_LIFETIME_WITHOUT_CLOCK if `now` shows that the clock is not set."""
    if is_unset(now):
        certs.CA_EXPIRY = AUTHORITY_LIFETIME_WITHOUT_CLOCK


class TlsConfig(tlsconfig.TlsConfig):
    """mitmproxy's addon of this name, which here also replaces certificates. It offers HTTP/2 only in tunnels
    (docs/decisions/http2-for-readers.md)."""

    def tls_start_client(self, tls_start: tls.TlsData) -> None:
        super().tls_start_client(tls_start)
        # In a tunnel, the stream of the CONNECT surrounds the layer of TLS.
        is_in_tunnel = any(isinstance(layer, HttpStream) for layer in tls_start.context.layers)
        if tls_start.ssl_conn is not None and not is_in_tunnel:
            tls_start.ssl_conn.set_app_data({**tls_start.ssl_conn.get_app_data(), "client_alpn": b"http/1.1"})

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
