"""The line on the terminal with the progress of a command."""

import sys
from typing import Self


class ProgressLine:
    """Line with the progress of a command, removed at the end of the `with` block. It is written only if stderr is a
    terminal."""

    def __init__(self) -> None:
        self._shown = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.show("")

    def show(self, text: str) -> None:
        """Show the text instead of the text shown before."""
        if text != self._shown and sys.stderr.isatty():
            self._shown = text
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
