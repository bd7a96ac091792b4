"""Passes over values that could not be written."""

from feedproxy.errors import StoreError
from feedproxy.store.write_retries import FAILURES_MAX, RETRY_INTERVAL, SLICE, WriteRetries


class Disk:
    """A disk that cannot take some of the values that wait, and the clock of its writer."""

    def __init__(self, *keys: int, refused: tuple[int, ...] = ()) -> None:
        self.keys, self.refused = list(keys), set(refused)
        self.attempts: list[int] = []
        self.now = 1000.0
        self.retries = WriteRetries(lambda: self.keys, self.write, lambda: self.now)

    def write(self, key: int) -> None:
        self.attempts.append(key)
        if key in self.refused:
            raise StoreError("full")
        self.keys.remove(key)


def test_retry_pass_writes_every_value_in_steps() -> None:
    disk = Disk(*range(SLICE + 1))

    assert disk.retries.step()
    assert disk.attempts == list(range(SLICE))
    assert not disk.retries.step()
    assert disk.keys == []


def test_retry_pass_ends_after_some_failures() -> None:
    disk = Disk(*range(100), refused=tuple(range(100)))

    assert not disk.retries.step()

    assert disk.attempts == list(range(FAILURES_MAX))


def test_retry_pass_continues_after_a_single_value_that_cannot_be_written() -> None:
    disk = Disk(1, 2, 3, refused=(1,))

    disk.retries.step()

    assert disk.keys == [1]


def test_retry_pass_begins_only_after_the_interval() -> None:
    disk = Disk(1, refused=(1,))
    disk.retries.step()
    disk.now += RETRY_INTERVAL - 1
    disk.retries.step()
    assert disk.attempts == [1]

    disk.now += 1
    disk.retries.step()

    assert disk.attempts == [1, 1]


def test_retry_pass_begins_at_once_when_the_process_ends() -> None:
    disk = Disk(1)
    disk.retries.postpone()
    disk.retries.step()
    assert disk.attempts == []

    disk.retries.hasten()
    disk.retries.step()

    assert disk.attempts == [1]
