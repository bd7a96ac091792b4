"""PHP, Ruby, Perl and Python parse the formats written for them, with the values of the model."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from feedproxy.feed.convert.formats import FORMATS
from feedproxy.feed.convert.model import Enclosure, Feed, Item, Link, Node, Text
from feedproxy.feed.convert.model_as_dict import to_data
from feedproxy.feed.convert.read.from_document import read
from tests.conftest import CORPUS
from tests.waiting import PATIENCE

READERS = {
    "php": (
        "php",
        "-r",
        "foreach (array_slice($argv, 1) as $f)"
        " { $d = unserialize(file_get_contents($f), ['allowed_classes' => false]);"
        " if ($d === false) exit(1);"
        ' echo json_encode($d, JSON_UNESCAPED_SLASHES | JSON_THROW_ON_ERROR), "\\n"; }',
    ),
    "ruby": ("ruby", "-rjson", "-e", "ARGV.each { |f| puts JSON.generate(eval(File.read(f))) }"),
    "perl": (
        "perl",
        "-MJSON::PP",
        "-e",
        "for my $f (@ARGV) { my $d = do $f; die $@ unless defined $d;"
        " print JSON::PP->new->ascii->encode($d), qq{\\n} }",
    ),
    "python": (
        sys.executable,
        "-c",
        "import ast, json, sys\nfor f in sys.argv[1:]: print(json.dumps(ast.literal_eval(open(f).read())))",
    ),
}

AWKWARD = "a \" ' \\ #{1 + 1} $x @y \u2028 \U0001f34b \n\t%s </script> \xe9 ?> #$x"


def an_awkward_feed() -> Feed:
    item = Item(
        id=AWKWARD,
        title=Text(AWKWARD),
        is_permalink=True,
        links=(Link(AWKWARD, "self"),),
        enclosures=(Enclosure("https://example.com/a.mp3", "audio/mpeg", 10**12),),
        extensions=(Node("urn:x", "y", (("z", AWKWARD),), (AWKWARD, Node("", "w"))),),
        published=-1,
    )
    return Feed(title=Text(AWKWARD), items=(item, Item()))


def read_by(name: str, feeds: list[Feed], folder: Path) -> list[Any]:
    """Return the feeds as the language's interpreter parses them, as JSON."""
    command = READERS[name]
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} here")
    paths = []
    for number, feed in enumerate(feeds):
        paths.append(folder / f"{number}.{name}")
        paths[-1].write_bytes(FORMATS[name].render(feed))
    told = subprocess.run([*command, *map(str, paths)], capture_output=True, timeout=PATIENCE, check=False)
    assert told.returncode == 0, told.stderr[-500:]
    return [json.loads(line) for line in told.stdout.splitlines()]


def alike(value: Any) -> Any:
    """Return the value in the form common to all languages: Perl lacks booleans, PHP lacks empty dictionaries."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, dict):
        return {key: alike(each) for key, each in value.items()} or []
    if isinstance(value, list):
        return [alike(each) for each in value]
    return value


@pytest.mark.parametrize("name", READERS)
def test_interpreter_reads_every_character_correctly(name: str, tmp_path: Path) -> None:
    feed = an_awkward_feed()

    assert alike(read_by(name, [feed], tmp_path)) == alike([to_data(feed)])


@pytest.mark.parametrize("name", READERS)
def test_interpreter_reads_the_corpus(name: str, tmp_path: Path) -> None:
    if not (CORPUS / "feeds.json").is_file():
        pytest.skip("no corpus: ../shared/corpus is not there")
    paths = [path for path in sorted((CORPUS / "feeds").iterdir()) if path.stat().st_size < 100_000]
    feeds = [feed for path in paths[::4] if (feed := read(path.read_bytes()))]

    told = read_by(name, feeds, tmp_path)

    assert len(told) == len(feeds) > 50
    for feed, got in zip(feeds, told, strict=True):
        assert alike(got) == alike({"items": [], **to_data(feed)})  # type: ignore[dict-item]


def test_xmllint_accepts_the_documents(tmp_path: Path) -> None:
    if shutil.which("xmllint") is None:
        pytest.skip("no xmllint here")
    for name in ("rss", "rdf", "atom", "opml"):
        path = tmp_path / f"feed.{name}"
        path.write_bytes(FORMATS[name].render(an_awkward_feed()))
        told = subprocess.run(
            ["xmllint", "--nonet", "--noout", str(path)], capture_output=True, timeout=PATIENCE, check=False
        )
        assert (told.returncode, told.stderr) == (0, b"")
