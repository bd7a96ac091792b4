"""Options from environment variables (`FEEDPROXY_NAME`) and from `--set NAME=VALUE`."""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from feedproxy.config.former_options import parse_scalar, replace_former
from feedproxy.config.option_suggestions import suggest
from feedproxy.config.option_types import OptionSpec, check_value
from feedproxy.errors import UsageError
from feedproxy.settings import option_names

ENVIRONMENT = "FEEDPROXY_"
"""Prefix of environment variables for options, before the option's name in upper case."""

FILE_VARIABLE = "FEEDPROXY_CONFIG"
"""Environment variable with the path of the configuration file."""

CLIENT_VARIABLES = ("FEEDPROXY_ADMIN", "FEEDPROXY_ADMIN_TOKEN")
"""Environment variables with the address and the token of the admin listener, for commands such as status."""


def from_environment(environment: Mapping[str, str], specs: Mapping[str, OptionSpec]) -> dict[str, Any]:
    """Return the options of `FEEDPROXY_NAME` variables. Unknown names are skipped, because orchestrators set variables
    such as `FEEDPROXY_SERVICE_HOST`. Raises UsageError for an invalid value."""
    options: dict[str, Any] = {}
    for variable in sorted(environment):
        name = variable.removeprefix(ENVIRONMENT).lower()
        if not variable.startswith(ENVIRONMENT):
            continue
        if not replace_former(name, parse_scalar(environment[variable]), variable, options) and name in specs:
            options[name] = _parse_value(name, environment[variable], specs[name], variable)
    return options


def unknown_variables(environment: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """Return the `FEEDPROXY_…` variables that are probably misspelt, each with the variable that was probably meant.
    `names` contains the names of all known options."""
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


def _parse_value(name: str, text: str, spec: OptionSpec, location: str) -> Any:
    """Return the value of an option from its text. The text of a list is a YAML list, or has commas between its items.
    Raises UsageError, with a message that begins with `location`, if the text is invalid."""
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
    return check_value(name, parsed, spec, location)


def _parse_list(text: str, location: str) -> Any:
    try:
        return YAML(typ="safe").load(text)
    except (YAMLError, ValueError) as error:
        raise UsageError(f"{location}: not a YAML list, such as [a, b]") from error


def parse_sets(texts: Iterable[str], specs: Mapping[str, OptionSpec]) -> dict[str, Any]:
    """Return the options of `NAME=VALUE` texts (`--set`). A NAME alone sets a boolean option. Lists are joined. For any
    other option, the last value counts. Raises UsageError if a name or value is invalid."""
    options: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if replace_former(name, parse_scalar(value or "true"), "--set", options):
            continue
        if name not in specs:
            raise UsageError(f"--set: unknown option {name!r}{suggest(name, specs)}")
        spec = specs[name]
        if not equals and spec.kind is not bool:
            raise UsageError(f"--set: {name} needs a value: --set {name}=VALUE")
        parsed = _parse_value(name, value if equals else "true", spec, "--set")
        options[name] = [*options.get(name, []), *parsed] if spec.kind is list else parsed
    return options
