"""feedproxy options: every option with its text and default, as YAML that can be saved as a configuration."""

import argparse
import json
import textwrap
from dataclasses import fields
from typing import Any

from feedproxy.settings import Settings, format_value


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser("options", help="print every option with its text and default, as YAML")
    parser.set_defaults(run=run, parser=parser)


def run(_: argparse.Namespace) -> int:
    """Print them."""
    print(as_yaml(), end="")
    return 0


def as_yaml() -> str:
    """The options as a commented YAML document; every value is the default."""
    entries = []
    for each in fields(Settings):
        if each.metadata["deprecated"]:
            continue
        text = each.metadata["text"]
        if each.metadata["choices"]:
            text += f" One of: {', '.join(choice or '(empty)' for choice in each.metadata['choices'])}."
        if each.metadata["per_feed"]:
            text += " A rule can override it."
        comment = textwrap.fill(text, 96, initial_indent="# ", subsequent_indent="# ")
        default = format_value(each.name, list(each.default) if isinstance(each.default, tuple) else each.default)
        # JSON is YAML; its texts need no thought about quotes.
        entries.append(f"{comment}\n{each.name}: {json.dumps(default)}\n")
    return "\n".join(entries)
