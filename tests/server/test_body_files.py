"""Large bodies that are requested often are sent from files in memory, entire and in order."""

import asyncio
import os
import socket
from types import SimpleNamespace

import pytest

from feedproxy.server.fastpath import body_files
from feedproxy.server.fastpath.body_files import BODY_MIN, REQUESTS_MIN, SIZE_MAX, BodyFiles
from feedproxy.server.fastpath.client_connection import ClientConnection
from tests.server.conftest import Opened
from tests.stages.origin import a_feed


def requested(files: BodyFiles, body: bytes, count: int = REQUESTS_MIN) -> int | None:
    """Request a body `count` times, and return the last result."""
    for _ in range(count - 1):
        files.descriptor(body)
    return files.descriptor(body)


def test_body_gets_a_file_after_several_requests_in_a_second() -> None:
    files, body = BodyFiles(), os.urandom(BODY_MIN)

    assert requested(files, body, REQUESTS_MIN - 1) is None
    files.close_unused()
    assert requested(files, body, REQUESTS_MIN - 1) is None
    descriptor = files.descriptor(body)

    assert descriptor is not None
    assert os.pread(descriptor, len(body) + 1, 0) == body
    files.close()


def test_file_without_requests_is_closed() -> None:
    files, body = BodyFiles(), os.urandom(BODY_MIN)
    descriptor = requested(files, body)
    assert descriptor is not None
    files.close_unused()
    assert files.descriptor(body) == descriptor
    files.close_unused()

    files.close_unused()

    assert files.size == 0
    with pytest.raises(OSError):
        os.fstat(descriptor)


def test_files_together_are_limited() -> None:
    files, first, second = BodyFiles(), bytes(SIZE_MAX - BODY_MIN + 1), bytes(BODY_MIN)

    assert requested(files, first) is not None
    assert requested(files, second) is None

    assert files.size == len(first)
    files.close()


def test_body_is_sent_by_a_copy_without_free_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", fail)

    assert requested(BodyFiles(), bytes(BODY_MIN)) is None


def test_body_is_sent_by_a_copy_if_python_cannot_create_files_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python has no memfd_create if it was built for glibc before 2.27."""
    monkeypatch.delattr(os, "memfd_create")

    assert requested(BodyFiles(), bytes(BODY_MIN)) is None


async def test_response_from_a_file_is_entire_also_for_a_slow_client(
    front: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_files, "REQUESTS_MIN", 1)
    proxy = await front()
    proxy.origin.publish("/large.rss", a_feed(*(f"entry {number} {'x' * 400}" for number in range(4000)), ttl=60))
    request = proxy.get("/large.rss").replace(b"Accept-Encoding: gzip", b"Accept-Encoding: identity")
    line = await proxy.warm(request)
    expected = (await line.ask(request)).body
    assert BODY_MIN < len(expected) <= SIZE_MAX
    assert (await line.ask(request)).body == expected
    assert sum(cache.body_files.size for cache in proxy.listener._caches.values()) == len(expected)

    slow = await proxy.line()
    await slow.say(request)
    await asyncio.sleep(0)  # the proxy sends until the client's buffers are full
    await slow.say(request)

    assert (await slow.hear()).body == expected
    assert (await slow.hear()).body == expected


@pytest.mark.parametrize("hands_off", [False, True], ids=["closed", "handed off"])
def test_connection_that_sent_a_file_leaves_its_descriptor_alone_after_its_end(hands_off: bool) -> None:
    files, body = BodyFiles(), os.urandom(BODY_MIN)
    requested(files, body)
    near, far = socket.socketpair()
    near.setblocking(False)
    connection = ClientConnection(near.detach(), "127.0.0.1", "127.0.0.1", SimpleNamespace(body_files=files))
    with far:
        assert connection.write(b"head", body)
        descriptor = connection.fd
        if hands_off:
            following = connection.detach_socket()
        else:
            connection.close()
            following = socket.socket()  # gets the descriptor that is free now
        with following:
            assert following.fileno() == descriptor

            del connection

            assert os.fstat(descriptor)
    files.close()
