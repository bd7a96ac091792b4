"""The configuration file: one YAML mapping of options, and `feeds:`, a list of rules by URL pattern.

    feed_hints: heuristic
    feeds:
      - match: https://slow.example/*
        feed_min_interval: 3600
      - match: "*.example.org"
        on_bad_update: pass

Every option that an addon declares, mitmproxy's own included, is a key. Later rules win over earlier ones,
and all win over the options above. An environment variable `FEEDPROXY_NAME` wins over the file, `--set` over both.
Mistakes are found at start, never later: the first is reported with file and line and, where a name was meant that
exists, with that name. A message never repeats what may be a secret.
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

from feedproxy.errors import BadTarget, UsageError
from feedproxy.http import uri
from feedproxy.http.url_pattern import TargetPattern
from feedproxy.quantities import EXAMPLES, Unit, parse
from feedproxy.rules import Rule
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
from feedproxy.upstream import parent_proxy

logger = logging.getLogger(__name__)

RULES_KEY = "feeds"
MATCH_KEY = "match"

ENVIRONMENT = "FEEDPROXY_"
"""What the name of an environment variable begins with; an option's name in capitals follows."""

FILE_VARIABLE = "FEEDPROXY_CONFIG"
"""The environment variable that names the configuration file."""

CLIENT_VARIABLES = ("FEEDPROXY_ADMIN", "FEEDPROXY_ADMIN_TOKEN")
"""What the client commands (status, refresh, …) read beside the file; for `serve` they are options like others."""

SYNONYMS = {
    "access_log": "log_format",
    "address": "listen",
    "admin_address": "admin",
    "admin_listen": "admin",
    "admin_port": "admin",
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
    "ttl": "default_lifetime",
    "upstream_url": "upstream",
    "url": "public_url",
    "user_agent": "contact_url",
    "users": "users_file",
    "verbose": "log_level",
    "verbosity": "log_level",
}
"""What other programs call an option of ours. Only for the hint after an unknown name; none of them is accepted."""

_NOUNS = {bool: "true or false", int: "a whole number", str: "text", list: "a list of texts, such as [a, b]"}


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """What an option may be: `kind` is bool, int, str, or list (of str)."""

    kind: type
    choices: tuple[str, ...] = ()
    optional: bool = False
    minimum: int | None = None
    unit: Unit = ""


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration found right. `options` suit mitmproxy's `options.update` and settings.from_options."""

    options: Mapping[str, Any] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    locations: Mapping[str, str] = field(default_factory=dict)
    """Where each option stands, as `FILE:LINE`: for what is found wrong with it later."""


def option_specs() -> dict[str, OptionSpec]:
    """feedproxy's own options. All of their numbers are durations, sizes and counts: none is negative."""
    return {
        each.name: OptionSpec(
            list if isinstance(each.default, tuple) else type(each.default),
            tuple(each.metadata["choices"]),
            minimum=0,
            unit=each.metadata["unit"],
        )
        for each in fields(Settings)
        if each.default is not MISSING
    }


def spec_of(typespec: Any, choices: Sequence[str] | None = None) -> OptionSpec:
    """What mitmproxy's `typespec` means: bool, int, str, Optional of these, Sequence[str]."""
    parts = get_args(typespec)
    if type(None) in parts:
        kind = next(part for part in parts if part is not type(None))
        return OptionSpec(kind, tuple(choices or ()), optional=True)
    if get_origin(typespec) is not None:
        return OptionSpec(list, tuple(choices or ()))
    return OptionSpec(typespec, tuple(choices or ()))


