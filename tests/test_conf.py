"""The examples in conf/ teach: they load as they are, name every option, and tell the truth about defaults."""

import asyncio
import configparser
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mitmproxy.options import Options
from ruamel.yaml import YAML

from feedproxy import config, serve
from feedproxy.report.metrics import Metrics
from feedproxy.settings import Settings, option_names

CONF = Path(__file__).resolve().parents[1] / "conf"
EXAMPLES = ["lab.yaml", "office.yaml", "publisher.yaml"]

# A line of prose is `# word`; an option that is switched off is `#name:`, and what belongs to it `#  - match:`.
OFF = re.compile(r"^#(?=\w+:|  - \w+:|    \w+:)", re.MULTILINE)
STATED = re.compile(r"^# Default: (.+?)(?: \(.*\))?\n#?(\w+):", re.MULTILINE)
STATED_IN_RULES = re.compile(r"^# (\w+) \(default (.+?)\):", re.MULTILINE)
LINE = re.compile(r"^#?(\w+):", re.MULTILINE)


def _known() -> dict[str, config.OptionSpec]:
    """Every option of the whole product, mitmproxy's own included."""

    async def ask() -> dict[str, config.OptionSpec]:
        made, _ = serve.make_master(serve.Plan())
        return {name: config.spec_of(each.typespec, each.choices) for name, each in made.options.items()}

    return asyncio.run(ask())


def _default(name: str) -> Any:
    if name in option_names():
        default = getattr(Settings(), name)
        return list(default) if isinstance(default, tuple) else default
    return serve.MITMPROXY_DEFAULTS.get(name, Options().default(name))


def _stated(text: str) -> Iterator[tuple[str, Any]]:
    for value, name in STATED.findall(text):
        yield name, YAML(typ="safe").load(value)
    for name, value in STATED_IN_RULES.findall(text):
        yield name, YAML(typ="safe").load(value)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_loads_as_it_is(name: str) -> None:
    assert config.load(CONF / name, _known()).options


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_loads_with_everything_in_it_switched_on(name: str, tmp_path: Path) -> None:
    whole = tmp_path / name
    whole.write_text(OFF.sub("", (CONF / name).read_text(encoding="utf-8")), encoding="utf-8")

    loaded = config.load(whole, _known())

    assert loaded.rules


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_defaults_that_an_example_states_are_true(name: str) -> None:
    stated = list(_stated((CONF / name).read_text(encoding="utf-8")))

    assert stated
    assert [(option, value) for option, value in stated if value != _default(option)] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_option_that_is_switched_off_stands_at_its_default(name: str) -> None:
    text = (CONF / name).read_text(encoding="utf-8")
    off = re.findall(r"^#(\w+): ?(.*)$", text, re.MULTILINE)

    wrong = [
        (option, value)
        for option, value in off
        if option != "feeds" and YAML(typ="safe").load(value) != _default(option)
    ]

    assert wrong == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_option_of_an_example_says_its_default(name: str) -> None:
    text = (CONF / name).read_text(encoding="utf-8")
    assert {*LINE.findall(text)} - {option for option, _ in _stated(text)} - {"feeds"} == set()


def test_the_office_example_explains_every_option_but_the_publishers() -> None:
    explained = {option for option, _ in _stated((CONF / "office.yaml").read_text(encoding="utf-8"))}
    assert set(option_names()) - explained == {"upstream"}


def _names_of_metrics() -> set[str]:
    text = Metrics().exposition().decode()
    families = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    parts = {"histogram": ("_bucket", "_sum", "_count")}
    return {name + part for name, kind in families.items() for part in parts.get(kind, ("",))}


def test_the_dashboard_asks_for_metrics_that_exist() -> None:
    dashboard = json.loads((CONF / "grafana.json").read_text(encoding="utf-8"))
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    asked = {name for each in expressions for name in re.findall(r"\bfeedproxy_\w+", each)}

    assert expressions
    assert asked - _names_of_metrics() == set()


def test_the_service_unit_runs_a_command_that_exists() -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]  # systemd's names have capitals
    unit.read(CONF / "feedproxy.service", encoding="utf-8")

    assert re.search(r"feedproxy serve --config ", unit["Service"]["ExecStart"])
    assert unit["Service"]["DynamicUser"] == "yes"


def test_the_compose_file_builds_this_project_and_keeps_the_store() -> None:
    compose = YAML(typ="safe").load((CONF / "compose.yaml").read_text(encoding="utf-8"))
    service = compose["services"]["feedproxy"]

    assert service["build"]["context"] == ".."
    assert {each.partition(":")[0] for each in service["volumes"]} >= set(compose["volumes"])
