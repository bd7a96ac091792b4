"""Calls of callbacks, hubs and sinks: what is sent, and what of the response is read."""

import pytest

from feedproxy.errors import BadTarget
from feedproxy.http.message import Fields
from feedproxy.upstream.callback_client import RESPONSE_MAX, CallbackClient
from feedproxy.upstream.upstream_errors import FetchError
from tests.upstream.raw import OK, a_policy, origin, play


async def test_call_sends_content_with_its_length() -> None:
    async with origin(OK) as raw:
        caller = CallbackClient(a_policy())
        answer = await caller.call("POST", raw.url("/callback?a=%41"), Fields([("X-Hub-Signature", "sha1=1")]), b"body")
        await caller.close()
        assert (answer.status, answer.body) == (200, b"ok")
        assert raw.heads[0].startswith(b"POST /callback?a=%41 HTTP/1.1\r\n")
        assert b"\r\nX-Hub-Signature: sha1=1\r\n" in raw.heads[0]
        assert b"\r\nContent-Length: 4\r\n" in raw.heads[0]


async def test_field_host_replaces_host_of_url() -> None:
    async with origin(OK) as raw:
        caller = CallbackClient(a_policy())
        await caller.call("PURGE", raw.url("/feed"), Fields([("Host", "feeds.example")]))
        await caller.close()
        assert raw.heads[0].count(b"Host: ") == 1
        assert b"\r\nHost: feeds.example\r\n" in raw.heads[0]


@pytest.mark.parametrize("host", ["feeds.example\r\nX-Injected: 1", "fêeds.example"])
async def test_request_with_invalid_host_field_is_not_sent(host: str) -> None:
    async with origin(OK) as raw:
        caller = CallbackClient(a_policy())
        with pytest.raises(BadTarget):
            await caller.call("PURGE", raw.url("/feed"), Fields([("Host", host)]))
        await caller.close()
        assert not raw.heads


async def test_callback_client_drops_content_above_response_max() -> None:
    size = RESPONSE_MAX + 1
    async with origin(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (size, b"x" * size)) as raw:
        caller = CallbackClient(a_policy())
        answer = await caller.call("GET", raw.url())
        await caller.close()
        assert (answer.status, answer.body) == (200, b"")


async def test_callback_client_does_not_follow_redirects() -> None:
    async with origin(b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n") as raw:
        caller = CallbackClient(a_policy())
        assert (await caller.call("GET", raw.url())).status == 302
        await caller.close()
        assert len(raw.heads) == 1


async def test_request_with_content_is_not_repeated_after_close_of_pooled_connection() -> None:
    """The server may have acted on the request before it closed the connection."""
    async with origin(OK, play(then="close")) as raw:
        caller = CallbackClient(a_policy())
        await caller.call("POST", raw.url(), body=b"")
        with pytest.raises(FetchError):
            await caller.call("POST", raw.url(), body=b"")
        await caller.close()
        assert len(raw.heads) == 2


async def test_connection_is_not_reused_after_a_request_with_content() -> None:
    """A server can answer before it reads the content, and then take the content for its next request."""
    async with origin(OK, OK, OK) as raw:
        caller = CallbackClient(a_policy())
        await caller.call("POST", raw.url("/hub"), body=b"GET /other?")
        answer = await caller.call("GET", raw.url("/verification"))
        assert (answer.status, raw.connections) == (200, 2)
        await caller.call("GET", raw.url("/verification"))
        await caller.close()
        assert raw.connections == 2  # a request without content leaves its connection open


async def test_purge_is_repeated_after_close_of_pooled_connection() -> None:
    async with origin(OK, play(then="close"), OK) as raw:
        caller = CallbackClient(a_policy())
        await caller.call("PURGE", raw.url())
        answer = await caller.call("PURGE", raw.url())
        await caller.close()
        assert answer.status == 200
        assert (len(raw.heads), raw.connections) == (3, 2)
