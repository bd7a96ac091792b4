"""An origin that authenticates connections (NTLM, Negotiate) does not answer one client as another."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.security.wire import exchange, port_of
from tests.stages.front import OnFront

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer as the user of the connection, as IIS does."""
    user = b"nobody"
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            if re.search(rb"(?i)\r\nauthorization:\s*(?:ntlm|negotiate|kerberos)\s", head):
                user = b"alice"
            fields = b"Content-Type: text/plain\r\nCache-Control: max-age=600\r\nContent-Length: %d" % len(user)
            writer.write(b"HTTP/1.1 200 OK\r\n%b\r\n\r\n%b" % (fields, user))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


@asynccontextmanager
async def authenticating_origin() -> AsyncIterator[str]:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


def asking(stage: OnFront, target: str, *fields: str, method: str = "GET") -> bytes:
    lines = [f"{method} /{target} HTTP/1.1", f"Host: 127.0.0.1:{port_of(stage.base)}", "Content-Length: 0", *fields]
    if method == "GET":
        lines.remove("Content-Length: 0")
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize("credentials", ["NTLM YWxpY2U=", "negotiate YWxpY2U=", "Kerberos\tYWxpY2U="])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_next_client_is_not_answered_as_the_user_of_the_connection(
    stage: OnFront, method: str, credentials: str
) -> None:
    async with authenticating_origin() as origin:
        said = await exchange(
            stage.base,
            asking(stage, f"{origin}/mine", f"Authorization: {credentials}", method=method),
            asking(stage, f"{origin}/page", "Connection: close", method=method),
        )

    assert re.findall(rb"\r\n\r\n(alice|nobody)", said) == [b"alice", b"nobody"]


async def test_basic_and_bearer_credentials_leave_the_connection_to_the_next_client(stage: OnFront) -> None:
    connections = 0

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await _serve(reader, writer)

    server = await asyncio.start_server(count, "127.0.0.1", 0)
    origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    for fields in (["Authorization: Basic YTpi"], ["Authorization: Bearer ntlm"], []):
        await exchange(stage.base, asking(stage, f"{origin}/{len(fields)}", *fields, "Connection: close"))
    server.close()

    assert connections == 1
