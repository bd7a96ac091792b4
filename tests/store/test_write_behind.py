"""The write queue writes every value, in batches, and reports what it loses."""

import asyncio
import threading
from collections.abc import Sequence

from feedproxy.errors import StoreError
from feedproxy.store.write_behind import WriteQueue
from tests.waiting import PATIENCE


async def test_write_queue_handles_wake_during_idle_work(failures: list[StoreError]) -> None:
    """A corrupt file that a read finds just after the writer's search for corrupt files is set aside, too."""
    tidying, go_on = threading.Event(), threading.Event()
    tidied = 0

    def tidy() -> bool:
        nonlocal tidied
        tidied += 1
        tidying.set()
        assert go_on.wait(PATIENCE)
        return False

    queue = WriteQueue[str, bytes](
        lambda key, value: None, holds=lambda key: False, idle=tidy, on_failure=failures.append
    )
    queue.wake()
    await asyncio.to_thread(tidying.wait, PATIENCE)

    queue.wake()
    go_on.set()
    await queue.flush()

    assert tidied == 2
    await queue.close(lambda: None)


async def test_write_queue_writes_value_added_while_writer_ends(
    failures: list[StoreError],
) -> None:
    written: dict[str, bytes | None] = {}
    queue = WriteQueue[str, bytes](
        written.__setitem__, holds=lambda key: False, idle=lambda: False, on_failure=failures.append
    )

    for number in range(2000):
        await queue.add(str(number), b"value", 5)
        if number % 3 == 0:
            await asyncio.sleep(0)
    await queue.flush()

    assert len(written) == 2000
    assert queue.names() == []
    await queue.close(lambda: None)


async def test_write_queue_reports_value_added_after_close(failures: list[StoreError]) -> None:
    queue = WriteQueue[str, bytes](
        lambda key, value: None, holds=lambda key: False, idle=lambda: False, on_failure=failures.append
    )
    await queue.close(lambda: None)

    await queue.add("late", b"value", 5)
    await queue.flush()

    assert [str(failure) for failure in failures] == ["store: closed, a value was not written"]


async def test_write_queue_batches_values_within_the_window(failures: list[StoreError]) -> None:
    written: list[list[str]] = []
    over = threading.Event()

    def write_all(values: Sequence[tuple[str, bytes | None]]) -> None:
        written.append([key for key, _ in values])
        over.set()

    queue = WriteQueue[str, bytes](
        lambda key, value: written.append([key]),
        holds=lambda key: False,
        idle=lambda: False,
        on_failure=failures.append,
        write_all=write_all,
        batch_window=0.01,
    )

    for key in ("a", "b", "c"):
        await queue.add(key, b"value", 5)
    assert written == []
    assert await asyncio.to_thread(over.wait, 30)

    assert written == [["a", "b", "c"]]
    await queue.close(lambda: None)


async def test_write_queue_loses_only_faulty_value_of_batch(failures: list[StoreError]) -> None:
    written: list[str] = []

    def write(key: str, value: bytes | None) -> None:
        if key == "bad":
            raise StoreError("cannot be written: bad")
        written.append(key)

    def write_all(values: Sequence[tuple[str, bytes | None]]) -> None:
        for key, value in values:
            write(key, value)

    queue = WriteQueue[str, bytes](
        write,
        holds=lambda key: False,
        idle=lambda: False,
        on_failure=failures.append,
        write_all=write_all,
        batch_window=60,
    )
    for key in ("a", "bad", "b"):
        await queue.add(key, b"value", 5)
    await queue.flush()  # does not wait for the moment to be over

    assert set(written) == {"a", "b"}
    assert [str(failure) for failure in failures] == ["cannot be written: bad"]
    await queue.close(lambda: None)
