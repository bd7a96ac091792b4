"""Proxy auto-configuration: a function in JavaScript by which browsers find out what to ask the proxy for.

Written for the oldest engines that browsers and systems have for it (ECMAScript 3), with nothing but what the language
itself has. Names of hosts stand in it as strings of JSON, which are strings of JavaScript, too.
"""

import json
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

MEDIA_TYPE = "application/x-ns-proxy-autoconfig"

_PLAIN = re.compile(r"[^a-z0-9_-]")
_HOST = re.compile(r"[a-z0-9._~:\[\]-]+")

_DOCUMENT = """// What is read through this proxy, and nothing else.
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
    """Return the function for a proxy at `base` (http://proxy.example:8080).

    Requests to these hosts, or to hosts that match these patterns (`*.example.com`), use the proxy, or no proxy if
    it is down. All others use no proxy.
    """
    split = urlsplit(base)
    word, port = ("HTTPS", 443) if split.scheme == "https" else ("PROXY", 80)
    host = split.hostname or ""
    own = f"[{host}]" if ":" in host else host
    named = {f".{each}": 1 for each in sorted(set(hosts)) if _HOST.fullmatch(each) and each != host}
    globs = sorted({_expression(each.lower()) for each in patterns})
    return _DOCUMENT.format(
        hosts=json.dumps(named, indent=1),
        patterns=json.dumps(globs, indent=1),
        proxy=json.dumps(f"{word} {own}:{split.port or port}; DIRECT"),
    )


def _expression(pattern: str) -> str:
    """Return a glob as a regular expression of JavaScript: `*` is anything, `?` one character."""
    known = {"*": ".*", "?": "."}
    return "^" + "".join(known.get(each) or _PLAIN.sub(r"\\\g<0>", each) for each in pattern) + "$"
