"""The connection to Redis, and whether it is there: after a failure nobody waits for it until it has answered again."""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from feedproxy.clock import Seconds
from feedproxy.cluster.lua_scripts import SCRIPTS, Script
from feedproxy.errors import StoreError, UsageError

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger("feedproxy.cluster")

BACK_OFF_FIRST: Seconds = 0.5
BACK_OFF_MAX: Seconds = 5
STEADY: Seconds = 10
"""Once it has answered for so long, the next failure is the first again."""
LOGGED_AGAIN: Seconds = 60
"""Time between two lines that say that it is away: one that comes and goes fills no log."""
AT_ONCE = 32
"""Questions at a time, each on a connection of its own."""
READ_ONLY = "it is a read-only replica"

START_PATIENCE: Seconds = 2
"""At the start nobody waits yet."""

type Call = tuple[Script, Sequence[str], Sequence[str | bytes | int]]
"""A script, its keys and its arguments."""


class Away(StoreError):
    """Redis is not there, or does not answer in time. What was asked may have been done."""


class Late(Away):
    """It has not answered in time."""


class Refused(StoreError):
    """Redis answers, and will not do it: it is full, or the user may not."""


def place_of(url: str) -> str:
    """What may be told of an address: host and port, no password."""
    split = urlsplit(url)
    if split.scheme == "unix":
        return split.path
    host = split.hostname or "localhost"
    with contextlib.suppress(ValueError):
        return f"{f'[{host}]' if ':' in host else host}:{split.port or 6379}"
    return host


