"""Timelines of recorded responses: which response an address has at each instant of a replay.

A version begins at the time of its request. If Last-Modified lies between the previous request and this request, the
version begins at Last-Modified. After a 304, the last version with status 200 is current again.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from msgspec import Struct, field
from msgspec.structs import replace

from feedproxy.clock import Instant
from feedproxy.http.coding.content_coding import layers
from feedproxy.http.date import format_http_date, parse_http_date
from feedproxy.http.message import NO_FIELDS, Fields
from feedproxy.lab.record.exchange import Exchange, Recording, Side, content_digest
from feedproxy.lab.replay.replay_response import DROPPED_FIELDS

SKIPPED_STATUSES = frozenset({*range(200), 206, 226, 412, 416})
"""Statuses that give no version: no response (0), informational responses, partial representations, and failed
conditions or ranges."""


class Version(Struct, frozen=True):
    """The response to GET from an instant until the next version."""

    since: Instant
    status: int = 200
    fields: Fields = NO_FIELDS
    """Fields of the response, without DROPPED_FIELDS."""
    content: bytes = b""
    tag: str = ""
    modified: str = ""
    expires_in: float | None = None
    """Seconds from the response's Date to its Expires, or None if it has no Expires."""
    coded: tuple[str, ...] = ()
    """Content codings of the recorded response."""
    raw: bool = False
    """True if `content` is the recorded body, which does not have the codings in `coded`."""
    reason: str = ""

    @classmethod
    def of_document(cls, since: Instant, content: bytes, media_type: str) -> Self:
        """Return a version without a recorded response. Its validators are made from its content and time."""
        return cls(
            since=since,
            fields=Fields([("Content-Type", media_type)]),
            content=content,
            tag=f'"{content_digest(content)[:16]}"',
            modified=format_http_date(since),
            reason="OK",
        )

    @property
    def is_compressed(self) -> bool:
        """Return True if clients that accept gzip get compressed content."""
        return bool(self.coded) and not self.raw

    def with_field(self, name: str, value: str) -> Self:
        return replace(self, fields=self.fields.with_field(name, value))


class Timeline:
    """The versions of one address, sorted by time. Raises ValueError for an empty list."""

    def __init__(self, versions: Iterable[Version]) -> None:
        self.versions = tuple(sorted(versions, key=lambda version: version.since))
        if not self.versions:
            raise ValueError("no versions")
        self._since = [version.since for version in self.versions]

    def at(self, now: Instant) -> Version | None:
        """Return the version that is current at `now`, or None before the first version."""
        index = bisect_right(self._since, now)
        return self.versions[index - 1] if index else None


class ReplayWorld(Struct, frozen=True):
    """All timelines of a replay, by address (`targets`), and by path at every host (`paths`)."""

    targets: Mapping[str, Timeline] = field(default_factory=dict)
    paths: Mapping[str, Timeline] = field(default_factory=dict)

    def find(self, target: str) -> Timeline | None:
        """Return the timeline of a normalised target, or None if there is none. http and https share a timeline."""
        if (timeline := self.targets.get(target)) is not None:
            return timeline
        scheme, _, rest = target.partition("://")
        other = f"{'https' if scheme == 'http' else 'http'}://{rest}"
        path = rest[rest.find("/") :] if "/" in rest else "/"
        return self.targets.get(other) or self.paths.get(path)

    @property
    def first(self) -> Instant:
        """Return the time of the first version. Raises ValueError if there is no version."""
        return min(timeline.versions[0].since for timeline in self._all)

    @property
    def last(self) -> Instant:
        """Return the time of the last version. Raises ValueError if there is no version."""
        return max(timeline.versions[-1].since for timeline in self._all)

    @property
    def _all(self) -> Sequence[Timeline]:
        return [*self.targets.values(), *self.paths.values()]

    def __or__(self, other: Self) -> "ReplayWorld":
        return ReplayWorld({**self.targets, **other.targets}, {**self.paths, **other.paths})

    def __bool__(self) -> bool:
        return bool(self.targets or self.paths)


def world_of(recording: Recording) -> ReplayWorld:
    """Return the timelines of a recording. An address without recorded requests to its origin gets its versions from
    responses to readers."""
    timelines: dict[str, Timeline] = {}
    for side in (Side.READER, Side.ORIGIN):
        by_target: dict[str, list[Exchange]] = {}
        for exchange in recording.side(side):
            if exchange.request.method == "GET":
                by_target.setdefault(exchange.request.target, []).append(exchange)
        for target, exchanges in by_target.items():
            if versions := _versions(exchanges, recording):
                timelines[target] = Timeline(versions)
    return ReplayWorld(timelines)


def _versions(exchanges: Iterable[Exchange], recording: Recording) -> list[Version]:
    versions: list[Version] = []
    good: Version | None = None
    previous_request: Instant | None = None
    for exchange in exchanges:
        if exchange.status == 304:
            if good is not None and not _is_equivalent(versions[-1], good):
                versions.append(replace(good, since=exchange.at))
            previous_request = exchange.at
            continue
        content = recording.content(exchange)
        if exchange.status in SKIPPED_STATUSES or (exchange.size and not content):
            continue
        version = _version(exchange, content, previous_request)
        good = version if version.status == 200 else good
        if not versions or not _is_equivalent(versions[-1], version):
            versions.append(version)
        previous_request = exchange.at
    return versions


def _version(exchange: Exchange, content: bytes, previous_request: Instant | None) -> Version:
    fields = exchange.fields
    modified = fields.get("last-modified") or ""
    changed = parse_http_date(modified, exchange.at)
    expires, date = (parse_http_date(fields.get(name) or "", exchange.at) for name in ("expires", "date"))
    changed_between = previous_request is not None and changed is not None and previous_request < changed <= exchange.at
    expired = 0.0 if "expires" in fields else None  # RFC 9111, section 5.3: an invalid date means the past
    return Version(
        since=changed if changed_between and changed is not None else exchange.at,
        status=exchange.status,
        fields=fields.end_to_end().without(*DROPPED_FIELDS),
        content=content,
        tag=fields.get("etag") or "",
        modified=modified,
        expires_in=expires - (date or exchange.at) if expires is not None else expired,
        coded=layers(fields.get("content-encoding")),
        raw=exchange.raw,
        reason=exchange.reason,
    )


def _is_equivalent(one: Version, other: Version) -> bool:
    """Return True if readers cannot distinguish the versions."""
    return (one.status, one.content, one.tag, one.modified) == (
        other.status,
        other.content,
        other.tag,
        other.modified,
    ) and one.fields.get("location") == other.fields.get("location")
