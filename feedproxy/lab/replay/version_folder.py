"""Reader of folders with dated versions of feeds: an archive for each feed, perhaps with metadata in a file `NAME.json`
(docs/how-to/replay-a-week.md)."""

import json
import lzma
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from feedproxy.errors import BadTarget, UsageError
from feedproxy.feed.document_syntax import DocumentSyntax, detect_syntax
from feedproxy.http import uri
from feedproxy.lab.record.exchange import content_digest
from feedproxy.lab.replay.time_arguments import LAST
from feedproxy.lab.replay.timeline import ReplayWorld, Timeline, Version

ARCHIVES = (".tar.xz", ".tar.gz", ".tar")

VERSION_BYTES_MAX = 50_000_000
"""A version of more than this many bytes is refused, before its content takes memory."""

_BY_FORMAT = {
    "rss": "application/rss+xml",
    "atom": "application/atom+xml",
    "opml": "text/x-opml",
    "json": "application/feed+json",
}
_BY_NATURE = {
    DocumentSyntax.XML: "application/xml",
    DocumentSyntax.JSON: "application/json",
    DocumentSyntax.HTML: "text/html",
    DocumentSyntax.EMPTY: "text/plain",
    DocumentSyntax.OTHER: "application/octet-stream",
}


def read(folder: Path) -> ReplayWorld:
    """Return the feeds in a folder. Raises UsageError if a file is invalid."""
    world = ReplayWorld()
    for file in sorted(folder.glob("*.json")):
        world |= _history(file)
    for archive in sorted(folder.iterdir()):
        if archive.name.endswith(ARCHIVES) and not _manifest_path(archive).exists():
            world |= _versions_by_file_date(archive)
    return world


def read_archive(archive: Path) -> ReplayWorld:
    """Return the feed in an archive, or no feed if it contains no version. Raises UsageError if a file is invalid."""
    manifest = _manifest_path(archive)
    world = _history(manifest) if manifest.exists() else ReplayWorld()
    return world or _versions_by_file_date(archive)


def _history(file: Path) -> ReplayWorld:
    """Return the feed that a file with metadata describes, or no feed if the file has other JSON."""
    try:
        description = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: {error}") from error
    if not isinstance(description, dict) or "versions" not in description:
        return ReplayWorld()
    name = file.name.removesuffix(".json")
    try:
        members = _read_members(file.with_name(name))
        timeline = Timeline([_version(version, members) for version in description["versions"]])
        targets = {uri.normalise(description["url"]): timeline} if description.get("url") else {}
    except (TypeError, ValueError, OSError, BadTarget) as error:
        raise UsageError(f"{file}: {error}") from error
    source, path = description.get("source"), description.get("path")
    paths = [name, f"{source}/{path}"] if source and path else [name]
    return ReplayWorld(targets, dict.fromkeys(map(_path, paths), timeline))


def _manifest_path(archive: Path) -> Path:
    ending = next(suffix for suffix in ARCHIVES if archive.name.endswith(suffix))
    return archive.with_name(archive.name.removesuffix(ending) + ".json")


def _versions_by_file_date(archive: Path) -> ReplayWorld:
    """Return the feed of an archive without metadata, or no feed for an archive without files. Each file is a version,
    which begins at the file's modification time."""
    try:
        versions = [
            _version({"member": name, "time": modified}, {name: content})
            for name, modified, content in _read_archive_members(archive)
        ]
    except ValueError as error:
        raise UsageError(f"{archive}: {error}") from error
    name = _manifest_path(archive).name.removesuffix(".json")
    return ReplayWorld(paths={_path(name): Timeline(versions)} if versions else {})


def _path(path: str) -> str:
    return uri.normalise(f"http://host/{path}").removeprefix("http://host")


def _read_members(base: Path) -> Mapping[str, bytes]:
    if base.is_dir():
        return {file.name: file.read_bytes() for file in base.iterdir() if file.is_file()}
    for ending in ARCHIVES:
        archive = base.with_name(base.name + ending)
        if archive.is_file():
            return {name: content for name, _, content in _read_archive_members(archive)}
    raise ValueError(f"neither {base.name}/ nor {base.name}{ARCHIVES[0]} is beside it")


def _read_archive_members(archive: Path) -> Iterator[tuple[str, float, bytes]]:
    """Yield name, modification time and content of each file in an archive, without links and devices. Raises
    UsageError if the archive cannot be read."""
    try:
        with tarfile.open(archive) as tar_file:
            for member in tar_file:
                if member.isreg() and (file := tar_file.extractfile(member)) is not None:
                    if member.size > VERSION_BYTES_MAX:
                        raise UsageError(f"{archive}: {member.name}: larger than {VERSION_BYTES_MAX} bytes")
                    yield member.name, member.mtime, file.read()
    except (OSError, EOFError, tarfile.TarError, zlib.error, lzma.LZMAError) as error:
        # tarfile's message has a line for each kind of compression that it has tried.
        raise UsageError(f"{archive}: {str(error).partition(':')[0]}") from error


def _version(description: Mapping[str, Any], members: Mapping[str, bytes]) -> Version:
    try:
        content, since = members[description["member"]], float(description["time"])
    except KeyError as error:
        raise ValueError(f"{error}: no such key or file") from error
    if not 0 <= since <= LAST:
        raise ValueError(f"{description['member']}: {since:g}: expected a time in Unix seconds")
    digest = content_digest(content)
    if description.get("sha256", digest) != digest:
        raise ValueError(f"{description['member']} does not match its sha256")
    family = str(description.get("format") or "").split(" ")[0].lower()
    media_type = _BY_FORMAT.get(family) or _BY_NATURE[detect_syntax(content)]
    return Version.of_document(since, content, media_type)
