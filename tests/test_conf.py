"""The example configurations in conf/ load unchanged, name every option, and state the correct defaults."""

import argparse
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

from feedproxy import cli, durations_and_sizes
from feedproxy.commands import serve as serving
from feedproxy.config import config_file, option_types
from feedproxy.process import mitmproxy_master
from feedproxy.process.option_sources import ServePlan
from feedproxy.settings import Settings, option_names
from feedproxy.telemetry.metrics import NO_FAILURE, Metrics
from feedproxy.telemetry.metrics_aggregation import exposition

CONF = Path(__file__).resolve().parents[1] / "conf"
EXAMPLES = ["fleet.yaml", "lab.yaml", "office.yaml", "publisher.yaml"]

# A line of prose is `# word`. A disabled option is `#name:`, and its nested lines are `#  - match:`.
OFF = re.compile(r"^#(?=\w+:|  - \w+:|    \w+:)", re.MULTILINE)
STATED = re.compile(r"^# Default: (.+?)(?: \(.*\))?\n#?(\w+):", re.MULTILINE)
STATED_IN_RULES = re.compile(r"^# (\w+) \(default (.+?)\):", re.MULTILINE)
LINE = re.compile(r"^#?(\w+):", re.MULTILINE)


def _known() -> dict[str, option_types.OptionSpec]:
    """Return every option of the product, including those of mitmproxy."""

    async def ask() -> dict[str, option_types.OptionSpec]:
        made, *_ = mitmproxy_master.build_master(ServePlan())
        return mitmproxy_master.known_options(made)

    return asyncio.run(ask())


def _default(name: str) -> Any:
    if name in option_names():
        default = getattr(Settings(), name)
        return list(default) if isinstance(default, tuple) else default
    return mitmproxy_master.MITMPROXY_DEFAULTS.get(name, Options().default(name))


def _read(name: str, value: str) -> Any:
    """Return the value that a YAML text has for an option, in the option's unit."""
    loaded = YAML(typ="safe").load(value)
    unit = option_types.option_specs()[name].unit if name in option_types.option_specs() else ""
    return durations_and_sizes.parse(str(loaded), unit) if unit else loaded


def _stated(text: str) -> Iterator[tuple[str, Any]]:
    for value, name in STATED.findall(text):
        yield name, _read(name, value)
    for name, value in STATED_IN_RULES.findall(text):
        yield name, _read(name, value)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_loads_unchanged(name: str) -> None:
    assert config_file.load(CONF / name, _known()).options


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_loads_with_all_options_enabled(name: str, tmp_path: Path) -> None:
    whole = tmp_path / name
    whole.write_text(OFF.sub("", (CONF / name).read_text(encoding="utf-8")), encoding="utf-8")

    loaded = config_file.load(whole, _known())

    assert loaded.rules


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_states_the_default_of_each_option_correctly(name: str) -> None:
    stated = list(_stated((CONF / name).read_text(encoding="utf-8")))

    assert stated
    assert [(option, value) for option, value in stated if value != _default(option)] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_disabled_option_shows_its_default(name: str) -> None:
    text = (CONF / name).read_text(encoding="utf-8")
    off = re.findall(r"^#(\w+): ?(.*)$", text, re.MULTILINE)

    wrong = [(option, value) for option, value in off if option != "feeds" and _read(option, value) != _default(option)]

    assert wrong == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_option_of_an_example_states_its_default(name: str) -> None:
    text = (CONF / name).read_text(encoding="utf-8")
    assert {*LINE.findall(text)} - {option for option, _ in _stated(text)} - {"feeds"} == set()


def test_office_example_explains_every_option_except_the_publishers() -> None:
    explained = {option for option, _ in _stated((CONF / "office.yaml").read_text(encoding="utf-8"))}
    assert set(option_names()) - explained == {"upstream"}


def _names_of_metrics() -> set[str]:
    text = exposition(Metrics().families()).decode()
    families = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    parts = {"histogram": ("_bucket", "_sum", "_count")}
    return {name + part for name, kind in families.items() for part in parts.get(kind, ("",))}


def test_dashboard_uses_existing_metrics() -> None:
    dashboard = json.loads((CONF / "grafana.json").read_text(encoding="utf-8"))
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    asked = {name for each in expressions for name in re.findall(r"\bfeedproxy_\w+", each)}

    assert expressions
    assert asked - _names_of_metrics() == set()


def test_alerts_use_existing_metrics_and_have_a_description() -> None:
    alarms = YAML(typ="safe").load((CONF / "alerts.yaml").read_text(encoding="utf-8"))
    rules = [rule for group in alarms["groups"] for rule in group["rules"]]

    assert rules
    for rule in rules:
        assert {"alert", "expr", "for", "labels", "annotations"} == set(rule)
        assert {"summary", "description"} == set(rule["annotations"])
        assert set(re.findall(r"\bfeedproxy_\w+", rule["expr"])) - _names_of_metrics() == set()


