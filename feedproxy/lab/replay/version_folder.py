"""A folder of dated versions, as a replay reads it; or a folder of recordings.

Each feed is an archive `NAME.tar.xz` (or .tar, .tar.gz), whose files are its versions by their dates; or a file
`NAME.json` that tells more, and the bytes in such an archive or in a folder `NAME`:

    {"source": "owner/repository", "path": "feed.xml", "versions": [
      {"member": "0000.xml", "time": 1780000000, "sha256": "…", "format": "RSS 2.0"}, …]}

`time` is Unix seconds. A feed answers at any host as `/NAME`, as `/SOURCE/PATH` where those are told, and at its
`url` where that is. The versions have the validators that a good server gives: a strong tag from the bytes, and
Last-Modified.
"""

import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feedproxy.errors import BadTarget, UsageError
from feedproxy.feed.detect import DocumentKind, detect_kind
from feedproxy.http import uri
from feedproxy.http.date import format_http_date
from feedproxy.http.message import Fields
from feedproxy.lab.record.exchange import digest_of
from feedproxy.lab.replay.timeline import ReplayWorld, Timeline, Version

ARCHIVES = (".tar.xz", ".tar.gz", ".tar")

_BY_FORMAT = {
    "rss": "application/rss+xml",
    "atom": "application/atom+xml",
    "opml": "text/x-opml",
    "json": "application/feed+json",
}
_BY_NATURE = {
    DocumentKind.XML: "application/xml",
    DocumentKind.JSON: "application/json",
    DocumentKind.HTML: "text/html",
    DocumentKind.EMPTY: "text/plain",
    DocumentKind.OTHER: "application/octet-stream",
}


@dataclass(frozen=True, slots=True)
class FeedVersions:
    """One feed of a folder."""

    name: str
    url: str
    paths: tuple[str, ...]
    timeline: Timeline


def read(folder: Path) -> list[FeedVersions]:
    """The feeds of a folder, by name; none where it holds no dated versions. Raises UsageError."""
    found = [history for file in sorted(folder.glob("*.json")) if (history := _history(file)) is not None]
    alone = [
        each for each in sorted(folder.iterdir()) if each.name.endswith(ARCHIVES) and not _read_manifest(each).exists()
    ]
    return [*found, *(history for each in alone for history in _versions_by_file_date(each))]


def read_archive(archive: Path) -> list[FeedVersions]:
    """The feed of one archive. Raises UsageError."""
    told = _history(_read_manifest(archive)) if _read_manifest(archive).exists() else None
    return [told] if told is not None else _versions_by_file_date(archive)


def world_of(histories: list[FeedVersions]) -> ReplayWorld:
    """All of them as what a replay knows."""
    targets = {each.url: each.timeline for each in histories if each.url}
    return ReplayWorld(targets, {path: each.timeline for each in histories for path in each.paths})


def _history(file: Path) -> FeedVersions | None:
    try:
        told = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: {error}") from error
    if not isinstance(told, dict) or "versions" not in told:
        return None
    name = file.name.removesuffix(".json")
    try:
        members = _members(file.with_name(name))
        timeline = Timeline([_version(each, members) for each in told["versions"]])
        url = uri.normalise(told["url"]) if told.get("url") else ""
    except (KeyError, TypeError, ValueError, OSError, tarfile.TarError, BadTarget) as error:
        raise UsageError(f"{file}: {error}") from error
    source, path = told.get("source"), told.get("path")
    paths = [name, f"{source}/{path}"] if source and path else [name]
    return FeedVersions(name, url, tuple(map(_path, paths)), timeline)


def _read_manifest(archive: Path) -> Path:
    """Where it stands what an archive holds."""
    ending = next(each for each in ARCHIVES if archive.name.endswith(each))
    return archive.with_name(archive.name.removesuffix(ending) + ".json")


def _versions_by_file_date(archive: Path) -> list[FeedVersions]:
    """The versions of an archive that nothing is told of: they are as old as its files."""
    try:
        with tarfile.open(archive) as opened:
            versions = [
                _version({"member": each.name, "time": each.mtime}, {each.name: file.read()})
                for each in opened
                if (file := opened.extractfile(each)) is not None
            ]
    except (OSError, tarfile.TarError) as error:
        raise UsageError(f"{archive}: {error}") from error
    name = _read_manifest(archive).name.removesuffix(".json")
    return [FeedVersions(name, "", (_path(name),), Timeline(versions))] if versions else []


def _path(path: str) -> str:
    return uri.normalise(f"http://host/{path}").removeprefix("http://host")


def _members(base: Path) -> Mapping[str, bytes]:
    if base.is_dir():
        return {each.name: each.read_bytes() for each in base.iterdir() if each.is_file()}
    for ending in ARCHIVES:
        archive = base.with_name(base.name + ending)
        if archive.is_file():
            with tarfile.open(archive) as opened:
                return {each.name: file.read() for each in opened if (file := opened.extractfile(each)) is not None}
    raise ValueError(f"neither {base.name}/ nor {base.name}{ARCHIVES[0]} is beside it")


def _version(told: Mapping[str, Any], members: Mapping[str, bytes]) -> Version:
    content, since = members[told["member"]], float(told["time"])
    digest = digest_of(content)
    if told.get("sha256", digest) != digest:
        raise ValueError(f"{told['member']} is not what its sha256 says")
    family = str(told.get("format") or "").split(" ")[0].lower()
    media_type = _BY_FORMAT.get(family) or _BY_NATURE[detect_kind(content)]
    return Version(
        since=since,
        fields=Fields([("Content-Type", media_type)]),
        content=content,
        tag=f'"{digest[:16]}"',
        modified=format_http_date(since),
        reason="OK",
    )