class Link:
    """Asks Redis, if it is there. One event loop uses it.

    `timeout` bounds each question in seconds. `up` is False from the first failure until `probe` has succeeded.
    """

    def __init__(self, url: str, *, timeout: Seconds) -> None:
        """Raises UsageError where the address cannot be used, or redis-py is not installed."""
        self._timeout = timeout
        self.place = place_of(url)
        self.up = False
        self.why = "not asked yet"
        """Why it is away, in a word or two."""
        self.since = 0.0
        """When it went away, or came back, on the event loop's clock."""
        self.changes = 0
        """How often it went away."""
        self.refusals = 0
        self.on_away: Callable[[], None] = lambda: None
        self._began = False
        self._said = ""
        self._read_only = False
        self._logged = -LOGGED_AGAIN
        self._silently = False
        """It went away so soon after the last time that no line was written."""
        self._pause = BACK_OFF_FIRST
        self._next = 0.0
        self._doubted: Seconds | None = None
        """When the first question of late was not answered in time."""
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._library, self._client = _client(url, timeout)

    @property
    def next_probe(self) -> Seconds:
        """When to try again, on the event loop's clock."""
        return self._next

    async def run(self, script: Script, keys: Sequence[str], *values: str | bytes | int, patience: float = 1) -> Any:
        """What the script says. `patience` is a multiple of the timeout. Raises Away or Refused."""
        (said,) = await self.run_all([(script, keys, values)], patience=patience)
        return said

    async def run_all(self, calls: Iterable[Call], *, patience: float = 1) -> list[Any]:
        """What these say, in one exchange. Raises Away or Refused; none, some or all may have been done then."""
        if not self.up:
            raise Away(f"redis is away: {self.why}")
        calls = list(calls)
        said: list[Any] = await self._guarded(lambda: self._evaluate(calls), self._timeout * patience)
        return said

    async def probe(self, patience: Seconds | None = None) -> bool:
        """Whether it answers; from then on it is asked again."""
        try:
            await self._bounded(self._pages, patience or self._timeout)
        except (Away, Refused) as error:
            if not self.up:
                self.why = str(error)
                if self._silently:
                    self._tell_away()
            return False
        now = asyncio.get_running_loop().time()
        if not self.up:
            if (self.changes or self._began) and not self._silently:
                logger.info("Redis at %s is reachable again after %d s", self.place, round(now - self.since))
            self.up, self._began, self.why, self._said, self.since = True, True, "", "", now
            self._doubted, self._read_only = None, False
        return True

    async def _pages(self) -> None:
        """Raises where it does not, or where it may not be written to: a replica answers PING, too."""
        await self._client.ping()
        if self._read_only:
            with contextlib.suppress(self._library.exceptions.ResponseError):  # the user may not ask
                role = await self._client.execute_command("ROLE")  # type: ignore[no-untyped-call]
                if role and role[0] not in (b"master", "master"):
                    raise self._library.exceptions.ConnectionError(READ_ONLY)

    @contextlib.asynccontextmanager
    async def listening(self, channel: str) -> AsyncIterator[Any]:
        """A subscription to this channel, begun. Raises Away."""
        pubsub = self._client.pubsub(ignore_subscribe_messages=True)
        try:
            await self._guarded(lambda: pubsub.subscribe(channel), self._timeout * 4)
            yield pubsub
        except self._library.exceptions.RedisError as error:
            raise Away(_in_short(error)) from error
        except OSError as error:
            raise Away(_in_short(error)) from error
        finally:
            with contextlib.suppress(Exception):
                await pubsub.aclose()  # type: ignore[no-untyped-call]  # redis-py has left it out

    async def close(self) -> None:
        """Let go of the connections."""
        self.up = False
        with contextlib.suppress(Exception):
            await self._client.aclose()

    # -- inside

    async def _evaluate(self, calls: list[Call]) -> list[Any]:
        try:
            return await self._pipelined(calls)
        except self._library.exceptions.NoScriptError:
            # It was started anew, and has forgotten them. What was done already is done again: every script may be.
            for script in SCRIPTS:
                await self._client.script_load(script.text)
            return await self._pipelined(calls)

    async def _pipelined(self, calls: list[Call]) -> list[Any]:
        if len(calls) == 1:
            ((script, keys, values),) = calls
            return [await self._client.evalsha(script.sha, len(keys), *keys, *values)]
        pipeline = self._client.pipeline(transaction=False)
        for script, keys, values in calls:
            pipeline.evalsha(script.sha, len(keys), *keys, *values)
        return list(await pipeline.execute())

    async def _guarded(self, ask: Callable[[], Any], timeout: Seconds) -> Any:
        began = asyncio.get_running_loop().time()
        try:
            said = await self._bounded(ask, timeout)
        except Late:
            # Once may be this machine's own fault, with all that was under way then; twice in a row is not.
            if self._doubted is not None and began >= self._doubted:
                self._gone("timeout")
            else:
                self._doubted = asyncio.get_running_loop().time() if self._doubted is None else self._doubted
            raise
        except Away as error:
            self._gone(str(error))
            raise
        except Refused as error:
            self.refusals += 1
            if str(error) != self._said:
                self._said = str(error)
                logger.warning("Redis at %s refuses commands: %s", self.place, error)
            raise
        self._doubted = None
        if self._pause != BACK_OFF_FIRST and asyncio.get_running_loop().time() - self.since >= STEADY:
            self._pause = BACK_OFF_FIRST
        return said

    async def _bounded(self, ask: Callable[[], Any], timeout: Seconds) -> Any:
        known = self._library.exceptions
        try:
            async with asyncio.timeout(timeout), self._turn:
                return await ask()
        except known.NoScriptError as error:
            raise Refused(_in_short(error)) from error
        except (known.TimeoutError, TimeoutError) as error:
            self._later()
            raise Late("timeout") from error
        except known.ReadOnlyError as error:
            self._read_only = True
            self._later()
            raise Away(READ_ONLY) from error
        except (known.ConnectionError, OSError) as error:
            self._later()
            raise Away(_in_short(error)) from error
        except known.RedisError as error:
            raise Refused(_in_short(error)) from error

    def _later(self) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._next:
            return  # many fail at once
        self._next = now + self._pause * random.uniform(0.75, 1.25)  # noqa: S311 (so that machines do not come at once)
        self._pause = min(BACK_OFF_MAX, 2 * self._pause)

    def _gone(self, why: str) -> None:
        if not self.up and self._began:
            return
        self.up, self._began, self.why = False, True, why
        self.since = asyncio.get_running_loop().time()
        self.changes += 1
        self._silently = True
        self._tell_away()
        self.on_away()

    def _tell_away(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._logged >= LOGGED_AGAIN:
            self._logged, self._silently = now, False
            logger.warning(
                "Redis at %s is unreachable (%s): continuing with the local store only", self.place, self.why
            )

    def absent_from_the_start(self) -> None:
        """It was not there when it was first asked."""
        self._gone(self.why if self.why != "not asked yet" else "no answer")


def _in_short(error: BaseException) -> str:
    """An error in a few words; none of the address, which may hold a password."""
    cause = next((each for each in (error.__cause__, error.__context__) if isinstance(each, OSError)), error)
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    words = str(error).split(".")[0][:80]
    return words or type(error).__name__


def _client(url: str, timeout: Seconds) -> tuple[Any, "Redis"]:
    library = library_of()
    try:
        client = library.asyncio.Redis.from_url(
            url,
            socket_timeout=None,  # each question as a whole has one
            socket_connect_timeout=timeout,
            retry=None,
            health_check_interval=0,
            client_name="feedproxy",
            protocol=2,
        )
        client.set_retry(library.retry.Retry(library.backoff.NoBackoff(), 0))
    except (ValueError, TypeError) as error:
        raise UsageError(f"store: {place_of(url)}: the address cannot be used: {_without(url, str(error))}") from error
    return library, client


def library_of() -> Any:
    """redis-py. Raises UsageError where it is not installed: it is an extra."""
    try:
        import redis.asyncio  # noqa: PLC0415 -- only who has a fleet has it
        import redis.backoff  # noqa: PLC0415
        import redis.exceptions  # noqa: PLC0415
        import redis.retry  # noqa: PLC0415
    except ImportError as error:
        raise UsageError("store: a fleet needs redis-py: pip install 'feedproxy[redis]'") from error
    return redis


def _without(url: str, words: str) -> str:
    """The words of an error, without the password of the address."""
    password = urlsplit(url).password
    return words.replace(password, "…") if password else words
