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
STABLE_AFTER: Seconds = 10
"""Once it has answered for so long, the next failure is the first again."""
LOG_INTERVAL: Seconds = 60
"""Time between two lines that say that it is away: one that comes and goes fills no log."""
MAX_CONCURRENT = 32
"""Questions at a time, each on a connection of its own."""
READ_ONLY = "it is a read-only replica"

START_TIMEOUT: Seconds = 2
"""At the start nobody waits yet."""

type ScriptCall = tuple[Script, Sequence[str], Sequence[str | bytes | int]]
"""A script, its keys and its arguments."""


class RedisUnavailable(StoreError):
    """Redis is not there, or does not answer in time. What was asked may have been done."""


class RedisTimeout(RedisUnavailable):
    """It has not answered in time."""


class RedisRefused(StoreError):
    """Redis answers, and will not do it: it is full, or the user may not."""


def host_and_port(url: str) -> str:
    """What may be told of an address: host and port, no password."""
    split = urlsplit(url)
    if split.scheme == "unix":
        return split.path
    host = split.hostname or "localhost"
    with contextlib.suppress(ValueError):
        return f"{f'[{host}]' if ':' in host else host}:{split.port or 6379}"
    return host


class RedisConnection:
    """Asks Redis, if it is there. One event loop uses it.

    `timeout` bounds each question in seconds. `up` is False from the first failure until `probe` has succeeded.
    """

    def __init__(self, url: str, *, timeout: Seconds) -> None:
        """Raises UsageError where the address cannot be used, or redis-py is not installed."""
        self._timeout = timeout
        self.address = host_and_port(url)
        self.up = False
        self.reason = "not asked yet"
        """Why it is away, in a word or two."""
        self.since = 0.0
        """When it went away, or came back, on the event loop's clock."""
        self.outage_count = 0
        """How often it went away."""
        self.refusal_count = 0
        self._was_connected = False
        self._last_refusal = ""
        self._read_only = False
        self._last_log = -LOG_INTERVAL
        self._is_log_suppressed = False
        """It went away so soon after the last time that no line was written."""
        self._pause = BACK_OFF_FIRST
        self._next = 0.0
        self._first_timeout: Seconds | None = None
        """When the first question of late was not answered in time."""
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._library, self._client = _client(url, timeout)

    @property
    def next_probe(self) -> Seconds:
        """When to try again, on the event loop's clock."""
        return self._next

    async def run(
        self, script: Script, keys: Sequence[str], *values: str | bytes | int, timeout_factor: float = 1
    ) -> Any:
        """What the script says. `patience` is a multiple of the timeout. Raises Away or Refused."""
        (said,) = await self.run_all([(script, keys, values)], timeout_factor=timeout_factor)
        return said

    async def run_all(self, calls: Iterable[ScriptCall], *, timeout_factor: float = 1) -> list[Any]:
        """What these say, in one exchange. Raises Away or Refused; none, some or all may have been done then."""
        if not self.up:
            raise RedisUnavailable(f"redis is away: {self.reason}")
        calls = list(calls)
        said: list[Any] = await self._guarded(lambda: self._evaluate(calls), self._timeout * timeout_factor)
        return said

    async def probe(self, timeout: Seconds | None = None) -> bool:
        """Whether it answers; from then on it is asked again."""
        try:
            await self._bounded(self._ping, timeout or self._timeout)
        except (RedisUnavailable, RedisRefused) as error:
            if not self.up:
                self.reason = str(error)
                if self._is_log_suppressed:
                    self._log_unavailable()
            return False
        now = asyncio.get_running_loop().time()
        if not self.up:
            if (self.outage_count or self._was_connected) and not self._is_log_suppressed:
                logger.info("Redis at %s is reachable again after %d s", self.address, round(now - self.since))
            self.up, self._was_connected, self.reason, self._last_refusal, self.since = True, True, "", "", now
            self._first_timeout, self._read_only = None, False
        return True

    async def _ping(self) -> None:
        """Raises where it does not, or where it may not be written to: a replica answers PING, too."""
        await self._client.ping()
        if self._read_only:
            with contextlib.suppress(self._library.exceptions.ResponseError):  # the user may not ask
                role = await self._client.execute_command("ROLE")  # type: ignore[no-untyped-call]
                if role and role[0] not in (b"master", "master"):
                    raise self._library.exceptions.ConnectionError(READ_ONLY)

    @contextlib.asynccontextmanager
    async def subscribe(self, channel: str) -> AsyncIterator[Any]:
        """A subscription to this channel, begun. Raises Away."""
        pubsub = self._client.pubsub(ignore_subscribe_messages=True)
        try:
            await self._guarded(lambda: pubsub.subscribe(channel), self._timeout * 4)
            yield pubsub
        except self._library.exceptions.RedisError as error:
            raise RedisUnavailable(_short_message(error)) from error
        except OSError as error:
            raise RedisUnavailable(_short_message(error)) from error
        finally:
            with contextlib.suppress(Exception):
                await pubsub.aclose()  # type: ignore[no-untyped-call]  # redis-py has left it out

    async def close(self) -> None:
        """Let go of the connections."""
        self.up = False
        with contextlib.suppress(Exception):
            await self._client.aclose()

    # -- inside

    async def _evaluate(self, calls: list[ScriptCall]) -> list[Any]:
        try:
            return await self._pipelined(calls)
        except self._library.exceptions.NoScriptError:
            # It was started anew, and has forgotten them. What was done already is done again: every script may be.
            for script in SCRIPTS:
                await self._client.script_load(script.text)
            return await self._pipelined(calls)

    async def _pipelined(self, calls: list[ScriptCall]) -> list[Any]:
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
        except RedisTimeout:
            # Once may be this machine's own fault, with all that was under way then; twice in a row is not.
            if self._first_timeout is not None and began >= self._first_timeout:
                self._mark_unavailable("timeout")
            else:
                self._first_timeout = (
                    asyncio.get_running_loop().time() if self._first_timeout is None else self._first_timeout
                )
            raise
        except RedisUnavailable as error:
            self._mark_unavailable(str(error))
            raise
        except RedisRefused as error:
            self.refusal_count += 1
            if str(error) != self._last_refusal:
                self._last_refusal = str(error)
                logger.warning("Redis at %s refuses commands: %s", self.address, error)
            raise
        self._first_timeout = None
        if self._pause != BACK_OFF_FIRST and asyncio.get_running_loop().time() - self.since >= STABLE_AFTER:
            self._pause = BACK_OFF_FIRST
        return said

    async def _bounded(self, ask: Callable[[], Any], timeout: Seconds) -> Any:
        known = self._library.exceptions
        try:
            async with asyncio.timeout(timeout), self._slots:
                return await ask()
        except known.NoScriptError as error:
            raise RedisRefused(_short_message(error)) from error
        except (known.TimeoutError, TimeoutError) as error:
            self._back_off()
            raise RedisTimeout("timeout") from error
        except known.ReadOnlyError as error:
            self._read_only = True
            self._back_off()
            raise RedisUnavailable(READ_ONLY) from error
        except (known.ConnectionError, OSError) as error:
            self._back_off()
            raise RedisUnavailable(_short_message(error)) from error
        except known.RedisError as error:
            raise RedisRefused(_short_message(error)) from error

    def _back_off(self) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._next:
            return  # many fail at once
        self._next = now + self._pause * random.uniform(0.75, 1.25)  # noqa: S311 (so that machines do not come at once)
        self._pause = min(BACK_OFF_MAX, 2 * self._pause)

    def _mark_unavailable(self, why: str) -> None:
        if not self.up and self._was_connected:
            return
        self.up, self._was_connected, self.reason = False, True, why
        self.since = asyncio.get_running_loop().time()
        self.outage_count += 1
        self._is_log_suppressed = True
        self._log_unavailable()

    def _log_unavailable(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._last_log >= LOG_INTERVAL:
            self._last_log, self._is_log_suppressed = now, False
            logger.warning(
                "Redis at %s is unreachable (%s): continuing with the local store only", self.address, self.reason
            )

    def log_unavailable_at_start(self) -> None:
        """It was not there when it was first asked."""
        self._mark_unavailable(self.reason if self.reason != "not asked yet" else "no answer")


def _short_message(error: BaseException) -> str:
    """An error in a few words; none of the address, which may hold a password."""
    cause = next((each for each in (error.__cause__, error.__context__) if isinstance(each, OSError)), error)
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    words = str(error).split(".")[0][:80]
    return words or type(error).__name__


def _client(url: str, timeout: Seconds) -> tuple[Any, "Redis"]:
    library = redis_library()
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
        raise UsageError(
            f"store: {host_and_port(url)}: the address cannot be used: {_without(url, str(error))}"
        ) from error
    return library, client


def redis_library() -> Any:
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
