"""What all tests share: where the corpus of real and hostile feeds stands, if it is there."""

from pathlib import Path

import pytest

CORPUS = Path(__file__).resolve().parents[1].parent / "shared" / "corpus"


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The corpus beside the project's root; its absence is a visible skip."""
    if not (CORPUS / "feeds.json").is_file():
        pytest.skip("no corpus: ../shared/corpus is not there")
    return CORPUS
