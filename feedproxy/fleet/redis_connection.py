"""The connection to Redis. While Redis is unavailable, feedproxy sends only probes."""

import asyncio
import contextlib
import logging
import os
import random
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from feedproxy import option_files
from feedproxy.clock import Seconds
from feedproxy.errors import StoreError, UsageError
from feedproxy.fleet.lua_scripts import SCRIPTS, Script
from feedproxy.fleet.redis_keys import key_kind
from feedproxy.http import uri
from feedproxy.repeated_log_messages import LOG_INTERVAL, RepeatedMessages

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger("feedproxy.fleet")

BACK_OFF_FIRST: Seconds = 0.5
BACK_OFF_MAX: Seconds = 5
STABLE_AFTER: Seconds = 10
"""After Redis has been available for this many seconds, the pause between probes returns to BACK_OFF_FIRST."""
MAX_CONCURRENT = 32
"""Maximum number of concurrent requests to Redis, each on its own connection."""
READ_ONLY = "it is a read-only replica"
FOREIGN_DATA = ("WRONGTYPE", "not an integer", "not a valid float")
"""Parts of the messages with which Redis reports a value that another program has written."""
NOT_PERMITTED = "The user executing the script can't"
"""Part of the message with which Redis reports that an ACL forbids a step of a script. The message has no code."""
ERROR_CODE = re.compile(r"(?:^|: ?-?)(?!ERR )[A-Z]{3,} ")
"""Pattern of an error code other than ERR in a message of Redis. redis-py omits ERR. Redis before version 7 reports an
error in a script as ERR, with the original error in the text."""

FILE_PARAMETERS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
"""Parameters of a Redis address that name a file."""

START_TIMEOUT: Seconds = 2
"""Timeout of requests to Redis at the start, in seconds."""

type ScriptCall = tuple[Script, Sequence[str | bytes], Sequence[str | bytes | int]]


class RedisUnavailable(StoreError):
    """Error if Redis is unreachable or does not answer in time. Redis can nevertheless have executed the request."""


class RedisTimeout(RedisUnavailable):
    """Error if Redis did not answer in time."""


class RedisRefused(StoreError):
    """Error if Redis answered with an error. Unless it is a RedisRefusedForNow, the request is wrong, for example by an
    unknown command or an invalid argument. Redis would refuse it again."""


class RedisRefusedForNow(RedisRefused):
    """Error if Redis refused a request that it can accept later: for a full memory, a failed snapshot, too few
    replicas, a missing permission, or a value of another program."""


def host_and_port(url: str) -> str:
    """Return host and port of an address, without its password."""
    split = urlsplit(url)
    if split.scheme == "unix":
        return split.path
    host = split.hostname or "localhost"
    with contextlib.suppress(ValueError):
        return uri.join_host_port(host, split.port or 6379)
    return host


