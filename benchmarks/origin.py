"""The origin on loopback, with any feed of feed.py, which caches may store for a day: `python -m benchmarks.origin
PORT`.

It answers `GET /asked` with the number of requests for feeds, so that a false hit is detected.
"""

import asyncio
import sys
from email.utils import formatdate

from benchmarks import feed

BIRTH = formatdate(1_717_200_000, usegmt=True)


class Origin(asyncio.Protocol):
    """One connection. Requests are GETs without content, one after another."""

    asked = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.rest = b""

    def data_received(self, data: bytes) -> None:
        *heads, self.rest = (self.rest + data).split(b"\r\n\r\n")
        for head in heads:
            self.transport.write(answer(head))
            if b"\r\nconnection: close" in head.lower() or b" HTTP/1.0" in head:
                self.transport.close()


def answer(head: bytes) -> bytes:
    """Return the response to the request with this head."""
    line, _, fields = head.partition(b"\r\n")
    target = line.split(b" ")[1].decode()
    if target == "/asked":
        return _message("200 OK", str(Origin.asked).encode())
    if not target.startswith("/feed/") or not target.endswith(".rss"):
        return _message("404 Not Found", b"")
    Origin.asked += 1
    name = target.removeprefix("/feed/").removesuffix(".rss")
    common = (
        "Content-Type: application/rss+xml; charset=utf-8",
        "Cache-Control: public, max-age=86400",
        "Vary: Accept-Encoding",
        f"Last-Modified: {BIRTH}",
        f"ETag: {feed.tag(name)}",
    )
    if f"\r\nif-none-match: {feed.tag(name)}\r\n".encode() in b"%b\r\n" % fields.lower():
        return _message("304 Not Modified", b"", *common)
    if any(each.lower().startswith(b"accept-encoding:") and b"gzip" in each for each in fields.split(b"\r\n")):
        return _message("200 OK", feed.zipped(name), *common, "Content-Encoding: gzip")
    return _message("200 OK", feed.feed(name), *common)


def _message(status: str, content: bytes, *fields: str) -> bytes:
    length = [] if status.startswith("304") else [f"Content-Length: {len(content)}"]
    head = [f"HTTP/1.1 {status}", f"Date: {formatdate(usegmt=True)}", *fields, *length]
    return "\r\n".join([*head, "", ""]).encode() + content


async def main(port: int) -> None:
    """Run the origin until it is ended."""
    server = await asyncio.get_running_loop().create_server(Origin, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
