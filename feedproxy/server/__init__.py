"""The two ways by which requests arrive: mitmproxy's flows (mitm/) and the fast path for cached feeds (fastpath/).

Both use internal names of mitmproxy. mitmproxy_compatibility.py and http1_patches.py check at the start that mitmproxy
has these names.
"""
