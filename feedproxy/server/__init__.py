"""The two ways of requests into feedproxy: mitmproxy's flows (mitm/) and the fast path for cached feeds (fastpath/).

Both use internal names of mitmproxy, which mitmproxy_compatibility.py and http1_patches.py check at the start.
"""