def load(path: str | Path, known: Mapping[str, OptionSpec], *, foreign: bool = False) -> Config:
    """Return what a configuration file says. Raises UsageError, `FILE:LINE: what`, at the first mistake.

    With `foreign`, names that are not in `known` are skipped: a client command knows none of mitmproxy's options.
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
        where = f"{path}:{_line(document, name)}"
        if _is_former(name):
            _warn(name, where)
        if _is_translated(name):
            options |= _translate_former(name, value, where, options)
        elif name == RULES_KEY:
            rules = tuple(_parse_rules(value, str(path), where))
        elif name not in known:
            if foreign:
                continue
            raise UsageError(f"{where}: unknown option {name!r}{_suggest(name, [*known, RULES_KEY])}")
        else:
            options[name] = _check_value(name, value, known[name], where)
            locations[name] = where
    return Config(options, rules, locations)


def from_environment(environment: Mapping[str, str], known: Mapping[str, OptionSpec]) -> dict[str, Any]:
    """Return the options that `FEEDPROXY_NAME` variables set. Raises UsageError for a value that does not fit.

    A variable that names no option is skipped: orchestrators put variables of their own beside ours
    (`FEEDPROXY_SERVICE_HOST`). `unknown_variables` finds those that may be slips.
    """
    options: dict[str, Any] = {}
    for variable in sorted(environment):
        name = variable.removeprefix(ENVIRONMENT).lower()
        if not variable.startswith(ENVIRONMENT):
            continue
        if _is_former(name):
            _warn(name, variable)
        if _is_translated(name):
            options |= _translate_former(name, _parse_scalar(environment[variable]), variable, options)
        elif name in known:
            options[name] = _parse_value(name, environment[variable], known[name], variable)
    return options


def unknown_variables(environment: Mapping[str, str], known: Collection[str]) -> dict[str, str]:
    """Return the `FEEDPROXY_…` variables that resemble an option and are none, each with that option's variable."""
    own = [ENVIRONMENT + name.upper() for name in option_names()]
    read_elsewhere = {FILE_VARIABLE, *CLIENT_VARIABLES}
    found = {}
    for variable in environment:
        name = variable.removeprefix(ENVIRONMENT).lower()
        if variable.startswith(ENVIRONMENT) and name not in known and variable not in read_elsewhere:
            near = difflib.get_close_matches(variable, own, n=1, cutoff=0.85)
            if near:
                found[variable] = near[0]
    return found


def parse_set(text: str, known: Mapping[str, OptionSpec]) -> tuple[str, Any]:
    """Return name and value of `NAME=VALUE` (--set); a NAME alone switches on what is true or false.

    Raises UsageError.
    """
    name, equals, value = text.partition("=")
    name = name.strip()
    where = "--set"
    if name not in known:
        raise UsageError(f"{where}: unknown option {name!r}{_suggest(name, known)}")
    spec = known[name]
    if not equals and spec.kind is not bool:
        raise UsageError(f"{where}: {name} needs a value: --set {name}=VALUE")
    return name, _parse_value(name, value if equals else "true", spec, where)


def _is_translated(name: str) -> bool:
    """Return whether another option has taken the place of this one."""
    return name in RENAMED or name in DERIVED


def _is_former(name: str) -> bool:
    """Return whether this option will not be there in the next release."""
    return _is_translated(name) or name in deprecated_names()


def _warn(name: str, where: str) -> None:
    """Log that an option will not be there in the next release, and what to do."""
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
    logger.warning("config: %s: %s is deprecated: %s", where, name, advice)


def _parse_scalar(text: str) -> Any:
    """Return what the text of a former option's value stands for: true, false, a number, or the text."""
    words = text.strip().lower()
    return {"true": True, "false": False}.get(words, int(words) if words.isdecimal() else text)


