"""Asking an origin: one request, one answer that is complete, or an error that says what was wrong.

Redirects, cookies, content codings and caching are somebody else's. The only field added is Host.
"""

import asyncio
import os
import re
import ssl
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import aiohttp
from yarl import URL

from feedproxy.clock import Clock, Instant, Seconds
from feedproxy.errors import BadTarget, BrokenMessage, FeedproxyError, FetchTimeout, Unreachable
from feedproxy.http.message import Fields, Request, Response
from feedproxy.net.address import AddressPolicy
from feedproxy.net.wire import CheckedResolver, ExactConnector, StaleConnection, doubt_of, interim_of
from feedproxy.settings import Settings

_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""What aiohttp would add unasked."""

_UNSENDABLE = re.compile(r"[^\t -~\x80-\xff]")


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What one exchange may cost: seconds and bytes."""

    connect: Seconds = 10
    """Name, address, TLS, and waiting for a free connection."""
    first_byte: Seconds = 30
    """From the request to the answer's first byte; then the longest pause within the answer."""
    total: Seconds = 60
    header_max: int = 65_536
    """Bytes of the head, 1xx responses included."""
    buffer_max: int = 10_000_000
    """Bytes of the body on the wire."""
    connections: int = 200
    """Connections to origins at once."""
    per_host: int = 6
    """Connections to one host and port at once: what browsers allow themselves."""

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The operator's limits."""
        return cls(
            connect=settings.connect_timeout,
            first_byte=settings.first_byte_timeout,
            total=settings.fetch_timeout,
            header_max=settings.header_max,
            buffer_max=settings.buffer_max,
        )


@dataclass(frozen=True, slots=True)
class Fetched:
    """A complete answer: end-to-end fields, without Content-Length but where a HEAD tells it."""

    response: Response
    request_time: Instant
    response_time: Instant
    interim: tuple[Response, ...] = ()
    """The 1xx responses that came before it, except 100, which is between the two ends of a connection."""
    minor: int = 1
    """Of the origin's HTTP/1.x."""
    lines: tuple[tuple[bytes, bytes], ...] = ()
    """The head's fields, those of one connection included."""
    doubt: str = ""
    """What its framing left doubtful, in words."""


@dataclass(frozen=True, slots=True)
class Oversized:
    """An answer whose body is above the cap; the connection was dropped."""

    status: int
    fields: Fields
    interim: tuple[Response, ...] = ()


@dataclass(frozen=True, slots=True)
class FetchStats:
    """For the metrics: connections to origins now open, idle ones included, and exchanges under way."""

    connections: int
    exchanges: int


