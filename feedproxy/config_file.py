"""The configuration file: one YAML mapping of options, and `feeds:`, a list of rules by URL pattern.

    feed_hints: heuristic
    feeds:
      - match: https://slow.example/*
        feed_min_interval: 3600
      - match: "*.example.org"
        on_bad_update: pass

Rules take precedence over options, and later rules over earlier ones. `FEEDPROXY_NAME` in the environment takes
precedence over the file, and `--set` over both. The first mistake is reported with file and line, without values that
may be secrets.
"""

import difflib
import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, get_args, get_origin

from ruamel.yaml import YAML
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from feedproxy import option_files
from feedproxy.clock import Seconds
from feedproxy.durations_and_sizes import EXAMPLES, Unit, format_quantity, parse
from feedproxy.errors import BadTarget, UsageError
from feedproxy.feed_rules import Rule
from feedproxy.http import uri
from feedproxy.http.target_uri.target_pattern import TargetPattern
from feedproxy.option_values import check_text
from feedproxy.settings import (
    DERIVED,
    INSTEAD,
    PRICES,
    RENAMED,
    Settings,
    deprecated_names,
    format_value,
    option_names,
    per_feed_names,
    price_of,
)

logger = logging.getLogger(__name__)

PIPE_TIMEOUT: Seconds = 10
"""If the configuration file is a pipe, its writer must write and close it within this many seconds."""
RULES_KEY = "feeds"
MATCH_KEY = "match"

ENVIRONMENT = "FEEDPROXY_"
"""Prefix of environment variables for options, before the option's name in upper case."""

FILE_VARIABLE = "FEEDPROXY_CONFIG"
"""Environment variable with the path of the configuration file."""

CLIENT_VARIABLES = ("FEEDPROXY_ADMIN", "FEEDPROXY_ADMIN_TOKEN")
"""Environment variables with the address and the token of the admin listener, for commands such as status."""

_YAML_HINTS = {
    "mapping values": "a value that contains `: ` needs quotes, and options of one level the same indentation",
    "<block mapping start>": "options of one level need the same indentation",
    "undefined alias": "a value that begins with `*` needs quotes",
    "alphabetic or numeric": "a value that begins with `*` needs quotes",
    "'\\t'": "indent with blanks, not with tabs",
}
"""Advice for the YAML parser's messages that contain a text."""

SYNONYMS = {
    "access_log": "log_format",
    "address": "listen",
    "admin_address": "admin",
    "admin_listen": "admin",
    "admin_port": "admin",
    "allowed_hosts": "gateway_hosts",
    "auth": "readers",
    "backend": "upstream",
    "base_url": "public_url",
    "bind": "listen",
    "bind_address": "listen",
    "cache": "store",
    "cache_dir": "store",
    "cache_path": "store",
    "cache_size": "store_max",
    "cache_ttl": "default_lifetime",
    "cert": "tls_certificate",
    "contact": "contact_url",
    "data_dir": "store",
    "default_ttl": "default_lifetime",
    "disk_size": "store_max",
    "external_url": "public_url",
    "grace": "stale_max",
    "host": "listen",
    "htpasswd": "users_file",
    "http_proxy": "upstream_proxy",
    "https_proxy": "upstream_proxy",
    "interval": "feed_min_interval",
    "key": "tls_key",
    "keep_stale": "stale_max",
    "log": "log_format",
    "loglevel": "log_level",
    "max_age": "default_lifetime",
    "max_size": "store_max",
    "max_ttl": "hint_max",
    "memory": "memory_max",
    "memory_size": "memory_max",
    "min_ttl": "lifetime_min",
    "mitm": "intercept",
    "origin": "upstream",
    "outgoing_proxy": "upstream_proxy",
    "parent": "upstream_proxy",
    "parent_proxy": "upstream_proxy",
    "passwords": "users_file",
    "password_file": "users_file",
    "port": "listen",
    "ports": "allow_ports",
    "private_networks": "allow_networks",
    "processes": "workers",
    "proxy": "upstream_proxy",
    "proxy_url": "upstream_proxy",
    "real_ip": "trusted_proxies",
    "redis": "store",
    "redis_url": "store",
    "server_name": "public_url",
    "socks_proxy": "upstream_proxy",
    "ssl_cert": "tls_certificate",
    "ssl_certificate": "tls_certificate",
    "ssl_key": "tls_key",
    "ssl_certificate_key": "tls_key",
    "stale": "stale_max",
    "storage": "store",
    "threads": "workers",
    "timeout": "fetch_timeout",
    "tls_cert": "tls_certificate",
    "token": "admin_token",
    "trust_proxy": "trusted_proxies",
    "trusted_hosts": "gateway_hosts",
    "ttl": "default_lifetime",
    "upstream_url": "upstream",
    "url": "public_url",
    "user_agent": "contact_url",
    "users": "users_file",
    "verbose": "log_level",
    "verbosity": "log_level",
}
"""Options by their names in other programs, for hints after an unknown name."""

