"""Exchanges for tests."""

from typing import Any

from feedproxy.http.message import Fields, Request
from feedproxy.lab.record.exchange import Exchange, Side

AT = 1_795_262_400.25
"""21 Nov 2026, noon, and a quarter of a second."""


def an_exchange(target: str = "https://example.com/feed", **changes: Any) -> Exchange:
    """Return a GET and its 200. `asked` and `answered` are field lines, as pairs."""
    asked, answered = changes.pop("asked", ()), changes.pop("answered", ())
    values = {"side": Side.READER, "at": AT, "status": 200, "reason": "OK", **changes}
    return Exchange(request=Request("GET", target, Fields(asked)), fields=Fields(answered), **values)