class RedisConnection:
    """Client of one Redis for one event loop. While Redis is unavailable, requests fail at once. `timeout` limits each
    request, in seconds. `up` is True between a successful `probe` and the next failure."""

    def __init__(self, url: str, *, timeout: Seconds) -> None:
        """Create the client. Raises UsageError for an invalid address, or if redis-py is not installed."""
        self._timeout = timeout
        self.address = host_and_port(url)
        self.up = False
        self.reason = "not asked yet"
        self.since = 0.0
        """Beginning of the current outage or availability, by the event loop's clock."""
        self.outage_count = 0
        self.refusal_count = 0
        self._was_connected = False
        self._refusal = ""
        self._refused_at = -LOG_INTERVAL
        self._refusals = RepeatedMessages()
        self._refused_for_now: set[Script] = set()
        """Scripts that Redis has refused for now, for a reason that concerns all targets. The set is emptied when Redis
        accepts one of them, or refuses a request for another reason."""
        self._read_only = False
        self._outages = RepeatedMessages()
        self._is_log_suppressed = False
        """True if the current outage was not logged, because it began soon after a logged outage with the same
        reason."""
        self._pause = BACK_OFF_FIRST
        self.next_probe = 0.0
        self._first_timeout: Seconds | None = None
        """Time of the first timeout since the last answer of Redis, by the event loop's clock, or None if there was
        none."""
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._library, self._client = _client(url, timeout)

    async def run(
        self, script: Script, keys: Sequence[str | bytes], *values: str | bytes | int, timeout_factor: float = 1
    ) -> Any:
        """Run a script with these keys and values, and return its result.

        The request has `timeout_factor` times the usual timeout. Raises RedisUnavailable if Redis does not answer, and
        RedisRefused if it answers with an error.
        """
        (result,) = await self.run_all([(script, keys, values)], timeout_factor=timeout_factor)
        return result

    async def run_all(self, calls: Iterable[ScriptCall], *, timeout_factor: float = 1) -> list[Any]:
        """Send several scripts together, and return their results. Raises RedisUnavailable if Redis does not answer,
        and RedisRefused if it answers with an error. Some or all of the scripts can have run then."""
        results = await self._results(list(calls), timeout_factor)
        if refusal := next((result for result in results if isinstance(result, RedisRefused)), None):
            raise refusal
        return results

    async def run_each(self, calls: Iterable[ScriptCall], *, timeout_factor: float) -> list[Any]:
        """Send several scripts together. Return a list with the result of each script, or None for each refused script.
        Raises RedisUnavailable if Redis does not answer."""
        results = await self._results(list(calls), timeout_factor)
        return [None if isinstance(result, RedisRefused) else result for result in results]

    async def _results(self, calls: list[ScriptCall], timeout_factor: float) -> list[Any]:
        """Send several scripts together. Return the result of each, or a RedisRefused for a refused script."""
        if not self.up:
            raise RedisUnavailable(f"redis is unavailable: {self.reason}")
        results: list[Any] = await self._send_guarded(lambda: self._evaluate(calls), self._timeout * timeout_factor)
        for index, (result, call) in enumerate(zip(results, calls, strict=True)):
            if isinstance(result, self._library.exceptions.ResponseError):
                results[index] = self._refuse(result, call)
            else:
                self._on_accepted(call[0])
        return results

    def _refuse(self, error: BaseException, call: ScriptCall) -> RedisRefused:
        script, keys, _ = call
        message = _refusal_message(error, keys)
        self.refuse(message)
        if not _is_foreign_data(message):
            self._refused_for_now.add(script)
        return _refusal(error, message)

    def _on_accepted(self, script: Script) -> None:
        """Forget the refusal, if Redis had refused this script for now."""
        if script in self._refused_for_now:
            self._refused_for_now.clear()
            self._refused_at = -LOG_INTERVAL

    def refuse(self, message: str) -> RedisRefused:
        """Record that Redis refused a request or returned a value of an unexpected form. Return the error to raise."""
        now = asyncio.get_running_loop().time()
        if message != self._refusal:
            self._refused_for_now.clear()
        self.refusal_count += 1
        self._refusal, self._refused_at = message, now
        if self._refusals.may_log(message, now):
            logger.warning("Redis at %s refuses commands: %s", self.address, message)
        return RedisRefused(message)

    @property
    def refusal(self) -> str:
        """Return the message of the last refusal, or "" if there was none in the last LOG_INTERVAL seconds. After a
        refusal for now, return "" as soon as Redis accepts writes again."""
        now = asyncio.get_running_loop().time()
        return self._refusal if now - self._refused_at < LOG_INTERVAL else ""

    async def probe(self, timeout: Seconds | None = None) -> bool:
        """Send a probe. Return True if Redis answers within `timeout` seconds: requests are then permitted again.
        Otherwise return False. The default of `timeout` is the timeout of requests."""
        try:
            await self._send_with_timeout(self._ping, timeout or self._timeout)
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
            self.up, self._was_connected, self.reason, self.since = True, True, "", now
            self._first_timeout, self._read_only = None, False
        return True

    async def _ping(self) -> None:
        """Check that Redis answers. If Redis has refused a write as a read-only replica, also check that it is no
        longer a replica."""
        await self._client.ping()
        if self._read_only:
            with contextlib.suppress(self._library.exceptions.ResponseError):  # the user may lack the permission
                role = await self._client.execute_command("ROLE")  # type: ignore[no-untyped-call]
                if role and role[0] not in (b"master", "master"):
                    raise self._library.exceptions.ConnectionError(READ_ONLY)

    @contextlib.asynccontextmanager
    async def subscribe(self, channel: str) -> AsyncIterator[Any]:
        """Yield a subscription to this channel. Raises RedisUnavailable if Redis does not answer."""
        pubsub = self._client.pubsub(ignore_subscribe_messages=True)
        try:
            await self._send_guarded(lambda: pubsub.subscribe(channel), self._timeout * 4)
            yield pubsub
        except (self._library.exceptions.RedisError, OSError) as error:
            raise RedisUnavailable(_short_message(error)) from error
        finally:
            with contextlib.suppress(Exception):
                await pubsub.aclose()  # type: ignore[no-untyped-call]  # redis-py has left it out

    async def close(self) -> None:
        self.up = False
        with contextlib.suppress(Exception):
            await self._client.aclose()

    # -- internals

    async def _evaluate(self, calls: list[ScriptCall]) -> list[Any]:
        try:
            return await self._send_pipeline(calls)
        except self._library.exceptions.NoScriptError:
            # Redis was restarted and has lost the scripts. All of them may be repeated.
            for script in SCRIPTS:
                await self._client.script_load(script.text)
            return await self._send_pipeline(calls)

    async def _send_pipeline(self, calls: list[ScriptCall]) -> list[Any]:
        pipeline = self._client.pipeline(transaction=False)
        for script, keys, values in calls:
            pipeline.evalsha(script.sha, len(keys), *keys, *values)
        results = list(await pipeline.execute(raise_on_error=False))
        exceptions = self._library.exceptions
        for result in results:
            # redis-py reports a Redis that still loads its data (LOADING) as a ConnectionError.
            if isinstance(result, exceptions.NoScriptError | exceptions.ReadOnlyError | exceptions.ConnectionError):
                raise result
        return results

    async def _send_guarded(self, request: Callable[[], Any], timeout: Seconds) -> Any:
        started_at = asyncio.get_running_loop().time()
        try:
            result = await self._send_with_timeout(request, timeout)
        except RedisTimeout:
            # Timeouts of requests sent at the same time may be the fault of this machine. Another timeout, of a request
            # that was sent after the first timeout, shows that Redis is unavailable.
            if self._first_timeout is not None and started_at >= self._first_timeout:
                self.mark_unavailable("timeout")
            else:
                self._first_timeout = self._first_timeout or asyncio.get_running_loop().time()
            raise
        except RedisUnavailable as error:
            self.mark_unavailable(str(error))
            raise
        except RedisRefused as error:
            self.refuse(str(error))
            raise
        self._first_timeout = None
        if self._pause != BACK_OFF_FIRST and asyncio.get_running_loop().time() - self.since >= STABLE_AFTER:
            self._pause = BACK_OFF_FIRST
        return result

    async def _send_with_timeout(self, request: Callable[[], Any], timeout: Seconds) -> Any:
        exceptions = self._library.exceptions
        try:
            async with asyncio.timeout(timeout), self._slots:
                return await request()
        except (exceptions.TimeoutError, TimeoutError) as error:
            self._back_off()
            raise RedisTimeout("timeout") from error
        except exceptions.ReadOnlyError as error:
            self._read_only = True
            self._back_off()
            raise RedisUnavailable(READ_ONLY) from error
        except (exceptions.ConnectionError, OSError) as error:
            self._back_off()
            raise RedisUnavailable(_short_message(error)) from error
        except exceptions.RedisError as error:
            raise _refusal(error, _short_message(error)) from error

    def _back_off(self) -> None:
        now = asyncio.get_running_loop().time()
        if now < self.next_probe:
            return  # concurrent requests fail together
        self.next_probe = now + self._pause * random.uniform(0.75, 1.25)  # noqa: S311 (spreads the machines)
        self._pause = min(BACK_OFF_MAX, 2 * self._pause)

    def mark_unavailable(self, reason: str) -> None:
        """Send no request until the next successful probe. Log the outage, unless one with the same reason was logged
        shortly before."""
        if not self.up and self._was_connected:
            return
        self.up, self._was_connected, self.reason = False, True, reason
        self.since = asyncio.get_running_loop().time()
        self.outage_count += 1
        self._is_log_suppressed = True
        self._log_unavailable()

    def _log_unavailable(self) -> None:
        if self._outages.may_log(self.reason, asyncio.get_running_loop().time()):
            self._is_log_suppressed = False
            logger.warning(
                "Redis at %s is unreachable (%s): continuing with the local store only", self.address, self.reason
            )


