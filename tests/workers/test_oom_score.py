"""The score by which the kernel chooses the process to kill when memory runs out."""

from pathlib import Path

import pytest

from feedproxy.oom_score import MAX, raise_oom_score


@pytest.mark.parametrize(("text", "raised"), [("0\n", 500), ("-900\n", -400), ("800\n", MAX)])
def test_oom_score_is_raised_to_the_maximum_at_most(tmp_path: Path, text: str, raised: int) -> None:
    (file := tmp_path / "oom_score_adj").write_text(text)

    raise_oom_score(500, file)

    assert file.read_text() == str(raised)


def test_oom_score_of_another_system_is_ignored(tmp_path: Path) -> None:
    raise_oom_score(500, tmp_path / "missing")

    assert not list(tmp_path.iterdir())
