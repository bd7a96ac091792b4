"""The stage of the fast path: the whole proxy with both listeners for one service.

A response that the fast path sends from memory is requested twice more: from the fast path, and from mitmproxy's
ordinary listener. All three responses must be equal in every field that does not describe the connection.
"""

from typing import Any

from mitmproxy.proxy.mode_servers import ServerInstance

from feedproxy.cache.cache_status import Detail
from feedproxy.clock import ManualClock
from feedproxy.http.message import Fields
from tests.stages.play import OnProxy, Seen

OWN_AFFAIR = ("connection",)


class OnFront(OnProxy):
    """The whole proxy with the fast path, and with the ordinary listener for comparison."""

    def __init__(self, clock: ManualClock, settings: dict[str, Any]) -> None:
        super().__init__(clock, {**settings, "fast_path": True})

    async def open(self) -> None:
        await super().open()
        server = self._master.addons.get("proxyserver")
        (front,) = server.servers
        assert front.mode.type_name.startswith("front"), "the fast path is off"
        self._front = front
        plain = "reverse" if front.mode.type_name == "frontreverse" else "regular"
        spec = front.mode.full_spec.replace(front.mode.type_name, plain, 1)
        self._ordinary: ServerInstance[Any] = ServerInstance.make(f"{spec}@127.0.0.1:0", server)
        await self._ordinary.start()
        self.ordinary = f"http://127.0.0.1:{self._ordinary.listen_addrs[0][1]}"

    async def close(self) -> None:
        await self._ordinary.stop()
        await super().close()

    async def ask(self, method: str, line: str, fields: Fields, *, address: str, body: bytes = b"") -> Seen:
        first = await super().ask(method, line, fields, address=address, body=body)
        self._front._listener._handler.access_logger.batch.flush()  # scenarios read the log immediately
        if body or method not in ("GET", "HEAD") or not _may_be_asked_again(first):
            return first
        if "host" not in fields:
            fields = Fields([("Host", self.base.removeprefix("http://")), *fields]) if line.startswith("/") else fields
        asked = self.origin.requests
        by_heart = []
        for _ in range(3):
            by_heart.append(await super().ask(method, line, fields, address=address))
        base, self.base = self.base, self.ordinary
        try:
            ordinary = await super().ask(method, line, fields, address=address)
        finally:
            self.base = base
        for again in (*by_heart, ordinary):
            assert _told(again) == _told(by_heart[0])
            assert again.body == first.body
        assert self.origin.requests == asked, "a hit asks nobody"
        return first


def _may_be_asked_again(seen: Seen) -> bool:
    """Return True if repeating the request changes nothing: it is a hit, and causes no refresh."""
    words = [word.strip() for word in seen.cache.split(";")]
    return "hit" in words and f"detail={Detail.STALE_WHILE_REVALIDATE}" not in words


def _told(seen: Seen) -> tuple[int, list[tuple[str, str]]]:
    return seen.status, sorted((name.lower(), value) for name, value in seen.fields if name.lower() not in OWN_AFFAIR)