_NOUNS = {bool: "true or false", int: "a whole number", str: "text", list: "a list of texts, such as [a, b]"}


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """Type and limits of an option. `kind` is bool, int, str, or list (of str)."""

    kind: type
    choices: tuple[str, ...] = ()
    optional: bool = False
    minimum: int | None = None
    maximum: int | None = None
    unit: Unit = ""
    own: bool = False
    """True for an option of feedproxy, with checks in option_values.py."""


@dataclass(frozen=True, slots=True)
class Config:
    """A valid configuration. `options` are arguments of mitmproxy's `options.update` and settings.from_options."""

    options: Mapping[str, Any] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    locations: Mapping[str, str] = field(default_factory=dict)
    """Place of each option as `FILE:LINE`, for errors found after parsing."""


def option_specs() -> dict[str, OptionSpec]:
    """Return the specifications of feedproxy's options."""
    return {
        option.name: OptionSpec(
            list if isinstance(option.default, tuple) else type(option.default),
            tuple(option.metadata["choices"]),
            minimum=option.metadata["minimum"],
            maximum=option.metadata["maximum"],
            unit=option.metadata["unit"],
            own=True,
        )
        for option in fields(Settings)
        if option.default is not MISSING
    }


def spec_of(typespec: Any, choices: Sequence[str] | None = None) -> OptionSpec:
    """Return the specification of mitmproxy's `typespec`: bool, int, str, Optional of these, Sequence[str]."""
    parts = get_args(typespec)
    if type(None) in parts:
        kind = next(part for part in parts if part is not type(None))
        return OptionSpec(kind, tuple(choices or ()), optional=True)
    if get_origin(typespec) is not None:
        return OptionSpec(list, tuple(choices or ()))
    return OptionSpec(typespec, tuple(choices or ()))


def load(path: str | Path, specs: Mapping[str, OptionSpec], *, foreign: bool = False) -> Config:
    """Return the configuration in a file. Raises UsageError for the first mistake, with `FILE:LINE: reason`.

    `specs` contains the options by name. With `foreign`, unknown names are skipped: client commands do not know
    mitmproxy's options.
    """
    document = _read_document(Path(path))
    if document is None:
        return Config()
    if not isinstance(document, dict):
        raise UsageError(f"{path}:1: a configuration is lines of the form `option: value`")
    options: dict[str, Any] = {}
    locations: dict[str, str] = {}
    rules: tuple[Rule, ...] = ()
    for name, value in document.items():
        location = f"{path}:{_line(document, name)}"
        if _is_former(name):
            _warn(name, location)
        if _is_replaced(name):
            options |= _translate_former(name, value, location, options)
        elif name == RULES_KEY:
            rules = tuple(_parse_rules(value, str(path), location))
        elif name not in specs:
            if foreign:
                continue
            raise UsageError(f"{location}: unknown option {name!r}{_suggest(name, [*specs, RULES_KEY])}")
        else:
            options[name] = _check_value(name, value, specs[name], location)
            locations[name] = location
    return Config(options, rules, locations)


def from_environment(environment: Mapping[str, str], specs: Mapping[str, OptionSpec]) -> dict[str, Any]:
    """Return the options of `FEEDPROXY_NAME` variables. Raises UsageError for an invalid value.

    Unknown names are skipped, because orchestrators set variables such as `FEEDPROXY_SERVICE_HOST`.
    """
    options: dict[str, Any] = {}
    for variable in sorted(environment):
        name = variable.removeprefix(ENVIRONMENT).lower()
        if not variable.startswith(ENVIRONMENT):
            continue
        if _is_former(name):
            _warn(name, variable)
        if _is_replaced(name):
            options |= _translate_former(name, _parse_scalar(environment[variable]), variable, options)
        elif name in specs:
            options[name] = _parse_value(name, environment[variable], specs[name], variable)
    return options


