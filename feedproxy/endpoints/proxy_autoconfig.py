"""Proxy auto-configuration: a JavaScript function that tells browsers which requests to send to the proxy. It is
written for the oldest engines in use (ECMAScript 3)."""

import json
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

MEDIA_TYPE = "application/x-ns-proxy-autoconfig"

_PLAIN = re.compile(r"[^a-z0-9_-]")
_HOST = re.compile(r"[a-z0-9._~:\[\]-]+")

_DOCUMENT = """// Hosts that are read through this proxy.
var hosts = {hosts};
var patterns = {patterns};

function FindProxyForURL(url, host) {{
  var i;
  host = String(host).toLowerCase();
  if (!/^https?:/i.test(url)) {{
    return "DIRECT";
  }}
  if (hosts["." + host] === 1) {{
    return {proxy};
  }}
  for (i = 0; i < patterns.length; i += 1) {{
    if (new RegExp(patterns[i]).test(host)) {{
      return {proxy};
    }}
  }}
  return "DIRECT";
}}
"""


def document(base: str, hosts: Iterable[str], patterns: Iterable[str]) -> str:
    """Return the script with the function FindProxyForURL for a proxy at `base`, such as http://proxy.example:8080.

    Requests to `hosts`, and to hosts that match `patterns` such as `*.example.com`, use the proxy. All other requests
    use a direct connection. While the proxy is down, all requests use a direct connection.
    """
    split = urlsplit(base)
    keyword, port = ("HTTPS", 443) if split.scheme == "https" else ("PROXY", 80)
    host = split.hostname or ""
    own = f"[{host}]" if ":" in host else host
    host_table = {f".{name}": 1 for name in sorted(set(hosts)) if _HOST.fullmatch(name) and name != host}
    globs = sorted({_expression(pattern.lower()) for pattern in patterns})
    return _DOCUMENT.format(
        hosts=json.dumps(host_table, indent=1),
        patterns=json.dumps(globs, indent=1),
        proxy=json.dumps(f"{keyword} {own}:{split.port or port}; DIRECT"),
    )


def _expression(pattern: str) -> str:
    """Return a regular expression of JavaScript for a glob: `*` is any text, `?` is one character."""
    wildcards = {"*": ".*", "?": "."}
    return "^" + "".join(wildcards.get(char) or _PLAIN.sub(r"\\\g<0>", char) for char in pattern) + "$"
