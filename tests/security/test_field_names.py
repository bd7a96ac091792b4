"""Fields that servers confuse with others, or with the request's target, are not forwarded.

CGI and WSGI treat X_Forwarded_Host as X-Forwarded-Host.
"""

import pytest

from tests.security.conftest import bases
from tests.security.wire import exchange, head_of, raw_origin, status_of
from tests.stages.front import OnFront

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = (
    *("X_Forwarded_Host", "X-Forwarded_Host", "x_forwarded_for", "X.Forwarded.Proto", "X_Real_IP", "X~Forwarded~Host"),
    *("X-Original-URL", "X-Original-URI", "X-Rewrite-URL", "X-HTTP-Path-Override"),
    *("X-Original-Host", "X-Host", "X-HTTP-Host-Override", "X-Base-URL"),
    *("Content_Length", "Transfer_Encoding", "Host_", "Proxy_", "Cookie_", "_Authorization", "X|A", "X!A", "Proxy"),
)


@pytest.mark.parametrize("name", NAMES)
async def test_streamed_request_has_no_ambiguous_field(stage: OnFront, name: str) -> None:
    for path, base in bases(stage).items():
        async with raw_origin() as origin:
            request = (
                f"POST /{origin.base}/x HTTP/1.1\r\nHost: a.example\r\n{name}: evil\r\nX-Kept: kept\r\n"
                "Content-Length: 1\r\nConnection: close\r\n\r\nx"
            )

            said = await exchange(base, request.encode())

            assert status_of(said) == 200, path
            sent = head_of(origin.received).lower()
            assert b"x-kept: kept" in sent, path
            assert b"evil" not in sent, path


@pytest.mark.parametrize("name", ["X_Forwarded_Host", "X-Original-URL", "Content_Length", "Transfer_Encoding", "Proxy"])
async def test_request_for_a_new_target_has_no_ambiguous_field(stage: OnFront, name: str) -> None:
    for path, base in bases(stage).items():
        async with raw_origin() as origin:
            request = (
                f"GET /{origin.base}/x HTTP/1.1\r\nHost: a.example\r\nAccept: text/html\r\n{name}: evil\r\n"
                "X-Kept: kept\r\nConnection: close\r\n\r\n"
            )

            said = await exchange(base, request.encode())

            assert status_of(said) == 200, path
            sent = head_of(origin.received).lower()
            assert b"x-kept: kept" in sent, path
            assert b"evil" not in sent, path
