"""The pages of the documentation: links, commands, options and computed examples are valid."""

import argparse
import asyncio
import re
import runpy
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from feedproxy import cli
from feedproxy.config import config_file, environment_and_set, option_suggestions, option_types
from feedproxy.errors import UsageError
from feedproxy.process import mitmproxy_master
from feedproxy.process.option_sources import ServePlan

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FOR_USERS = [page for page in PAGES if page.parent.name not in ("decisions",) and page.name != "ARCHITECTURE.md"]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))

LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)")
INLINE = re.compile(r"`([^`\n]+)`")
OPTION_AND_VALUE = re.compile(r"([a-z]+(?:_[a-z]+)*): \S.*")
ENDS_A_COMMAND = {"|", ">", ">>", "&&", ";", "&", "2>&1", "2>"}
OUTPUT = re.compile(r"feedproxy (?:\d|listens on )")
"""Beginnings of feedproxy's output, which look like command lines."""
HOST = re.compile(r"https?://(?:[^\s/@]*@)?([^\s/?:`'\"()<>\]|*]+)")
EXAMPLE_HOST = re.compile(
    r"(?:[\w-]+\.)*example\.(?:com|org|net)|127\.0\.0\.1|0\.0\.0\.0|localhost|HOST|THIS-HOST|www\.w3\.org|…|ADDRESS"
)


def _named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _blocks(text: str) -> Iterator[str]:
    """Yield the code blocks of a page, fenced or indented by four spaces."""
    text = re.sub(
        r"^```\w*\n(.*?)^```", lambda fence: re.sub("^", "    ", fence[1], flags=re.M), text, flags=re.M | re.S
    )
    block: list[str] = []
    for line in [*text.splitlines(), "end"]:
        if line.startswith("    ") or (block and not line.strip()):
            block.append(line[4:])
        elif block:
            yield "\n".join(block).rstrip()
            block = []


def _prose(text: str) -> str:
    return re.sub(r"^(?:    |```).*$", "", text, flags=re.M)


def _commands(text: str) -> Iterator[str]:
    """Yield the text after `feedproxy` of each command line on a page."""
    for line in (line for block in _blocks(text) for line in block.splitlines()):
        yield from re.findall(r"\$\(feedproxy ([^)]*)\)", line)
        plain = line.strip().removeprefix("$ ")
        if plain.startswith("feedproxy ") and not OUTPUT.match(plain) and "[" not in plain:
            yield plain.removeprefix("feedproxy ")
    for code in INLINE.findall(_prose(text)):
        if code.startswith("feedproxy ") and not OUTPUT.match(code):
            yield code.removeprefix("feedproxy ")


def _words(command: str) -> list[str]:
    """Return the arguments up to the first shell operator."""
    words: list[str] = []
    for word in shlex.split(command.rstrip("…. "), comments=True):
        if word in ENDS_A_COMMAND:
            break
        words.append(word)
    return words


@cache
def _known() -> dict[str, option_types.OptionSpec]:
    """Return every option of the product, including those of mitmproxy."""

    async def ask() -> dict[str, option_types.OptionSpec]:
        made, *_ = mitmproxy_master.build_master(ServePlan())
        return mitmproxy_master.known_options(made)

    return asyncio.run(ask())


