"""Lists of sentences of a specification, each with its tests: a sentence is one line, and each indented line below the
sentence is `FILE TEST`.
"""

import ast
from collections.abc import Container
from functools import cache
from pathlib import Path

type Promise = tuple[str, str, str]
"""A sentence, the short name of a file, and the name of a test in it."""


def promises(text: str) -> list[Promise]:
    found, sentence = [], ""
    for line in text.splitlines():
        if line.startswith("    "):
            where, test = line.split()
            found.append((sentence, where, f"test_{test}"))
        else:
            sentence = line
    return found


@cache
def names_in(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return frozenset(each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))


def check_sentences(text: str, kept_nowhere: Container[str]) -> None:
    """Assert that each sentence is listed once, has a test, and is not among the sentences without a test."""
    sentences = [line for line in text.splitlines() if line and not line.startswith(" ")]

    assert len(set(sentences)) == len(sentences)
    assert {sentence for sentence, _, _ in promises(text)} == set(sentences)
    assert [each for each in sentences if each in kept_nowhere] == []
