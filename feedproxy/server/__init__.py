"""The two ways of requests into feedproxy: mitmproxy's flows (mitm/) and the fast path for cached feeds (fastpath/).

Both use internal names of mitmproxy, which mitmproxy_compatibility.py and http1_limits_and_corrections.py check at the
start.
"""
