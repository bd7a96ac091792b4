"""Generator of the manual page and of shell completions from the command line's parser: `make docs`.

`pipx install` and Debian packages expect them in share/, where pyproject.toml installs them. tests/test_reference.py
compares them.
"""

import argparse
import re
from collections.abc import Mapping
from pathlib import Path

import shtab
from argparse_manpage.manpage import Manpage

from feedproxy.cli import make_parser
from feedproxy.settings import option_names

FOLDER = Path(__file__).resolve().parents[1] / "conf" / "share"

SECTIONS: Mapping[str, str] = {
    "environment": r"""
.TP
\fBFEEDPROXY_CONFIG\fR
The configuration file, where \-\-config names none.
.TP
\fBFEEDPROXY_\fR\fIOPTION\fR
An option of \fBfeedproxy serve\fR by its name in capitals, such as FEEDPROXY_LISTEN. It wins over the file;
\fBfeedproxy options\fR prints all of them.
.TP
\fBFEEDPROXY_ADMIN\fR, \fBFEEDPROXY_ADMIN_TOKEN\fR
Where the client commands find the running proxy, and the token that it wants.""",
    "signals": r"""
.TP
SIGTERM, SIGINT
End after open requests are answered, within 20 s.
.TP
SIGHUP
Load the configuration again.""",
    "exit status": r"""
.TP
0
Done.
.TP
1
Findings, or a failure of what was asked for.
.TP
2
Wrong usage or configuration.""",
    "see also": r"""
.BR mitmdump (1)""",
}


def manual() -> str:
    """Return the manual page, in troff."""
    about = {
        "description": "an HTTP caching proxy made for feeds",
        "manual_title": "feedproxy",
        # It contains neither date nor version, so that it changes only with the command line.
        "date": " ",
    }
    page = Manpage(make_parser(), about)
    for heading, text in SECTIONS.items():
        page.add_section(heading, "=", text.strip())
    # At the beginning of a line, a quotation mark or a dot would be a command of troff.
    return re.sub(r"^(?='|\.(?![A-Z][A-Z]? |[A-Z][A-Z]?$))", r"\\&", str(page), flags=re.MULTILINE)


def completion(shell: str) -> str:
    """Return the completion for `bash` or `zsh`: commands, flags, files, and the names of options after --set."""
    parser = make_parser()
    _complete(parser)
    return shtab.complete(parser, shell)


def _complete(parser: argparse.ArgumentParser) -> None:
    """Set the completion of each argument of this parser and of its commands."""
    for each in parser._actions:
        if isinstance(each, argparse._SubParsersAction):
            for command in each.choices.values():
                _complete(command)
        elif isinstance(each.metavar, str) and each.metavar.split(".")[0].split("|")[0] in ("FILE", "REC", "OUT"):
            each.complete = shtab.FILE  # type: ignore[attr-defined]  # shtab's own attribute
        elif isinstance(each.metavar, str) and each.metavar.split("|")[0] in ("DIR", "FOLDER"):
            each.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif each.metavar == "NAME=VALUE":
            each.choices = [f"{name}=" for name in option_names()]


def pages() -> dict[str, str]:
    """Return the text of every generated file of conf/share/."""
    return {
        "man/man1/feedproxy.1": manual(),
        "bash-completion/completions/feedproxy": completion("bash"),
        "zsh/site-functions/_feedproxy": completion("zsh"),
    }


def main() -> None:
    """Write the files that differ."""
    for name, text in pages().items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"conf/share/{name}")


if __name__ == "__main__":
    main()