def test_alert_about_origins_counts_only_failures() -> None:
    rules = YAML(typ="safe").load((CONF / "alerts.yaml").read_text(encoding="utf-8"))["groups"][0]["rules"]
    (expression,) = [rule["expr"] for rule in rules if rule["alert"] == "FeedproxyOriginsFail"]

    (excluded,) = re.findall(r'detail!~"([^"]*)"', expression)
    assert set(excluded.split("|")) == set(map(str, NO_FAILURE))


def test_dashboard_has_the_form_that_grafana_requires() -> None:
    dashboard = json.loads((CONF / "grafana.json").read_text(encoding="utf-8"))
    panels = dashboard["panels"]

    assert {"title", "uid", "schemaVersion", "panels", "templating"} <= set(dashboard)
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_service_unit_runs_an_existing_command() -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]  # systemd's names have capitals
    unit.read(CONF / "feedproxy.service", encoding="utf-8")

    assert re.search(r"feedproxy serve --config ", unit["Service"]["ExecStart"])
    assert unit["Service"]["DynamicUser"] == "yes"


def _compose() -> dict[str, Any]:
    made: dict[str, Any] = YAML(typ="safe").load((CONF / "compose.yaml").read_text(encoding="utf-8"))
    return made


FEEDPROXIES = ("one", "two")


def test_compose_file_uses_only_names_that_it_defines() -> None:
    compose = _compose()
    for service in compose["services"].values():
        volumes = [each.partition(":")[0] for each in service.get("volumes", ())]
        assert {each for each in volumes if not each.startswith(".")} <= set(compose["volumes"])
        assert all((CONF / each).is_file() for each in volumes if each.startswith("."))
        assert set(service.get("networks", ())) <= set(compose["networks"])
        for name, wanted in service.get("depends_on", {}).items():
            assert wanted["condition"] == "service_healthy"
            assert "healthcheck" in compose["services"][name]


def test_feedproxies_of_the_compose_file_are_built_locally_with_one_store_each() -> None:
    compose = _compose()
    kept = [
        {each.partition(":")[0] for each in compose["services"][name]["volumes"] if ":/var/cache/feedproxy" in each}
        for name in FEEDPROXIES
    ]
    assert all(compose["services"][name]["build"]["context"] == ".." for name in FEEDPROXIES)
    assert all(len(each) == 1 for each in kept)
    assert kept[0] != kept[1]


@pytest.mark.parametrize("name", FEEDPROXIES)
def test_compose_file_runs_a_valid_command(name: str, tmp_path: Path) -> None:
    """The command is checked with its configuration, except for what requires Valkey."""
    service = _compose()["services"][name]
    words = service["command"].split()
    (mounted,) = [each for each in service["volumes"] if ":/etc/feedproxy.yaml" in each]
    words[words.index("/etc/feedproxy.yaml")] = str(CONF / mounted.partition(":")[0])

    parser = argparse.ArgumentParser()
    serving.register(parser.add_subparsers())
    given = parser.parse_args(words)

    async def made() -> Settings:
        plan = ServePlan(given.config, (*given.set, f"confdir={tmp_path}"))
        return mitmproxy_master.build_master(plan)[1].settings

    settings = asyncio.run(made())
    assert settings.store == "redis://valkey:6379/0"
    assert settings.fleet_local == "/var/cache/feedproxy"


def test_single_container_compose_file_publishes_its_admin_page_on_loopback_with_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compose = YAML(typ="safe").load((CONF / "compose-one.yaml").read_text(encoding="utf-8"))
    service = compose["services"]["feedproxy"]
    for name, value in service["environment"].items():
        folder = {"FEEDPROXY_STORE": tmp_path / "store", "FEEDPROXY_CONFDIR": tmp_path / "ca"}.get(name)
        monkeypatch.setenv(name, str(folder or value))

    assert cli.main([*service["command"], "--check"]) == 0
    assert "listen:  0.0.0.0:8080; admin: 0.0.0.0:8081" in capsys.readouterr().out
    assert service["ports"] == ["127.0.0.1:8080:8080", "127.0.0.1:8081:8081"]
    assert {each.partition(":")[0] for each in service["volumes"]} == set(compose["volumes"])

    assert service["environment"]["FEEDPROXY_ADMIN_TOKEN"].startswith("${FEEDPROXY_ADMIN_TOKEN:?")
    monkeypatch.delenv("FEEDPROXY_ADMIN_TOKEN")
    assert cli.main([*service["command"], "--check"]) == 2


def test_valkey_of_the_compose_file_is_limited_in_memory_and_internal() -> None:
    compose = _compose()
    valkey = compose["services"]["valkey"]
    assert "--maxmemory-policy volatile-lru" in valkey["command"]
    assert "ports" not in valkey
    assert valkey["networks"] == ["inside"]
    assert compose["networks"]["inside"]["internal"] is True


def test_load_balancer_lists_all_feedproxies_and_has_a_longer_timeout() -> None:
    text = (CONF / "balancer.cfg").read_text(encoding="utf-8")
    assert re.findall(r"^    server (\w+) (\S+)", text, re.MULTILINE) == 2 * [
        (name, f"{name}:8080") for name in FEEDPROXIES
    ]
    (seconds,) = re.findall(r"timeout server (\d+)s", text)
    assert int(seconds) > Settings().answer_timeout
    assert "option forwardfor" in text
