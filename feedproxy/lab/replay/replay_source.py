"""Construction of a replay from command line arguments."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from feedproxy.clock import Instant
from feedproxy.errors import UsageError
from feedproxy.lab.record import har_format
from feedproxy.lab.record.exchange import Recording, merge_recordings
from feedproxy.lab.replay import timeline, version_folder
from feedproxy.lab.replay.faults import CATALOGUE
from feedproxy.lab.replay.faults.fault import parse_fault
from feedproxy.lab.replay.hint_overrides import parse_changes
from feedproxy.lab.replay.replay_origin import ReplayOrigin
from feedproxy.lab.replay.timeline import ReplayWorld, Timeline


class ReplayOptions(Struct, frozen=True):
    """The arguments --strip, --add, --fault and --seed."""

    strip: Sequence[str] = ()
    add: Sequence[str] = ()
    faults: Sequence[str] = ()
    seed: str = "1"


def open_source(path: Path, read_har: Callable[[Path], Recording] = har_format.read) -> ReplayWorld:
    """Return the timelines of a recording, or of a folder with dated versions or recordings. `read_har` reads one HAR
    file. Raises UsageError if the path is no valid source."""
    if path.is_dir():
        recordings = [har_format.read(file) for file in sorted(path.glob("*.har"))]
        world = version_folder.read(path) | timeline.world_of(merge_recordings(recordings))
        problem = "neither dated versions (NAME.tar.xz, NAME.json) nor HAR files"
    elif path.name.endswith(version_folder.ARCHIVES):
        world, problem = version_folder.read_archive(path), "no file"
    else:
        world = timeline.world_of(read_har(path))
        problem = "no answer to a GET request"
    if not world:
        raise UsageError(f"{path}: it has {problem}")
    return world


def make_replay(
    world: ReplayWorld,
    options: ReplayOptions,
    start: Instant,
    *,
    plain: bool = False,
    names: Mapping[str, str] | None = None,
) -> ReplayOrigin:
    """Return a replay that begins at `start`. `plain` and `names` are those of ReplayOrigin. Raises UsageError for an
    invalid option."""
    planned = [parse_fault(text, CATALOGUE, start, f"{options.seed}/{at}") for at, text in enumerate(options.faults)]
    return ReplayOrigin(
        world, changes=parse_changes(options.strip, options.add), faults=planned, plain=plain, names=names
    )


def feed_table(world: ReplayWorld) -> Iterator[tuple[str, Timeline]]:
    """Yield each feed once, under its first address."""
    listed: set[int] = set()
    for name, feed in {**world.targets, **world.paths}.items():
        if id(feed) not in listed:
            listed.add(id(feed))
            yield name, feed
