"""The pages generated from the code are current."""

import runpy
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from feedproxy.cli import command_names

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = runpy.run_path(str(ROOT / "scripts" / "reference.py"))


EXAMPLES = runpy.run_path(str(ROOT / "scripts" / "examples.py"))
SHELL = runpy.run_path(str(ROOT / "scripts" / "shell.py"))


@pytest.mark.parametrize("name", sorted(EXAMPLES["pages"]()))
def test_example_configuration_is_current(name: str) -> None:
    text = (ROOT / "conf" / name).read_text(encoding="utf-8")
    assert text == EXAMPLES["pages"]()[name], f"conf/{name} is out of date: make docs"


@pytest.mark.parametrize("name", sorted(REFERENCE["PAGES"]))
def test_reference_page_is_current(name: str) -> None:
    page = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
    assert page == REFERENCE["PAGES"][name](), f"docs/reference/{name} is out of date: make docs"


@pytest.mark.parametrize(
    "name", ["man/man1/feedproxy.1", "bash-completion/completions/feedproxy", "zsh/site-functions/_feedproxy"]
)
def test_manual_and_completion_are_current(name: str) -> None:
    text = (ROOT / "conf" / "share" / name).read_text(encoding="utf-8")
    assert text == SHELL["pages"]()[name], f"conf/share/{name} is out of date: make docs"


def test_manual_names_every_command_and_has_no_troff_error() -> None:
    page = SHELL["manual"]()
    assert all(rf"feedproxy {name}" in page for name in command_names())
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    done = subprocess.run(
        ["groff", "-man", "-ww", "-z", "-K", "utf-8"], input=page.encode(), capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_bash_completes_commands_flags_and_options() -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    script = ROOT / "conf" / "share" / "bash-completion" / "completions" / "feedproxy"
    found = {}
    for words in ("sta", "serve --lis", "serve --set stor"):
        typed = ["feedproxy", *words.split()]
        lines = f"""
            source {shlex.quote(str(script))}
            COMP_WORDS=({" ".join(typed)}); COMP_CWORD={len(typed) - 1}
            _shtab_feedproxy
            echo "${{COMPREPLY[@]}}"
        """
        done = subprocess.run(["bash", "-c", lines], capture_output=True, text=True, check=True)
        found[words] = done.stdout.split()
    assert found == {"sta": ["status"], "serve --lis": ["--listen"], "serve --set stor": ["store=", "store_max="]}