def _short_message(error: BaseException) -> str:
    """Return an error in a few words, without the address, which can contain a password."""
    cause = next(
        (cause for cause in (error.__cause__, error.__context__) if isinstance(cause, OSError)),
        error,
    )
    if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError) and (cause.errno or 0) > 0:
        return os.strerror(cause.errno or 0)  # asyncio's own text would name the address again, and not the reason
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    text = str(error).partition(" script: ")[0].split(".")[0][:80]
    return text or type(error).__name__


def _refusal(error: BaseException, message: str) -> RedisRefused:
    """Return the error to raise for an error of Redis: RedisRefused for a wrong request, otherwise RedisRefusedForNow.

    Redis reports a wrong request with the code ERR. Another program's data and a missing permission are recognised by
    the text, because their messages can have this code or none. For some other codes, redis-py has classes of their
    own.
    """
    text = str(error)
    is_for_now = ERROR_CODE.search(text) or _is_foreign_data(text) or NOT_PERMITTED in text
    if is_for_now or type(error).__name__ not in ("ResponseError", "DataError"):
        return RedisRefusedForNow(message)
    return RedisRefused(message)


def _is_foreign_data(message: str) -> bool:
    return any(part in message for part in FOREIGN_DATA)


def _refusal_message(error: BaseException, keys: Sequence[str | bytes]) -> str:
    """Return an error of Redis in a few words. The text names kinds of keys, and no targets."""
    message = _short_message(error)
    if not _is_foreign_data(message):
        return message
    kinds = {kind: None for key in keys if (kind := key_kind(key))}
    return f"{message} (another program has written to {' or '.join(kinds)})" if kinds else message