def unknown_variables(environment: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """Return the misspelt `FEEDPROXY_…` variables, each with the valid name that it resembles."""
    option_variables = [ENVIRONMENT + name.upper() for name in option_names()]
    other_variables = {FILE_VARIABLE, *CLIENT_VARIABLES}
    suggestions = {}
    for variable in environment:
        name = variable.removeprefix(ENVIRONMENT).lower()
        if variable.startswith(ENVIRONMENT) and name not in names and variable not in other_variables:
            similar_names = difflib.get_close_matches(variable, option_variables, n=1, cutoff=0.85)
            if similar_names:
                suggestions[variable] = similar_names[0]
    return suggestions


def parse_set(text: str, specs: Mapping[str, OptionSpec]) -> tuple[str, Any]:
    """Return name and value of `NAME=VALUE` (`--set`). A NAME alone sets a boolean option. Raises UsageError if a name
    or value is invalid."""
    name, equals, value = text.partition("=")
    name = name.strip()
    location = "--set"
    if name not in specs:
        raise UsageError(f"{location}: unknown option {name!r}{_suggest(name, specs)}")
    spec = specs[name]
    if not equals and spec.kind is not bool:
        raise UsageError(f"{location}: {name} needs a value: --set {name}=VALUE")
    return name, _parse_value(name, value if equals else "true", spec, location)


def _is_replaced(name: str) -> bool:
    return name in RENAMED or name in DERIVED


def _is_former(name: str) -> bool:
    """Return True if the next release will lack this option."""
    return _is_replaced(name) or name in deprecated_names()


def _warn(name: str, location: str) -> None:
    """Log that the next release will lack an option, and what replaces it."""
    if name in DERIVED:
        advice = f"it is now {DERIVED[name]}"
    elif name in RENAMED:
        new, item = RENAMED[name]
        advice = f"use {new}: [{item}]" if item in ("hub", "cloud") else f"use {new}"
        advice += f": {item} in place of false" if new == "polling" else ""
    elif name in INSTEAD:
        advice = INSTEAD[name]
    else:
        advice = f"from the next release on it is {format_value(name, getattr(Settings(), name))!r} always"
    logger.warning("config: %s: %s is deprecated: %s", location, name, advice)


def _parse_scalar(text: str) -> Any:
    word = text.strip().lower()
    return {"true": True, "false": False}.get(word, int(word) if word.isdecimal() else text)


def _translate_former(name: str, value: Any, location: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the name and value of the option that replaces a former option, or {} if nothing replaces it.

    Raises UsageError unless the value is a number or a boolean.
    """
    if name in DERIVED:
        return {}
    if not isinstance(value, int):
        raise UsageError(f"{location}: {name}: expected a number, or true or false, not {_describe_type(value)}")
    new, item = RENAMED[name]
    if new == "polling":
        return {} if value else {new: item}
    if not item:
        return {new: value}
    items = [*options.get(new, getattr(Settings(), new))]
    return {new: [*(present for present in items if present != item), *([item] if value else [])]}


def _parse_value(name: str, text: str, spec: OptionSpec, location: str) -> Any:
    """Return the value of an option from its text. Raises UsageError if a name or value is invalid.

    The text of a list is a YAML list, or has commas between its items.
    """
    parsed: Any = text
    if spec.kind is bool:
        parsed = {"true": True, "false": False}.get(text.strip().lower(), text)
    elif spec.kind is int and re.fullmatch(r"\s*[+-]?\d{1,18}\s*", text):
        parsed = int(text)
    elif spec.kind is list:
        is_yaml = text.lstrip().startswith("[")
        parsed = _parse_list(text, location) if is_yaml else [item.strip() for item in text.split(",")]
        parsed = [item for item in parsed if item != ""] if isinstance(parsed, list) else parsed
    elif spec.optional and not text:
        parsed = None
    return _check_value(name, parsed, spec, location)


def _parse_list(text: str, location: str) -> Any:
    try:
        return YAML(typ="safe").load(text)
    except (YAMLError, ValueError) as error:
        raise UsageError(f"{location}: not a YAML list, such as [a, b]") from error


def parse_sets(texts: Iterable[str], specs: Mapping[str, OptionSpec]) -> dict[str, Any]:
    """Return the options of all `--set`. Raises UsageError if a name or value is invalid.

    Lists are joined. For any other option, the last value counts.
    """
    options: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if _is_former(name):
            _warn(name, "--set")
        if _is_replaced(name):
            options |= _translate_former(name, _parse_scalar(value or "true"), "--set", options)
            continue
        name, value = parse_set(text, specs)
        options[name] = [*options.get(name, []), *value] if specs[name].kind is list else value
    return options


def _read_document(path: Path) -> Any:
    """Return the document in a file, with the line number of each key."""
    try:
        text = option_files.read(path, pipe_timeout=PIPE_TIMEOUT).decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: not UTF-8") from error
    try:
        return YAML(typ="rt").load(text)
    except DuplicateKeyError as error:
        # The library's message contains both values, which may be secrets.
        key = re.match(r'found duplicate key "(.*?)" with', error.problem or "")
        problem = f"duplicate key {key[1]!r}" if key else "duplicate key"
        raise UsageError(f"{path}:{_line_of_error(error)}: {problem}") from error
    except MarkedYAMLError as error:
        problem = str(error.problem or error.context)
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
    specs, allowed = option_specs(), set(per_feed_names())
    for index, entry in enumerate(value):
        rule_location = f"{path}:{_item_line(value, index, location)}"
        if not isinstance(entry, dict):
            raise UsageError(f"{rule_location}: expected a rule, beginning with `- {MATCH_KEY}: PATTERN`")
        if MATCH_KEY not in entry:
            raise UsageError(
                f"{rule_location}: this rule has no `{MATCH_KEY}: PATTERN`{_suggest_key(entry, MATCH_KEY)}"
            )
        overrides: dict[str, Any] = {}
        for name, option_value in entry.items():
            rule_location = f"{path}:{_line(entry, name)}"
            if name == MATCH_KEY:
                continue
            if _is_former(name):
                _warn(name, rule_location)
            if _is_replaced(name):
                translated = _translate_former(name, option_value, rule_location, overrides)
                overrides |= {new: tuple(item) if isinstance(item, list) else item for new, item in translated.items()}
                continue
            if name in specs and name not in allowed:
                raise UsageError(f"{rule_location}: {name} applies to all feeds: expected outside of {RULES_KEY}")
            if name not in allowed:
                raise UsageError(
                    f"{rule_location}: unknown option {name!r} in a rule{_suggest(name, [*allowed, MATCH_KEY])}"
                )
            overrides[name] = _normalise_override(
                name, _check_value(name, option_value, specs[name], rule_location), rule_location
            )
        rule_location = f"{path}:{_line(entry, MATCH_KEY)}"
        pattern = _parse_pattern(entry[MATCH_KEY], rule_location)
        if len(entry) == 1:
            # Options that are not indented would apply to all feeds.
            raise UsageError(
                f"{rule_location}: this rule has no option: expected options below `{MATCH_KEY}`, indented like it"
            )
        yield Rule(pattern, overrides)


def _parse_pattern(value: Any, location: str) -> TargetPattern:
    if not isinstance(value, str):
        raise UsageError(f"{location}: {MATCH_KEY}: expected one pattern, in quotes if it begins with *")
    try:
        return TargetPattern(value)
    except BadTarget as error:
        raise UsageError(f"{location}: {MATCH_KEY} can never match: {error}") from error


def _normalise_override(name: str, value: Any, location: str) -> Any:
    """Return a rule's value in the form of Settings, with addresses normalised."""
    if name == "moved_to" and value:
        try:
            return uri.normalise(value)
        except BadTarget as error:
            raise UsageError(f"{location}: moved_to: {error}") from error
    return tuple(value) if isinstance(value, list) else value


def check_values(values: Mapping[str, Any], specs: Mapping[str, OptionSpec]) -> dict[str, Any]:
    """Return the values of command line flags as plain Python values. Raises UsageError if a name or value is
    invalid."""
    return {name: _check_value(name, value, specs[name], "") for name, value in values.items()}


def _check_value(name: str, value: Any, spec: OptionSpec, location: str) -> Any:
    try:
        return _plain_value(name, value, spec)
    except UsageError as error:
        raise UsageError(f"{location}: {error}" if location else str(error)) from error


def _plain_value(name: str, value: Any, spec: OptionSpec) -> Any:
    if value is None and spec.optional:
        return None
    if spec.kind is list and isinstance(value, list | tuple):
        # Operators write ports as numbers, and mitmproxy expects texts.
        if all(isinstance(item, str | int) and not isinstance(item, bool) for item in value):
            items = [str(item) for item in value]
            for item in items if spec.own else ():
                check_text(name, item, is_item=True)
            return items
    elif spec.kind is int and isinstance(value, str) and (number := parse(value, spec.unit)) is not None:
        return _check_number(name, number, spec)
    elif spec.kind is int and isinstance(value, int) and not isinstance(value, bool):
        return _check_number(name, int(value), spec)
    elif spec.kind is bool and isinstance(value, bool):
        return value
    elif name == "polling" and value is False:
        return "off"  # YAML 1.1 reads the word as false
    elif name == "polling" and isinstance(value, int) and not isinstance(value, bool):
        return _plain_value(name, str(value), spec)
    elif spec.kind is str and isinstance(value, str):
        if spec.choices and value not in spec.choices:
            choices = ", ".join(choice or "(empty)" for choice in spec.choices)
            raise UsageError(f"{name} cannot be {str(value)!r}: expected {choices}{_suggest(value, spec.choices)}")
        if name == "polling" and price_of(value) is None:
            names = ", ".join(PRICES)
            raise UsageError(f"polling cannot be {str(value)!r}: expected {names}, or a duration such as 45m")
        if spec.own:
            check_text(name, value)
        return str(value)
    hint = " (in quotes, if need be)" if spec.kind is str and value is not None else ""
    expected = EXAMPLES.get(spec.unit) or _NOUNS.get(spec.kind, spec.kind.__name__)
    # A number or a switch is no secret, a text may be one.
    is_open = bool(spec.unit) or spec.kind in (bool, int, float)
    found = repr(value) if is_open and isinstance(value, str) else _describe_type(value)
    raise UsageError(f"{name}: expected {expected}, not {found}{hint}")


def _check_number(name: str, number: int, spec: OptionSpec) -> int:
    if spec.minimum is not None and number < spec.minimum:
        raise UsageError(f"{name}: {number}: expected {format_quantity(spec.minimum, spec.unit)} or more")
    if spec.maximum is not None and number > spec.maximum:
        raise UsageError(f"{name}: {number}: expected {format_quantity(spec.maximum, spec.unit)} or less")
    return number


def _describe_type(value: Any) -> str:
    """Return the type of a value in words, because the value may be a secret."""
    for kind, noun in {
        **_NOUNS,
        float: "a number with a fraction",
        list: "a list",
        dict: "a mapping",
    }.items():
        if isinstance(value, kind):
            return noun
    return "nothing" if value is None else f"a {type(value).__name__}"


def _suggest(name: Any, names: Collection[str]) -> str:
    """Return `; did you mean 'x'?`, or "". An option of feedproxy is preferred to one of mitmproxy."""
    word = str(name).strip().lower().replace("-", "_")
    own_names = {*option_names(), RULES_KEY, MATCH_KEY}
    own = [candidate for candidate in names if candidate in own_names]
    synonym = SYNONYMS.get(word)
    similar_names = (
        ([synonym] if synonym in names else [])
        or [candidate for candidate in own if "_" in word and f"_{word}_" in f"_{candidate}_"][:1]
        or difflib.get_close_matches(word, own, n=1, cutoff=0.75)
        or difflib.get_close_matches(word, [candidate for candidate in names if candidate], n=1, cutoff=0.8)
        or difflib.get_close_matches(word, own or [candidate for candidate in names if candidate], n=1)
    )
    return f"; did you mean {similar_names[0]!r}?" if similar_names else ""


def _suggest_key(entry: Mapping[Any, Any], expected: str) -> str:
    similar_names = difflib.get_close_matches(expected, [str(key) for key in entry], n=1)
    return f"; did you mean that by {similar_names[0]!r}?" if similar_names else ""


def _line(mapping: Any, key: Any) -> int:
    """Return the line number of a key. A merged key (`<<`) has the line number of its mapping."""
    try:
        return int(mapping.lc.key(key)[0]) + 1
    except (AttributeError, KeyError, TypeError):
        return int(getattr(getattr(mapping, "lc", None), "line", 0) or 0) + 1


def _item_line(sequence: Any, index: int, location: str) -> int:
    try:
        return int(sequence.lc.item(index)[0]) + 1
    except (AttributeError, KeyError, TypeError):
        return int(location.rpartition(":")[2])


def _line_of_error(error: MarkedYAMLError) -> int:
    mark = error.problem_mark or error.context_mark
    return int(mark.line) + 1 if mark is not None else 1
