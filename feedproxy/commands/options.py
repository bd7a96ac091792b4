"""feedproxy options: print every option with its description and default, as a YAML configuration."""

import argparse
import json
import textwrap
from dataclasses import fields
from typing import Any

from feedproxy.settings import Settings, format_value


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "options",
        help="print every option with its description and default, as YAML",
        description="Print every option with its description and default, as YAML that can be used as a configuration.",
    )
    parser.set_defaults(run=run)


def run(_: argparse.Namespace) -> int:
    """Print the options. Return 0."""
    print(as_yaml(), end="")
    return 0


def as_yaml() -> str:
    """Return the options as a commented YAML document. Every value is the default."""
    entries = []
    for option in fields(Settings):
        if option.metadata["deprecated"]:
            continue
        text = option.metadata["text"]
        if option.metadata["choices"]:
            text += f" One of: {', '.join(choice or '(empty)' for choice in option.metadata['choices'])}."
        if option.metadata["per_feed"]:
            text += " A rule can override it."
        comment = textwrap.fill(text, 96, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
        default = format_value(
            option.name, list(option.default) if isinstance(option.default, tuple) else option.default
        )
        # JSON is YAML, and its texts need no further quotation.
        entries.append(f"{comment}\n{option.name}: {json.dumps(default)}\n")
    return "\n".join(entries)
