"""Live pages: an event whenever there is something new to see, over one response that stays open (Server-Sent Events).

An event says only that, with a few numbers; the page then asks for itself again, and what the server makes of it
stays the one way a page is made. Who listens is counted: a handful of tabs, not the world. One task looks for all of
them, and only while somebody listens.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from feedproxy.clock import Seconds
from feedproxy.errors import FeedproxyError

logger = logging.getLogger(__name__)

LISTENERS_MAX = 32
"""Pages open at the same time; those beyond are told to come back, and show what was so when they were loaded."""

LOOKED: Seconds = 2.0
"""How often it is looked whether anything is new."""

TOLD_LEAST: Seconds = 30.0
"""A page is made anew at least as often, since `5 min ago` grows old by itself."""

HEARTBEAT: Seconds = 15.0
"""A line that says nothing, so that whatever stands between does not take the silence for an end."""

RETRY: Seconds = 5.0
"""After which a browser whose response has ended asks again."""

WRITE_MAX: Seconds = 10.0
"""A listener that does not take what is written by then is let go."""


class TooManyListeners(FeedproxyError):
    """All places are taken."""

    status_hint = 503
    detail = "busy"


class Events:
    """The listeners of one admin listener. `look` tells what is to be seen now, as something comparable and small."""

    def __init__(self, look: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        self._look = look
        self._waiting: set[asyncio.Queue[str | None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    async def show(self, request: web.Request) -> web.StreamResponse:
        """The events, until one of both sides ends. Raises TooManyListeners."""
        if self._closed or len(self._waiting) >= LISTENERS_MAX:
            raise TooManyListeners("Too many pages are open here. This one is as it was when it was loaded.")
        queue: asyncio.Queue[str | None] = asyncio.Queue(maxsize=1)
        self._waiting.add(queue)
        try:
            answer = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
            await answer.prepare(request)
            await _write(answer, f"retry: {int(1000 * RETRY)}\n\n")
            if self._task is None:
                self._task = asyncio.ensure_future(self._watch())
            while (event := await _next(queue)) is not None:
                await _write(answer, event)
        except (ConnectionError, TimeoutError):
            return answer  # the page is closed, or nobody reads any more
        finally:
            self._waiting.discard(queue)
            if not self._waiting and self._task is not None:
                self._task.cancel()
                self._task = None
        return answer

    async def close(self, _: web.Application | None = None) -> None:
        """End all responses."""
        self._closed = True
        for queue in self._waiting:
            _put(queue, None)

    async def _watch(self) -> None:
        before: dict[str, Any] | None = None
        silent = 0.0
        while True:
            try:
                now = await self._look()
            except FeedproxyError:
                return  # it is being shut down
            except Exception:
                logger.exception("the live pages could not be told")
                now = before or {}
            before = before or now
            if now != before or silent >= TOLD_LEAST:
                before, silent = now, 0.0
                for queue in self._waiting:
                    _put(queue, f"event: changed\ndata: {json.dumps(now)}\n\n")
            await asyncio.sleep(LOOKED)
            silent += LOOKED


def _put(queue: asyncio.Queue[str | None], event: str | None) -> None:
    """The newest is what counts: who has not taken the one before gets this one only."""
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(event)


async def _next(queue: asyncio.Queue[str | None]) -> str | None:
    try:
        async with asyncio.timeout(HEARTBEAT):
            return await queue.get()
    except TimeoutError:
        return ": still here\n\n"


async def _write(answer: web.StreamResponse, text: str) -> None:
    async with asyncio.timeout(WRITE_MAX):
        await answer.write(text.encode())
