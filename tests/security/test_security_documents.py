"""Each defence in SECURITY.md and the threat model names a test file that exists and has tests."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROMISES = ROOT / "SECURITY.md"
THREATS = ROOT / "docs" / "explanation" / "threat-model.md"
TEST_LINK = re.compile(r"\]\(([^)#]*tests/[^)#]+\.py)\)")


def rows(page: Path, first: str) -> list[list[str]]:
    """Return the rows of the table whose first column has this title."""
    lines = page.read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {first} |"))
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip().strip("|").split("|")])
    return found


@pytest.mark.parametrize(
    ("page", "first", "proof"), [(PROMISES, "promise", 1), (THREATS, "asset", 4)], ids=["promises", "threats"]
)
def test_every_row_names_an_existing_test_file(page: Path, first: str, proof: int) -> None:
    found = rows(page, first)

    assert len(found) >= 15
    for row in found:
        links = TEST_LINK.findall(row[proof])
        assert links, row[0]
        for link in links:
            path = (page.parent / link).resolve()
            assert path.is_relative_to(ROOT / "tests")
            assert "def test_" in path.read_text(encoding="utf-8"), link


def test_every_threat_has_a_defence_and_a_residual_risk() -> None:
    for row in rows(THREATS, "asset"):
        assert len(row) == 6, row[0]
        assert all(row), row[0]


@pytest.mark.parametrize("page", [PROMISES, THREATS], ids=["promises", "threats"])
def test_security_pages_contain_no_contact_address(page: Path) -> None:
    assert not re.search(r"\w@\w|https?://", page.read_text(encoding="utf-8"))


def test_every_security_test_proves_a_defence() -> None:
    named = "".join(row[4] for row in rows(THREATS, "asset"))
    found = {each.name for each in (ROOT / "tests" / "security").glob("test_*.py")} - {Path(__file__).name}

    assert not {each for each in found if f"/security/{each})" not in named}
