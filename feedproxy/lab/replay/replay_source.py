"""From what the command line says to a replay that can be asked."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from feedproxy.clock import Instant
from feedproxy.errors import UsageError
from feedproxy.lab.record import har
from feedproxy.lab.record.exchange import Recording, merged
from feedproxy.lab.replay import timeline, version_folder
from feedproxy.lab.replay.faults import CATALOGUE
from feedproxy.lab.replay.faults.base import plan
from feedproxy.lab.replay.forced_hints import changes
from feedproxy.lab.replay.replay_origin import Replay
from feedproxy.lab.replay.timeline import Timeline, World


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is taken away, put in and broken, as the command line spells it."""

    strip: Sequence[str] = ()
    add: Sequence[str] = ()
    faults: Sequence[str] = ()
    seed: str = "1"


def open_world(path: Path, read: Callable[[Path], Recording] = har.read) -> World:
    """What a file, or a folder of dated versions or of recordings, holds. `read` reads a file. Raises UsageError."""
    if path.is_dir():
        recordings = [har.read(each) for each in sorted(path.glob("*.har"))]
        world = version_folder.world_of(version_folder.read(path)) | timeline.world_of(merged(recordings))
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
    world: World, wishes: Wishes, start: Instant, *, plain: bool = False, names: Mapping[str, str] | None = None
) -> Replay:
    """A replay that begins at `start`. Raises UsageError for wishes that cannot be understood."""
    planned = [plan(text, CATALOGUE, start, f"{wishes.seed}/{at}") for at, text in enumerate(wishes.faults)]
    return Replay(world, changes=changes(wishes.strip, wishes.add), faults=planned, plain=plain, names=names)


def table(world: World) -> Iterator[tuple[str, Timeline]]:
    """Each feed once, by the first of its addresses."""
    told: set[int] = set()
    for name, each in {**world.targets, **world.paths}.items():
        if id(each) not in told:
            told.add(id(each))
            yield name, each
