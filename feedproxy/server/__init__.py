"""The two ways in which requests reach feedproxy: mitmproxy's flows (mitm/), and the fast path for cached feeds
(fastpath/).

Both use internal names of mitmproxy. mitmproxy_compatibility.py and http1_limits_and_corrections.py check at the start
that mitmproxy has these names.
"""