def _client(url: str, timeout: Seconds) -> tuple[Any, "Redis"]:
    library = redis_library()
    try:
        client = library.asyncio.Redis.from_url(
            url,
            socket_timeout=None,  # each request has a timeout of its own
            socket_connect_timeout=max(timeout, START_TIMEOUT),  # limits connections that no request waits for
            retry=None,
            health_check_interval=0,
            client_name="feedproxy",
            protocol=2,
        )
        client.set_retry(library.retry.Retry(library.backoff.NoBackoff(), 0))
        client.connection_pool.make_connection()  # checks the parameters of the address; connects later
    except (ValueError, TypeError, library.exceptions.RedisError) as error:
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        reason = f"unknown parameter {unknown[1]!r}" if unknown else _without_password(url, str(error))
        raise UsageError(f"store: invalid address {host_and_port(url)}: {reason}") from error
    _check_files(url)
    return library, client


def _check_files(url: str) -> None:
    """Check that the files of certificates and keys that the address names can be read. Raises UsageError otherwise."""
    for name, path in parse_qsl(urlsplit(url).query):
        if name in FILE_PARAMETERS:
            try:
                option_files.read(Path(path))
            except OSError as error:
                raise UsageError(f"store: {name}: {path} cannot be read: {error.strerror}") from error


def redis_library() -> Any:
    try:
        import redis.asyncio  # noqa: PLC0415 -- an optional dependency
        import redis.backoff  # noqa: PLC0415
        import redis.exceptions  # noqa: PLC0415
        import redis.retry  # noqa: PLC0415
    except ImportError as error:
        raise UsageError("store: a fleet needs redis-py: pip install 'feedproxy[redis]'") from error
    return redis


def _without_password(url: str, text: str) -> str:
    password = urlsplit(url).password
    return text.replace(password, "…") if password else text
