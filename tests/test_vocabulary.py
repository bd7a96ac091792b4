"""Check of names and prose against docs/glossary.md."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

NAMES = frozenset(
    {
        "again",
        "agenda",
        "apart",
        "arrival",
        "came",
        "dispatch",
        "each",
        "elsewhere",
        "examined",
        "guest",
        "heard",
        "instead_of",
        "judge",
        "kept",
        "landed",
        "lasting",
        "leisure",
        "look",
        "looks",
        "nap",
        "nobody",
        "noted",
        "onward",
        "ours",
        "rung",
        "runtime",
        "said",
        "settle",
        "somebody",
        "stands",
        "thing",
        "told",
        "visit",
        "weigh",
        "whoever",
        "words",
        "yet",
    }
)
"""Identifiers that are no terms of the field: metaphors, participles, prepositions; with or without underscores."""

PROSE = re.compile(
    r"\b(who|whose|whom|whoever|nobody|somebody|anybody|everybody|he|him|his|us|our|ours)\b(?! am i)", re.IGNORECASE
)
"""Words of prose that hide the actor: name the client, operator, origin or program."""

FIRST = re.compile(r"(Who|What|Whose|Whether|Whom|May|Is|Are|Does|For how|So|That|Nobody)\b")
"""Beginnings of docstrings that do not say first what it is or does."""

COMMENT = re.compile(r"(?:^|\s)(#.*)")
"""A comment, or the rest of a text with a "#" in it. To tell them apart takes a sixth of the test's time."""

QUOTED = re.compile(r"\"[^\"]*\"|`[^`]*`|“[^”]*”")


def _package(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return parts[0] if parts[0] in ("addons", "tests", "benchmarks") or len(parts) == 2 else "/".join(parts[:2])


def _files() -> list[Path]:
    return sorted(path for folder in ("feedproxy", "addons") for path in (ROOT / folder).rglob("*.py"))


def _names(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr


def _texts(nodes: list[ast.AST], source: str) -> Iterator[tuple[int, str]]:
    """Yield docstrings (also those of constants) and comments."""
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    for number, line in enumerate(source.split("\n"), 1):
        if comment := COMMENT.search(line):
            yield number, comment[1]


def findings(path: Path) -> list[str]:
    """Return the words in a file that the glossary forbids, one line each."""
    source = path.read_text(encoding="utf-8")
    nodes = list(ast.walk(ast.parse(source)))
    place = path.relative_to(ROOT)
    found = [f"{place}:{line}: name {name}" for line, name in _names(nodes) if name.strip("_").lower() in NAMES]
    for line, text in _texts(nodes, source):
        if not text.startswith("#") and (first := FIRST.match(text)):
            found.append(f"{place}:{line}: begins with {first[0]}")
        found += [f"{place}:{line}: {word[0]}" for word in PROSE.finditer(QUOTED.sub("", text))]
    return found


@pytest.mark.parametrize("package", sorted({_package(path) for path in _files()}))
def test_package_uses_words_of_the_field(package: str) -> None:
    found = [finding for path in _files() if _package(path) == package for finding in findings(path)]
    assert not found, "\n".join(found[:40])


def test_vocabulary_check_finds_names_and_prose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    path = tmp_path / "module.py"
    path.write_text('"""What he said."""\n\n\ndef told(each):  # nobody knows\n    self._heard = each\n')

    kinds = Counter(finding.partition(": ")[2] for finding in findings(path))

    assert kinds == {"begins with What": 1, "he": 1, "name told": 1, "name each": 1, "name _heard": 1, "nobody": 1}
