"""The two ways in which requests reach feedproxy: mitmproxy's flows (mitm/), and the fast path for repeated requests
(fastpath/)."""
