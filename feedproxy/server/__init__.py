"""The two ways in which requests reach feedproxy: mitmproxy's flows (mitm/), and the fast path for repeated requests
(fastpath/).

fastpath/mitmproxy_compatibility.py checks at the start that mitmproxy has the internal names which the fast path uses.
"""