class Fetcher:
    """A pooled HTTP/1.1 client. Use as an async context manager, or `close()` it."""

    def __init__(
        self,
        policy: AddressPolicy,
        limits: FetchLimits | None = None,
        *,
        clock: Clock,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._policy = policy
        self._limits = limits or FetchLimits()
        self._clock = clock
        self._ssl_context = ssl_context
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        self._open: set[object] = set()
        self._exchanges = 0
        self._closed = False

    @property
    def stats(self) -> FetchStats:
        """What is open now."""
        return FetchStats(len(self._open), self._exchanges)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; exchanges under way fail. Nothing can be fetched afterwards."""
        self._closed = True
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()

    async def fetch(self, request: Request, *, exempt: bool = False) -> Fetched | Oversized:
        """Ask the origin of the request's target. GET and HEAD only.

        `exempt` is for what the operator himself configured: neither port nor address is checked.
        Raises Forbidden (address, port), BadTarget, Unreachable, FetchTimeout, BrokenMessage.
        """
        url = _url(request.target)
        if request.method not in {"GET", "HEAD"}:
            raise BadTarget(f"{request.method} is not fetched")
        if not exempt:
            self._policy.check_port(url.port or 0)
            # aiohttp asks its resolver for names only, so what spells out an address is checked here.
            self._policy.literal(url.raw_host or "")
        lines = _request_lines(request.fields)
        self._exchanges += 1
        try:
            async with asyncio.timeout(self._limits.total):
                try:
                    return await self._exchange(request.method, url, lines, exempt=exempt)
                except StaleConnection:
                    return await self._exchange(request.method, url, lines, exempt=exempt)
        except FeedproxyError:
            raise
        except aiohttp.ConnectionTimeoutError as error:
            raise FetchTimeout(f"no connection to {url.authority} in {self._limits.connect:g} s") from error
        except aiohttp.SocketTimeoutError as error:
            raise FetchTimeout(f"{url.authority} was silent for {self._limits.first_byte:g} s") from error
        except TimeoutError as error:
            raise FetchTimeout(f"{url.authority} took longer than {self._limits.total:g} s") from error
        except (aiohttp.ClientConnectorError, aiohttp.ClientConnectorCertificateError) as error:
            raise Unreachable(f"{url.authority} cannot be reached: {_cause(error)}") from error
        except aiohttp.InvalidURL as error:
            raise BadTarget(f"{request.target!r} cannot be fetched") from error
        except (aiohttp.ClientError, OSError) as error:
            raise BrokenMessage(f"{url.authority}: {error}") from error
        finally:
            self._exchanges -= 1

    async def _exchange(
        self, method: str, url: URL, lines: list[tuple[str, str]], *, exempt: bool
    ) -> Fetched | Oversized:
        request_time = self._clock.now()
        answer = await self._session(exempt).request(method, url, headers=lines, allow_redirects=False)
        response_time = self._clock.now()
        interim, doubt = interim_of(answer), doubt_of(answer)
        async with answer:
            cap = self._limits.buffer_max
            fields = _response_fields(answer.raw_headers)
            length = answer.headers.get("Content-Length")
            has_content = method != "HEAD" and answer.status not in {204, 304}
            if method != "HEAD":
                fields = fields.without("content-length")
            if has_content and length is not None and int(length) > cap:
                answer.close()
                return Oversized(answer.status, fields)
            body = bytearray()
            async for chunk in answer.content.iter_any():
                body += chunk
                if len(body) > cap:
                    answer.close()
                    return Oversized(answer.status, fields)
            reason = (answer.reason or "").encode("utf-8", "surrogateescape").decode("latin-1")
            response = Response(answer.status, fields, bytes(body), reason)
            minor = answer.version.minor if answer.version is not None else 1
            return Fetched(response, request_time, response_time, interim, minor, answer.raw_headers, doubt)

    def _session(self, exempt: bool) -> aiohttp.ClientSession:
        """One pool for what is checked and one for what is not: a connection never changes sides."""
        if self._closed:
            raise Unreachable("the client is closed")
        if exempt not in self._sessions:
            limits = self._limits
            connector = ExactConnector(
                CheckedResolver(self._policy.addresses if exempt else self._policy.resolve),
                ssl_context=self._ssl_context,
                connections=limits.connections,
                per_host=limits.per_host,
                head_max=limits.header_max,
                open_connections=self._open,
            )
            self._sessions[exempt] = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=_AUTOMATIC,
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None, connect=limits.connect, sock_read=limits.first_byte),
            )
        return self._sessions[exempt]


def _cause(error: aiohttp.ClientConnectorError | aiohttp.ClientConnectorCertificateError) -> str:
    """Why there is no connection, in the system's words; aiohttp's own name addresses that are nobody's business."""
    cause = error.certificate_error if isinstance(error, aiohttp.ClientConnectorCertificateError) else error.os_error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"no TLS with it: {cause.reason or cause}"
    number = cause.errno if isinstance(cause, OSError) else None
    return os.strerror(number) if number and number > 0 else "no connection comes about"


def _url(target: str) -> URL:
    try:
        url = URL(target, encoded=True)
        host, port = url.raw_host, url.port  # both are read only when asked for, and may then fail
    except ValueError as error:
        raise BadTarget(f"{target!r} cannot be fetched: {error}") from error
    if url.scheme not in {"http", "https"} or not host or port is None or not target.isascii():
        raise BadTarget(f"{target!r} cannot be fetched")
    return url


def _request_lines(fields: Fields) -> list[tuple[str, str]]:
    """What goes out: no fields of another hop, none that promise content, and Host is aiohttp's to write."""
    lines, spelt = [], dict[str, str]()
    for name, value in fields.end_to_end().without("host", "content-length", "expect"):
        if not name or _UNSENDABLE.search(name + value):
            raise BadTarget(f"the field {name!r} cannot be sent")
        # aiohttp takes `X-A` and `x-a` for two names, and lets the second overwrite the first.
        lines.append((spelt.setdefault(name.lower(), name), value))
    return lines


def _response_fields(raw: tuple[tuple[bytes, bytes], ...]) -> Fields:
    return Fields((name.decode("latin-1"), value.decode("latin-1")) for name, value in raw).end_to_end()
