"""Naming of a stored content as a dictionary in requests to origins."""

import base64
import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from feedproxy.http.coding import compression_dictionary
from feedproxy.http.message import Fields, Request, Response
from feedproxy.refresh.dcz_from_origins import HASHED_ON_LOOP_MAX, DictionaryClient
from feedproxy.refresh.ingest.helper_pool import HelperPool
from feedproxy.settings import Settings
from feedproxy.upstream.fetch_result import Fetched

TARGET = "https://example.com/feed"


class RecordingOrigin:
    """Origin that answers each request without content."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def fetch(self, request: Request, *, skip_address_check: bool = False) -> Fetched:
        self.requests.append(request)
        return Fetched(Response(200), 0.0, 0.0)


@pytest.mark.parametrize(("size", "on_loop"), [(HASHED_ON_LOOP_MAX, True), (HASHED_ON_LOOP_MAX + 1, False)])
async def test_hash_of_large_dictionary_is_computed_off_the_event_loop(
    size: int, on_loop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def dictionary_hash(content: bytes) -> bytes:
        threads.append(threading.current_thread())
        return hashlib.sha256(content).digest()

    monkeypatch.setattr(compression_dictionary, "dictionary_hash", dictionary_hash)
    content = bytes(size)

    origin = RecordingOrigin()
    pool = HelperPool(ThreadPoolExecutor(1))
    client = DictionaryClient(origin, TARGET, content, "v1", pool, Settings())

    await client.fetch(Request("GET", TARGET, Fields([("Accept-Encoding", "gzip")])))

    assert [thread is threading.current_thread() for thread in threads] == [on_loop]
    assert list(origin.requests[0].fields) == [
        ("Accept-Encoding", "gzip, dcz"),
        ("Available-Dictionary", f":{base64.b64encode(hashlib.sha256(content).digest()).decode()}:"),
        ("Dictionary-ID", '"v1"'),
    ]
