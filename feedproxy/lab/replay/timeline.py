"""What was live when: the versions of each address, each from its instant until the next.

Out of a recording it is worked out from what origins answered. A 200 is a version from the moment on that it was
seen, or from its Last-Modified where that lies between this look and the one before; a 304 says that the last 200 is
live again; a redirect, an error and a 410 are versions, too. Answers of which the content was not recorded are passed
over, and so are those that say nothing of what a GET selects (206, 226, 412, 416) and failures of the network: for
those there are faults.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from feedproxy.clock import Instant
from feedproxy.http.content_coding import layers
from feedproxy.http.date import parse_http_date
from feedproxy.http.message import Fields
from feedproxy.lab.record.exchange import Exchange, Recording, Side, digest_of

PARTIAL = frozenset({0, 206, 226, 412, 416})

NOT_KEPT = (
    # The replay says these itself.
    *("date", "age", "content-length", "content-encoding", "accept-ranges", "etag", "last-modified", "expires"),
    # They are true of bytes on the wire that are coded anew, or of a hop that is no longer there.
    *("content-digest", "content-md5", "digest", "alt-svc", "via", "cache-status", "set-cookie", "server-timing"),
    *("strict-transport-security", "report-to", "nel"),
)
"""Fields of a recorded answer that a replay does not repeat as they stand."""


@dataclass(frozen=True, slots=True)
class Version:
    """What a GET got from an instant on."""

    since: Instant
    status: int = 200
    fields: Fields = field(default_factory=Fields)
    """Without those of NOT_KEPT."""
    content: bytes = b""
    tag: str = ""
    """As it is written in ETag; empty where there is none."""
    modified: str = ""
    """Last-Modified, as it is written."""
    expires_in: float | None = None
    """Seconds from the answer's Date to its Expires."""
    coded: tuple[str, ...] = ()
    """The content codings it came in."""
    raw: bool = False
    """The content is the body as it came, and `coded` is not true of it."""
    reason: str = ""

    @property
    def digest(self) -> str:
        """The name of its content in recordings."""
        return digest_of(self.content)


class Timeline:
    """The versions of one address, in order. Raises ValueError where there is none."""

    def __init__(self, versions: Iterable[Version]) -> None:
        self.versions = tuple(sorted(versions, key=lambda version: version.since))
        if not self.versions:
            raise ValueError("no versions")
        self._since = [version.since for version in self.versions]

    def at(self, now: Instant) -> Version | None:
        """The version that is live; None before the first."""
        found = bisect_right(self._since, now)
        return self.versions[found - 1] if found else None


@dataclass(frozen=True, slots=True)
class ReplayWorld:
    """All addresses that a replay knows: some by their whole address, some by their path at any host."""

    targets: Mapping[str, Timeline] = field(default_factory=dict)
    paths: Mapping[str, Timeline] = field(default_factory=dict)

    def find(self, target: str) -> Timeline | None:
        """The timeline of a normalised target; http and https are one, for the replay speaks http alone."""
        if (found := self.targets.get(target)) is not None:
            return found
        scheme, _, rest = target.partition("://")
        other = f"{'https' if scheme == 'http' else 'http'}://{rest}"
        path = rest[rest.find("/") :] if "/" in rest else "/"
        return self.targets.get(other) or self.paths.get(path)

    @property
    def first(self) -> Instant:
        """When the first version of all came. Raises ValueError where there is none."""
        return min(each.versions[0].since for each in self._all)

    @property
    def last(self) -> Instant:
        """When the last version of all came. Raises ValueError where there is none."""
        return max(each.versions[-1].since for each in self._all)

    @property
    def _all(self) -> Sequence[Timeline]:
        return [*self.targets.values(), *self.paths.values()]

    def __or__(self, other: Self) -> "ReplayWorld":
        return ReplayWorld({**self.targets, **other.targets}, {**self.paths, **other.paths})

    def __bool__(self) -> bool:
        return bool(self.targets or self.paths)


def world_of(recording: Recording) -> ReplayWorld:
    """What origins said, by a recording; of an address that no origin was asked for, what readers were answered."""
    found: dict[str, Timeline] = {}
    for side in (Side.READER, Side.ORIGIN):
        by_target: dict[str, list[Exchange]] = {}
        for exchange in recording.side(side):
            if exchange.request.method == "GET":
                by_target.setdefault(exchange.request.target, []).append(exchange)
        for target, exchanges in by_target.items():
            if versions := _versions(exchanges, recording):
                found[target] = Timeline(versions)
    return ReplayWorld(found)


def _versions(exchanges: Iterable[Exchange], recording: Recording) -> list[Version]:
    versions: list[Version] = []
    good: Version | None = None
    seen: Instant | None = None
    for exchange in exchanges:
        if exchange.status == 304:
            if good is not None and not _same(versions[-1], good):
                versions.append(replace(good, since=exchange.at))
            seen = exchange.at
            continue
        content = recording.content(exchange)
        if exchange.status in PARTIAL or (exchange.size and not content):
            continue
        version = _version(exchange, content, seen)
        good = version if version.status == 200 else good
        if not versions or not _same(versions[-1], version):
            versions.append(version)
        seen = exchange.at
    return versions


def _version(exchange: Exchange, content: bytes, seen: Instant | None) -> Version:
    fields = exchange.fields
    modified = fields.get("last-modified") or ""
    changed = parse_http_date(modified, exchange.at)
    expires, date = (parse_http_date(fields.get(name) or "", exchange.at) for name in ("expires", "date"))
    known = seen is not None and changed is not None and seen < changed <= exchange.at
    expired = 0.0 if "expires" in fields else None  # what is no date has passed
    return Version(
        since=changed if known and changed is not None else exchange.at,
        status=exchange.status,
        fields=fields.end_to_end().without(*NOT_KEPT),
        content=content,
        tag=fields.get("etag") or "",
        modified=modified,
        expires_in=expires - (date or exchange.at) if expires is not None else expired,
        coded=layers(fields.get("content-encoding")),
        raw=exchange.raw,
        reason=exchange.reason,
    )


def _same(one: Version, other: Version) -> bool:
    """Whether a reader could not tell them apart."""
    return (one.status, one.content, one.tag, one.modified) == (
        other.status,
        other.content,
        other.tag,
        other.modified,
    ) and one.fields.get("location") == other.fields.get("location")
