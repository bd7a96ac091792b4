"""Cache-Status is documented, and its details are a closed list."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import feedproxy
from feedproxy import errors
from feedproxy.cache.cache_status import Detail, Fwd

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "cache-status.md"


def rows(heading: str) -> dict[str, str]:
    """The tables below one heading of the page, first column to second."""
    _, _, part = PAGE.read_text("utf-8").partition(f"\n## {heading}\n")
    part = part.split("\n## ")[0]
    return dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", part, re.MULTILINE))


def test_detail_table_in_docs_equals_detail_enumeration() -> None:
    assert rows("detail") == {detail.value: detail.sentence for detail in Detail}


def test_fwd_table_in_docs_equals_fwd_enumeration() -> None:
    assert set(rows("fwd")) == {fwd.value for fwd in Fwd}


def error_types(base: type[errors.FeedproxyError]) -> Iterator[type[errors.FeedproxyError]]:
    yield base
    for each in base.__subclasses__():
        yield from error_types(each)


def test_detail_of_every_client_error_is_enumerated() -> None:
    for module in pkgutil.walk_packages(feedproxy.__path__, "feedproxy."):
        if not module.name.startswith("feedproxy.addons"):
            importlib.import_module(module.name)  # wherever they are declared
    only_at_the_start = (errors.UsageError, errors.CannotListen)
    met_by_readers = [each for each in error_types(errors.FeedproxyError) if each not in only_at_the_start]
    assert {each.detail for each in met_by_readers} <= {detail.value for detail in Detail}


@pytest.mark.parametrize("detail", Detail)
def test_detail_is_a_token_with_a_sentence(detail: Detail) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9-]*", detail)
    assert detail.sentence.endswith(".")
