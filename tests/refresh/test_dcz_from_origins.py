"""Naming of a stored content as a dictionary in requests to origins."""

import base64
import hashlib
import threading

import pytest

from feedproxy.http.coding import compression_dictionary
from feedproxy.http.message import Fields
from feedproxy.refresh.dcz_from_origins import HASHED_ON_LOOP_MAX, StoredDictionary


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

    fields = await StoredDictionary(content, "v1").add_to(Fields([("Accept-Encoding", "gzip")]))

    assert [thread is threading.current_thread() for thread in threads] == [on_loop]
    assert list(fields) == [
        ("Accept-Encoding", "gzip, dcz"),
        ("Available-Dictionary", f":{base64.b64encode(hashlib.sha256(content).digest()).decode()}:"),
        ("Dictionary-ID", '"v1"'),
    ]
