"""A hostile case on a stage: what the origin sends, what the reader gets, and the requests between them."""

import calendar
import gzip
import importlib.util
import json
import re
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import brotli
import zstandard

from feedproxy.clock import ManualClock
from feedproxy.http.message import Fields
from feedproxy.store.resource import Resource
from tests.live.servers import Seen, Whole, ask

NOON: float = calendar.timegm((2026, 11, 20, 12, 0, 0))
"""A Friday: the instant in the Date fields of the cases' responses."""

MINUTE, HOUR, DAY = 60, 3600, 86_400
DEFAULT = 30 * MINUTE
"""Seconds that a feed is fresh if neither HTTP nor the feed states a lifetime."""
FLOOR = 61
"""One second more than the minimum interval between two fetches of a feed."""
MOST = DAY
"""Maximum lifetime, in seconds, by a hint or by a heuristic."""

_LINK = re.compile(r"<(?:[\w-]+:)?link [^<>]*(?:/>|></[\w:-]+>)")


@dataclass(frozen=True)
class Sent:
    """A response of the origin, as far as it can be parsed."""

    status: int
    fields: Fields
    body: bytes

    @classmethod
    def of(cls, raw: bytes) -> "Sent":
        head, _, body = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        status = first.split(" ")[1] if first.startswith("HTTP/1.") else "0"
        pairs = (line.partition(":") for line in lines if ":" in line)
        return cls(int(status), Fields((name, value.strip()) for name, _, value in pairs), body)

    def value(self, name: str) -> str:
        return self.fields.get(name) or ""


@dataclass(frozen=True)
class Asked:
    """A request as the origin received it."""

    method: str
    target: str
    fields: Fields


def load_server(corpus: Path) -> ModuleType:
    """Load the corpus's origin, tools/serve_raw.py, as a module."""
    spec = importlib.util.spec_from_file_location("serve_raw", corpus / "tools" / "serve_raw.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with patch.object(sys, "argv", ["serve_raw.py", str(corpus)]):
        spec.loader.exec_module(module)
    return module


def read_index(corpus: Path) -> list[dict[str, Any]]:
    """Return all cases in the order of the index."""
    cases: list[dict[str, Any]] = json.loads((corpus / "hostile.json").read_text("utf-8"))
    return cases


@dataclass
class Play:
    """One case: `sent` are its responses. `prime` is the valid response sent before them, if any."""

    case: Mapping[str, Any]
    server: ModuleType
    whole: Whole
    corpus: Path
    sent: list[Sent] = field(init=False)
    prime: Sent | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.sent = [Sent.of(raw) for raw in self.server.raw(self.case)]
        if self.case.get("prime"):
            self.use_prime(self.case["prime"])

    @property
    def id(self) -> str:
        return str(self.case["id"])

    @property
    def target(self) -> str:
        return f"http://origin.test/case/{self.id}"

    @property
    def clock(self) -> ManualClock:
        return self.whole.clock

    @property
    def only(self) -> Sent:
        """Return the case's only response."""
        return self.sent[0]

    @property
    def asked(self) -> list[Asked]:
        """Return the requests that the origin received so far."""
        return [
            Asked(method, target, Fields((name, value.strip()) for name, value in fields))
            for method, target, fields in self.server.LOG
        ]

    @property
    def resource(self) -> Resource | None:
        """Return the stored resource of the target."""
        return self.whole.app.service.store.get(self.target)

    def use_prime(self, file: str) -> None:
        """Use this file of the corpus as the valid first response."""
        self.server.CASES[self.id] = {**self.case, "prime": file}
        self.prime = Sent.of((self.corpus / file).read_bytes())

    async def get(self, target: str | None = None, fields: Mapping[str, str] | None = None, **more: str) -> Seen:
        """Send a GET through the gateway. Without `accept_encoding` the client accepts no coding."""
        named = {name.replace("_", "-"): value for name, value in more.items()}
        return await ask(self.whole.port, f"/{target or self.target}", {**named, **(fields or {})})

    async def through_proxy(self, **more: str) -> Seen:
        """Send a GET through the explicit proxy."""
        named = {name.replace("_", "-"): value for name, value in more.items()}
        return await ask(self.whole.port, self.target, named, host="origin.test")

    async def get_again(self, **more: str) -> tuple[Seen, bool]:
        """Send the GET again; return the response, and True if the origin was contacted."""
        before = len(self.asked)
        seen = await self.get(None, None, **more)
        return seen, len(self.asked) > before

    async def primed(self) -> Seen:
        """Store the valid response and wait until it is stale and the origin may be contacted."""
        assert self.prime is not None
        seen = await self.get()
        assert (seen.status, seen.stored) == (200, True), seen.fields
        assert unlinked(seen.body, self.prime.body)
        self.clock.advance(2 * MINUTE)
        return seen


# -- bytes


def decoded(body: bytes, label: str | None) -> bytes:
    """Return a body without its codings, decoded by standard libraries. Raises their errors."""
    for coding in reversed([name.strip().lower() for name in (label or "").split(",") if name.strip()]):
        match coding:
            case "gzip":
                body = gzip.decompress(body)
            case "br":
                body = brotli.decompress(body)
            case "zstd":
                body = zstandard.ZstdDecompressor().decompressobj().decompress(body)
            case "deflate":
                body = zlib.decompress(body, -zlib.MAX_WBITS if body[:1] != b"\x78" else zlib.MAX_WBITS)
            case _:
                raise ValueError(coding)
    return body


def plain(seen: Seen) -> bytes:
    """Return the content that the reader's program finally has."""
    return decoded(seen.body, seen.coding)


def unlinked(body: bytes, original: bytes, encoding: str = "utf-8") -> str | None:
    """Return the text inserted at one place of the original, "" without a difference, or None after other changes."""
    extra = len(body) - len(original)
    if extra == 0 and body == original:
        return ""
    if extra <= 0:
        return None
    same = next((n for n, (one, two) in enumerate(zip(body, original, strict=False)) if one != two), len(original))
    # The text before the place and the inserted text may have a common end. Any such place explains the body.
    for place in range(same, max(-1, same - extra), -1):
        if body[:place] + body[place + extra :] != original:
            return None
        text = body[place : place + extra].decode(encoding, "replace")
        if _LINK.fullmatch(text):
            return text
    return None
