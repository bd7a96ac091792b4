"""The configuration file: one YAML mapping of options, and `feeds:`, a list of rules by URL pattern.

    feed_hints: heuristic
    feeds:
      - match: https://slow.example/*
        feed_min_interval: 3600
      - match: "*.example.org"
        on_bad_update: pass

Rules take precedence over options, and later rules over earlier ones. `FEEDPROXY_NAME` in the environment takes
precedence over the file, and `--set` over both. The first mistake is reported with file and line, without values that
might be secrets.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from ruamel.yaml import YAML
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.scanner import Scanner

from feedproxy import option_files
from feedproxy.clock import Seconds
from feedproxy.config.former_options import replace_former
from feedproxy.config.option_suggestions import MATCH_KEY, RULES_KEY, suggest, suggest_key
from feedproxy.config.option_types import OptionSpec, check_value, option_specs
from feedproxy.errors import BadTarget, UsageError
from feedproxy.feed_rules import Rule
from feedproxy.http import uri
from feedproxy.http.target_uri.target_pattern import TargetPattern
from feedproxy.settings import per_feed_names

PIPE_TIMEOUT: Seconds = 10
"""If the configuration file is a pipe, its writer must write and close it within this many seconds."""

_YAML_HINTS = {
    "mapping values": "a value that contains `: ` or ends with `:` needs quotes, and options of one level need the "
    "same indentation",
    "<block mapping start>": "options of one level need the same indentation",
    "undefined alias": "a value that begins with `*` needs quotes",
    "undefined tag handle": "a value that begins with `!` needs quotes",
    "alphabetic or numeric": "a value that begins with `*` needs quotes",
    "'\\t'": "indent with blanks, not with tabs",
}
"""Advice to add to an error message of the YAML parser. The keys are parts of such messages."""


class Config(Struct, frozen=True):
    """A valid configuration. mitmproxy's `options.update` and settings.from_options accept the values in `options`."""

    options: Mapping[str, Any] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    locations: Mapping[str, str] = field(default_factory=dict)
    """Place of each option as `FILE:LINE`, for errors that are found after parsing."""


def load(path: str | Path, specs: Mapping[str, OptionSpec], *, foreign: bool = False) -> Config:
    """Return the configuration in a file, which has neither options nor rules if the file is empty. Raises UsageError
    for the first mistake, with `FILE:LINE: reason`.

    `specs` contains the known options by name. If `foreign` is True, unknown names are skipped, because client commands
    do not know mitmproxy's options.
    """
    document = read_document(Path(path))
    if document is None:
        return Config()
    if not isinstance(document, dict):
        raise UsageError(f"{path}:1: a configuration is lines of the form `option: value`")
    options: dict[str, Any] = {}
    locations: dict[str, str] = {}
    rules: tuple[Rule, ...] = ()
    for name, value in document.items():
        location = f"{path}:{line_of(document, name)}"
        if replace_former(name, value, location, options):
            continue
        if name == RULES_KEY:
            rules = tuple(_parse_rules(value, str(path), location))
        elif name not in specs:
            if foreign:
                continue
            raise UsageError(f"{location}: unknown option {name!r}{suggest(name, [*specs, RULES_KEY])}")
        else:
            options[name] = _check_yaml_value(name, value, specs[name], location)
            locations[name] = location
    return Config(options, rules, locations)


