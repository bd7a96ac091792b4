"""Construction of a replay from the arguments of the command line."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from feedproxy.clock import Instant
from feedproxy.errors import UsageError
from feedproxy.lab.record import har
from feedproxy.lab.record.exchange import Recording, merge_recordings
from feedproxy.lab.replay import timeline, version_folder
from feedproxy.lab.replay.faults import CATALOGUE
from feedproxy.lab.replay.faults.base import parse_fault
from feedproxy.lab.replay.forced_hints import parse_changes
from feedproxy.lab.replay.replay_origin import ReplayOrigin
from feedproxy.lab.replay.timeline import ReplayWorld, Timeline


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Arguments of --strip, --add, --fault and --seed."""

    strip: Sequence[str] = ()
    add: Sequence[str] = ()
    faults: Sequence[str] = ()
    seed: str = "1"


def open_source(path: Path, read: Callable[[Path], Recording] = har.read) -> ReplayWorld:
    """Read a recording, or a folder of dated versions or recordings. `read` reads a file. Raises UsageError."""
    if path.is_dir():
        recordings = [har.read(file) for file in sorted(path.glob("*.har"))]
        world = version_folder.world_of(version_folder.read(path)) | timeline.world_of(merge_recordings(recordings))
        what = "neither dated versions (NAME.tar.xz, NAME.json) nor HAR files"
    elif path.name.endswith(version_folder.ARCHIVES):
        world, what = version_folder.world_of(version_folder.read_archive(path)), "no file"
    else:
        world = timeline.world_of(read(path))
        what = "no answer to a GET that could be replayed"
    if not world:
        raise UsageError(f"{path}: there is {what} in it")
    return world


def make_replay(
    world: ReplayWorld,
    wishes: ReplayOptions,
    start: Instant,
    *,
    plain: bool = False,
    names: Mapping[str, str] | None = None,
) -> ReplayOrigin:
    """Return a replay that begins at `start`. Raises UsageError for invalid options."""
    planned = [parse_fault(text, CATALOGUE, start, f"{wishes.seed}/{at}") for at, text in enumerate(wishes.faults)]
    return ReplayOrigin(
        world, changes=parse_changes(wishes.strip, wishes.add), faults=planned, plain=plain, names=names
    )


def feed_table(world: ReplayWorld) -> Iterator[tuple[str, Timeline]]:
    """Yield each feed once, with the first of its addresses."""
    listed: set[int] = set()
    for name, feed in {**world.targets, **world.paths}.items():
        if id(feed) not in listed:
            listed.add(id(feed))
            yield name, feed