def _slug(heading: str) -> str:
    """Return the anchor that the usual sites generate for a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def _anchors(page: Path) -> set[str]:
    return {_slug(heading) for heading in re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)}


@pytest.mark.parametrize("page", PAGES, ids=_named)
def test_every_link_has_a_target(page: Path) -> None:
    for link in LINK.findall(_prose(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{link} leads nowhere"
        assert there.is_relative_to(ROOT), f"{link} leads out of the project"
        assert not anchor or anchor in _anchors(there), f"{link}: no such heading"


def test_every_page_is_reachable_from_the_index() -> None:
    seen, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        links = LINK.findall(_prose(page.read_text(encoding="utf-8")))
        waiting += [
            (page.parent / link.partition("#")[0]).resolve() for link in links if not re.match(r"[a-z]+:|#", link)
        ]

    assert set(PAGES) - seen == set()


@pytest.mark.parametrize("page", PAGES, ids=_named)
def test_every_command_line_parses(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parse = cli.Parser.parse_args
    parsed: list[argparse.Namespace] = []

    def parse_only(self: cli.Parser, *args: Any, **kwargs: Any) -> argparse.Namespace:
        parsed.append(parse(self, *args, **kwargs))
        return argparse.Namespace(**vars(parsed[-1]) | {"run": lambda _: 0})

    monkeypatch.setattr(cli.Parser, "parse_args", parse_only)
    for command in _commands(page.read_text(encoding="utf-8")):
        words = _words(command)
        if words == ["--version"]:
            continue
        try:
            assert cli.main(words) == 0
            environment_and_set.parse_sets(getattr(parsed[-1], "set", []), _known())
        except SystemExit:
            pytest.fail(f"feedproxy {command}: no such command line")
        except UsageError as error:
            pytest.fail(f"feedproxy {command}: {error}")


def test_command_line_reference_has_every_command() -> None:
    text = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    named = {name for line in re.findall(r"^## feedproxy (.+)$", text, re.M) for name in re.findall(r"[a-z]+", line)}

    assert set(cli.command_names()) - named == set()


def test_mitmdump_page_names_every_script() -> None:
    text = (ROOT / "docs" / "how-to" / "run-under-mitmdump.md").read_text(encoding="utf-8")
    scripts = {path.name for path in (ROOT / "addons").glob("*.py")} - {"__init__.py", "order.py"}

    assert {name for name in scripts if name not in text} == set()


@pytest.mark.parametrize("page", FOR_USERS, ids=_named)
def test_every_option_that_is_set_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for code in INLINE.findall(_prose(text)):
        if found := OPTION_AND_VALUE.fullmatch(code):
            assert found[1] in _known(), f"`{code}`: no such option"
    for setting in re.findall(r"--set [\"']?(\w+)", text):
        assert setting in _known() or setting == "NAME", f"--set {setting}: no such option"


@pytest.mark.parametrize("page", FOR_USERS, ids=_named)
def test_every_configuration_loads(page: Path, tmp_path: Path) -> None:
    for block in _blocks(page.read_text(encoding="utf-8")):
        try:
            document = YAML(typ="safe").load(block)
        except YAMLError:
            continue
        if isinstance(document, dict) and any(
            name in _known() or name == option_suggestions.RULES_KEY for name in document
        ):
            written = tmp_path / "feedproxy.yaml"
            written.write_text(block, encoding="utf-8")
            config_file.load(written, _known())


@pytest.mark.parametrize("page", PAGES, ids=_named)
def test_every_make_target_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    text = page.read_text(encoding="utf-8")
    lines = [line for block in _blocks(text) for line in block.splitlines()] + INLINE.findall(_prose(text))
    named = {found[1] for line in lines if (found := re.match(r"make ([a-z-]+)\b", line.strip()))}

    assert named - targets == set()


def test_readme_has_the_two_setup_commands() -> None:
    blocks = list(_blocks((ROOT / "README.md").read_text(encoding="utf-8")))
    assert "make serve" in blocks
    assert "make test" in blocks


@pytest.mark.parametrize("page", PAGES, ids=_named)
def test_examples_use_reserved_host_names_only(page: Path) -> None:
    text = "\n".join(
        [*_blocks(page.read_text(encoding="utf-8")), *INLINE.findall(_prose(page.read_text(encoding="utf-8")))]
    )
    strangers = {host for host in HOST.findall(text) if not EXAMPLE_HOST.fullmatch(host)}

    assert strangers == set()


@pytest.mark.parametrize("page", DECISIONS, ids=_named)
def test_decision_page_has_question_situation_choice_and_price(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert text.splitlines()[0].endswith("?")
    for word in ("Situation", "Choice", "Cost"):
        assert re.search(rf"^(?:\*\*{word}\b|## {word}$)", text, re.M), f"no {word}"


def test_freshness_examples_equal_the_computed_values() -> None:
    examples = runpy.run_path(str(ROOT / "scripts" / "freshness_examples.py"))
    text = examples["PAGE"].read_text(encoding="utf-8")

    assert examples["page"](text) == text, "run scripts/freshness_examples.py"


@pytest.mark.parametrize("page", PAGES, ids=_named)
def test_pip_commands_install_into_a_virtual_environment(page: Path) -> None:
    """On most systems pip refuses to install into the system's own Python (PEP 668)."""
    lines = [line.strip() for line in page.read_text(encoding="utf-8").splitlines()]
    bare = [line for before, line in pairwise(["", *lines]) if line == "pip install ." and "-m venv" not in before]

    assert bare == []


def test_readme_names_the_path_of_the_command_after_make() -> None:
    assert ".venv/bin/feedproxy" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=_named)
def test_pictures_exist_are_small_and_have_a_description(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    pictures = [(place, words) for words, place in re.findall(r"!\[([^\]]*)\]\(([^)\s]+)\)", text)]
    pictures += re.findall(r'<img src="([^"]+)"[^>]* alt="([^"]*)">', text)
    assert text.count("<img ") == len(re.findall(r'<img src="[^"]+"[^>]* alt="[^"]+">', text))
    for place, words in pictures:
        assert words, place
        assert (page.parent / place).is_file(), place
        assert (page.parent / place).stat().st_size < 150_000, place


@pytest.mark.parametrize("page", PAGES, ids=_named)
def test_every_row_of_a_table_is_one_line(page: Path) -> None:
    """A row that continues on the next line ends the table there."""
    rows = re.findall(r"^\|.*$", _prose(page.read_text(encoding="utf-8")), re.M)

    assert [row for row in rows if not row.rstrip().endswith("|")] == []


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_files_named_for_contributors_exist(name: str) -> None:
    named = [
        word for word in INLINE.findall((ROOT / name).read_text(encoding="utf-8")) if re.fullmatch(r"[\w./]+\.py", word)
    ]
    missing = [
        word
        for word in named
        if "NAME" not in word and not any((ROOT / top / word).is_file() for top in ("", "feedproxy"))
    ]
    assert named
    assert not missing, f"{name} names files that are not there: {', '.join(missing)}"