def read_document(path: Path) -> Any:
    """Return the YAML document in a file, from which `line_of` and `item_line` read line numbers. Raises UsageError if
    the file cannot be read or is not YAML."""
    try:
        text = option_files.read(path, pipe_timeout=PIPE_TIMEOUT).decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: not UTF-8") from error
    parser = YAML(typ="rt")  # values of this type have line numbers
    parser.Scanner = Scanner  # the scanner of this type also collects comments, which takes a fifth of the time
    parser.composer.warn_double_anchors = False  # the warning would contain the lines, which may contain secrets
    try:
        return parser.load(text)
    except DuplicateKeyError as error:
        # The library's message contains both values, which may be secrets.
        key = re.match(r'found duplicate key "(.*?)" with', error.problem or "")
        problem = f"duplicate key {key[1]!r}" if key else "duplicate key"
        raise UsageError(f"{path}:{_line_of_error(error)}: {problem}") from error
    except MarkedYAMLError as error:
        # An alias or tag may be the beginning of a secret value without quotes.
        problem = re.sub(
            r"(undefined (?:alias|tag handle)) .*", r"\1", str(error.problem or error.context), flags=re.DOTALL
        )
        hint = next((f"; {hint}" for part, hint in _YAML_HINTS.items() if part in problem), "")
        raise UsageError(f"{path}:{_line_of_error(error)}: not YAML: {problem}{hint}") from error
    except ReaderError as error:
        line = text.count("\n", 0, int(error.position)) + 1
        raise UsageError(f"{path}:{line}: a character that YAML does not allow") from error
    except (YAMLError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise UsageError(f"{path}: invalid YAML ({type(error).__name__})") from error


def _parse_rules(value: Any, path: str, location: str) -> Iterable[Rule]:
    if value is None:
        return
    if not isinstance(value, list):
        raise UsageError(
            f"{location}: {RULES_KEY}: expected a list of rules, each beginning with `- {MATCH_KEY}: PATTERN`"
        )
    specs, allowed = option_specs(), frozenset(per_feed_names())
    for index, entry in enumerate(value):
        item_location = f"{path}:{item_line(value, index, location)}"
        if not isinstance(entry, dict):
            raise UsageError(f"{item_location}: expected a rule, beginning with `- {MATCH_KEY}: PATTERN`")
        if MATCH_KEY not in entry:
            raise UsageError(f"{item_location}: this rule has no `{MATCH_KEY}: PATTERN`{suggest_key(entry, MATCH_KEY)}")
        yield _parse_rule(entry, path, specs, allowed)


def _parse_rule(entry: dict[str, Any], path: str, specs: Mapping[str, OptionSpec], allowed: frozenset[str]) -> Rule:
    overrides: dict[str, Any] = {}
    for name, value in entry.items():
        location = f"{path}:{line_of(entry, name)}"
        if name == MATCH_KEY or replace_former(name, value, location, overrides):
            continue
        if name not in allowed:
            if name in specs:
                raise UsageError(f"{location}: {name} applies to all feeds: expected outside of {RULES_KEY}")
            raise UsageError(f"{location}: unknown option {name!r} in a rule{suggest(name, [*allowed, MATCH_KEY])}")
        overrides[name] = _check_yaml_value(name, value, specs[name], location)
        if name == "moved_to" and value:
            overrides[name] = uri.normalise(value)
    location = f"{path}:{line_of(entry, MATCH_KEY)}"
    pattern = _parse_pattern(entry[MATCH_KEY], location)
    if len(entry) == 1:
        # Options that are not indented would apply to all feeds.
        raise UsageError(f"{location}: this rule has no option: expected options below `{MATCH_KEY}`, indented like it")
    # Settings have tuples in place of lists.
    return Rule(pattern, {name: tuple(item) if isinstance(item, list) else item for name, item in overrides.items()})


def _check_yaml_value(name: str, value: Any, spec: OptionSpec, location: str) -> Any:
    """Return the value of an option as a plain Python value. Raises UsageError if it is invalid."""
    if name == "polling" and value is False:
        value = "off"  # YAML 1.1 reads the word as false
    elif name == "polling" and isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return check_value(name, value, spec, location)


def _parse_pattern(value: Any, location: str) -> TargetPattern:
    if not isinstance(value, str):
        raise UsageError(f"{location}: {MATCH_KEY}: expected one pattern, in quotes if it begins with *")
    try:
        return TargetPattern(value)
    except BadTarget as error:
        raise UsageError(f"{location}: {MATCH_KEY} can never match: {error}") from error


def line_of(mapping: Any, key: Any) -> int:
    """Return the line number of a key. A key that `<<` merges from another mapping has the line number of the mapping
    with `<<`."""
    try:
        return int(mapping.lc.key(key)[0]) + 1
    except (AttributeError, KeyError, TypeError):
        return int(getattr(getattr(mapping, "lc", None), "line", 0) or 0) + 1


def item_line(sequence: Any, index: int, location: str) -> int:
    """Return the line number of an item in a list or, if the item has none, the number at the end of `location`: the
    place of the list as `FILE:LINE`."""
    try:
        return int(sequence.lc.item(index)[0]) + 1
    except (AttributeError, KeyError, TypeError):
        return int(location.rpartition(":")[2])


def _line_of_error(error: MarkedYAMLError) -> int:
    mark = error.problem_mark or error.context_mark
    return int(mark.line) + 1 if mark is not None else 1