def _translate_former(name: str, value: Any, where: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a former option as today's. Raises UsageError where the value is neither a number nor true or false."""
    if name in DERIVED:
        return {}
    if not isinstance(value, int):
        raise UsageError(f"{where}: {name} wants a number, or true or false, not {_describe_type(value)}")
    new, item = RENAMED[name]
    if new == "polling":
        return {} if value else {new: item}
    if not item:
        return {new: value}
    items = [*options.get(new, getattr(Settings(), new))]
    return {new: [*(each for each in items if each != item), *([item] if value else [])]}


def _parse_value(name: str, text: str, spec: OptionSpec, where: str) -> Any:
    """Return the value that a text stands for. A list is a YAML list, or items between commas. Raises UsageError."""
    read: Any = text
    if spec.kind is bool:
        read = {"true": True, "false": False}.get(text.strip().lower(), text)
    elif spec.kind is int and re.fullmatch(r"\s*[+-]?\d{1,18}\s*", text):
        read = int(text)
    elif spec.kind is list:
        read = _parse_list(text, where) if text.lstrip().startswith("[") else [each.strip() for each in text.split(",")]
        read = [each for each in read if each != ""] if isinstance(read, list) else read
    elif spec.optional and not text:
        read = None
    return _check_value(name, read, spec, where)


def _parse_list(text: str, where: str) -> Any:
    try:
        return YAML(typ="safe").load(text)
    except (YAMLError, ValueError) as error:
        raise UsageError(f"{where}: not a YAML list, such as [a, b]") from error


def parse_sets(texts: Iterable[str], known: Mapping[str, OptionSpec]) -> dict[str, Any]:
    """All of --set together: a list grows with each, of anything else the last counts. Raises UsageError."""
    options: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if _is_former(name):
            _warn(name, "--set")
        if _is_translated(name):
            options |= _translate_former(name, _parse_scalar(value or "true"), "--set", options)
            continue
        name, value = parse_set(text, known)
        options[name] = [*options.get(name, []), *value] if known[name].kind is list else value
    return options


def _read_document(path: Path) -> Any:
    """The document, with the lines its keys stand on (ruamel.yaml's round-trip loader notes them)."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: not UTF-8") from error
    try:
        return YAML(typ="rt").load(text)
    except DuplicateKeyError as error:
        # Its own words would repeat both values.
        key = re.match(r'found duplicate key "(.*?)" with', error.problem or "")
        what = f"the key {key[1]!r} stands here a second time" if key else "a key stands here a second time"
        raise UsageError(f"{path}:{_line_of_error(error)}: {what}") from error
    except MarkedYAMLError as error:
        hint = "; a value that holds `: ` needs quotes" if "mapping values" in (error.problem or "") else ""
        raise UsageError(f"{path}:{_line_of_error(error)}: not YAML: {error.problem or error.context}{hint}") from error
    except ReaderError as error:
        line = text.count("\n", 0, int(error.position)) + 1
        raise UsageError(f"{path}:{line}: a character that YAML does not allow") from error
    except (YAMLError, ValueError, TypeError, RecursionError) as error:
        raise UsageError(f"{path}: not YAML that can be read ({type(error).__name__})") from error


def _parse_rules(value: Any, path: str, where: str) -> Iterable[Rule]:
    if value is None:
        return
    if not isinstance(value, list):
        raise UsageError(f"{where}: {RULES_KEY} is a list of rules, each beginning with `- {MATCH_KEY}: PATTERN`")
    specs, allowed = option_specs(), set(per_feed_names())
    for index, entry in enumerate(value):
        here = f"{path}:{_item_line(value, index, where)}"
        if not isinstance(entry, dict):
            raise UsageError(f"{here}: a rule begins with `- {MATCH_KEY}: PATTERN`, and its options follow")
        if MATCH_KEY not in entry:
            raise UsageError(f"{here}: this rule says no `{MATCH_KEY}: PATTERN`{_suggest_key(entry, MATCH_KEY)}")
        overrides: dict[str, Any] = {}
        for name, said in entry.items():
            here = f"{path}:{_line(entry, name)}"
            if name == MATCH_KEY:
                continue
            if _is_former(name):
                _warn(name, here)
            if _is_translated(name):
                translated = _translate_former(name, said, here, overrides)
                overrides |= {new: tuple(each) if isinstance(each, list) else each for new, each in translated.items()}
                continue
            if name in specs and name not in allowed:
                raise UsageError(f"{here}: {name} holds for all feeds, not for some: it stands outside of {RULES_KEY}")
            if name not in allowed:
                raise UsageError(f"{here}: unknown option {name!r} in a rule{_suggest(name, [*allowed, MATCH_KEY])}")
            overrides[name] = _normalise_override(name, _check_value(name, said, specs[name], here), here)
        here = f"{path}:{_line(entry, MATCH_KEY)}"
        pattern = _parse_pattern(entry[MATCH_KEY], here)
        if len(entry) == 1:
            # What was meant for it holds for all feeds, where it is not indented.
            raise UsageError(f"{here}: this rule has no option: they stand below `{MATCH_KEY}`, as far in as it does")
        yield Rule(pattern, overrides)


def _parse_pattern(value: Any, where: str) -> TargetPattern:
    if not isinstance(value, str):
        raise UsageError(f"{where}: {MATCH_KEY} wants one pattern, in quotes where it begins with *")
    try:
        return TargetPattern(value)
    except BadTarget as error:
        raise UsageError(f"{where}: {MATCH_KEY} can never match: {error}") from error


def _normalise_override(name: str, value: Any, where: str) -> Any:
    """A value as Settings holds it; a new address in its normal form, as all targets are compared."""
    if name == "moved_to" and value:
        try:
            return uri.normalise(value)
        except BadTarget as error:
            raise UsageError(f"{where}: moved_to is no address that can be fetched: {error}") from error
    return tuple(value) if isinstance(value, list) else value


def _check_value(name: str, value: Any, spec: OptionSpec, where: str) -> Any:
    """The value as a plain Python one, or UsageError."""
    if value is None and spec.optional:
        return None
    if spec.kind is list and isinstance(value, list):
        # Ports are texts to mitmproxy, and numbers to everybody else.
        if all(isinstance(each, str | int) and not isinstance(each, bool) for each in value):
            return [str(each) for each in value]
    elif spec.kind is int and isinstance(value, str) and (number := parse(value, spec.unit)) is not None:
        return number
    elif spec.kind is int and isinstance(value, int) and not isinstance(value, bool):
        if spec.minimum is not None and value < spec.minimum:
            raise UsageError(f"{where}: {name} is {spec.minimum} or more")
        return int(value)
    elif spec.kind is bool and isinstance(value, bool):
        return value
    elif name == "polling" and value is False:
        return "off"  # YAML 1.1 reads the word as false
    elif name == "polling" and isinstance(value, int) and not isinstance(value, bool):
        return _check_value(name, str(value), spec, where)
    elif spec.kind is str and isinstance(value, str):
        if spec.choices and value not in spec.choices:
            some = ", ".join(choice or "(empty)" for choice in spec.choices)
            raise UsageError(f"{where}: {name} cannot be {str(value)!r}, only {some}{_suggest(value, spec.choices)}")
        if name == parent_proxy.OPTION:
            _check_parent(value, where)
        if name == "polling" and price_of(value) is None:
            names = ", ".join(PRICES)
            raise UsageError(f"{where}: polling cannot be {str(value)!r}: expected {names}, or a duration such as 45m")
        return str(value)
    hint = " (in quotes, if need be)" if spec.kind is str and value is not None else ""
    wanted = EXAMPLES.get(spec.unit) or _NOUNS.get(spec.kind, spec.kind.__name__)
    raise UsageError(f"{where}: {name} wants {wanted}, not {_describe_type(value)}{hint}")


def _check_parent(value: str, where: str) -> None:
    try:
        parent_proxy.validate(value)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def _describe_type(value: Any) -> str:
    """What a value is, without saying it."""
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
    """Return `; did you mean 'x'?`, or nothing. feedproxy's own options come before mitmproxy's."""
    word = str(name).strip().lower().replace("-", "_")
    ours = {*option_names(), RULES_KEY, MATCH_KEY}
    own = [each for each in names if each in ours]
    synonym = SYNONYMS.get(word)
    near = (
        ([synonym] if synonym in names else [])
        or [each for each in own if "_" in word and f"_{word}_" in f"_{each}_"][:1]
        or difflib.get_close_matches(word, own, n=1, cutoff=0.75)
        or difflib.get_close_matches(word, [each for each in names if each], n=1, cutoff=0.8)
        or difflib.get_close_matches(word, own or [each for each in names if each], n=1)
    )
    return f"; did you mean {near[0]!r}?" if near else ""


def _suggest_key(entry: Mapping[Any, Any], wanted: str) -> str:
    near = difflib.get_close_matches(wanted, [str(key) for key in entry], n=1)
    return f"; did you mean that by {near[0]!r}?" if near else ""


def _line(mapping: Any, key: Any) -> int:
    """The line of a key; what was merged from elsewhere (`<<`) counts as standing where the mapping does."""
    try:
        return int(mapping.lc.key(key)[0]) + 1
    except (AttributeError, KeyError, TypeError):
        return int(getattr(getattr(mapping, "lc", None), "line", 0) or 0) + 1


def _item_line(sequence: Any, index: int, where: str) -> int:
    try:
        return int(sequence.lc.item(index)[0]) + 1
    except (AttributeError, KeyError, TypeError):
        return int(where.rpartition(":")[2])


def _line_of_error(error: MarkedYAMLError) -> int:
    mark = error.problem_mark or error.context_mark
    return int(mark.line) + 1 if mark is not None else 1
