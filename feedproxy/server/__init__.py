"""The two ways in which requests reach feedproxy: mitmproxy's flows (mitm/), and the fast path for cached feeds
(fastpath/).

mitmproxy_compatibility.py and http1_limits_and_corrections.py check at the start that mitmproxy has the internal names
which these packages use.
"""
