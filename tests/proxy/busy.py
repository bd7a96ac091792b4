"""A helper pool without a free process for the first job."""

from collections.abc import Callable

import pytest

from feedproxy.errors import Overload
from feedproxy.refresh.ingest.helper_pool import HelperPool


def refuse_first_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every helper pool raise Overload for its first job only."""
    submit = HelperPool.submit
    refused: set[int] = set()

    async def submit_unless_first[T](self: HelperPool, work: Callable[[], T]) -> T:
        if id(self) not in refused:
            refused.add(id(self))
            raise Overload("no process can be started now")
        return await submit(self, work)

    monkeypatch.setattr(HelperPool, "submit", submit_unless_first)
