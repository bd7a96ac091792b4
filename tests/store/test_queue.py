"""The writer thread sees to everything it is woken for."""

import asyncio
import threading

from feedproxy.errors import StoreError
from feedproxy.store.queue import WriteQueue


async def test_who_wakes_the_writer_while_it_tidies_up_is_not_forgotten(failures: list[StoreError]) -> None:
    """A read found a corrupt file just after the writer had looked for some: it was never set aside."""
    tidying, go_on = threading.Event(), threading.Event()
    tidied = 0

    def tidy() -> bool:
        nonlocal tidied
        tidied += 1
        tidying.set()
        assert go_on.wait(30)
        return False

    queue = WriteQueue[str, bytes](
        lambda key, value: None, holds=lambda key: False, idle=tidy, on_failure=failures.append
    )
    queue.wake()
    await asyncio.to_thread(tidying.wait, 30)

    queue.wake()
    go_on.set()
    await queue.flush()

    assert tidied == 2
    await queue.close(lambda: None)


async def test_nothing_is_left_waiting_whoever_puts_while_the_writer_comes_to_its_end(
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


async def test_what_comes_after_the_end_is_told_and_not_kept(failures: list[StoreError]) -> None:
    queue = WriteQueue[str, bytes](
        lambda key, value: None, holds=lambda key: False, idle=lambda: False, on_failure=failures.append
    )
    await queue.close(lambda: None)

    await queue.add("late", b"value", 5)
    await queue.flush()

    assert [str(failure) for failure in failures] == ["the store is closed: a value was not written"]
