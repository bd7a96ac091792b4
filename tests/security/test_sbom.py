"""The software bill of materials and the statements about vulnerabilities match the installation."""

import re
import runpy
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
SBOM = runpy.run_path(str(ROOT / "scripts" / "sbom.py"))
SOURCE: dict[str, Any] = YAML(typ="safe").load((ROOT / "docs" / "security" / "vex.yaml").read_text(encoding="utf-8"))

JUSTIFICATIONS = {
    "component_not_present",
    "vulnerable_code_not_present",
    "vulnerable_code_not_in_execute_path",
    "vulnerable_code_cannot_be_controlled_by_adversary",
    "inline_mitigations_already_exist",
}
"""OpenVEX 0.2.0, "Status Justifications"."""


def test_components_are_the_installed_dependencies_without_test_tools() -> None:
    needed = SBOM["needed"]()

    assert {"mitmproxy", "diskcache", "lxml", "aiohttp", "redis", "h2", "cryptography"} <= needed
    assert not {"pytest", "mypy", "ruff", "hypothesis", "feedparser", "playwright"} & needed


def test_every_component_has_its_version_and_hashes() -> None:
    text = SBOM["requirements"]()

    entries = re.split(r"\n(?=\S)", text.strip())
    assert len(entries) == len(SBOM["needed"]()) - 1
    assert all(re.match(r"[\w.-]+==\S+", entry) and "--hash=sha256:" in entry for entry in entries)


@pytest.mark.parametrize("statement", SOURCE["statements"], ids=lambda each: each["vulnerability"])
def test_statement_has_the_required_openvex_members_and_names_its_proof(statement: dict[str, Any]) -> None:
    assert re.fullmatch(r"CVE-\d{4}-\d{4,}|GHSA(-[a-z0-9]{4}){3}|PYSEC-\d{4}-\d+", statement["vulnerability"])
    assert statement["component"] in SBOM["needed"]()
    if statement["status"] == "not_affected":
        assert statement["justification"] in JUSTIFICATIONS
        assert statement["impact"]
    else:
        assert statement["status"] in ("affected", "fixed", "under_investigation")
        assert statement["action"]
    assert statement["proof"]
    assert all((ROOT / path).is_file() for path in statement["proof"])


def test_document_names_the_installed_versions() -> None:
    document = SBOM["vex"]()

    assert document["@context"] == "https://openvex.dev/ns/v0.2.0"
    assert document["version"] == SOURCE["version"]
    assert date.fromisoformat(document["timestamp"][:10]) == SOURCE["date"]
    (first, *_) = document["statements"]
    assert first["vulnerability"] == {"name": "CVE-2025-69872"}
    assert first["status"] == "not_affected"
    assert first["justification"] == "vulnerable_code_not_in_execute_path"
    (product,) = first["products"]
    assert product["@id"] == f"pkg:pypi/feedproxy@{metadata.version('feedproxy')}"
    assert product["subcomponents"] == [{"@id": f"pkg:pypi/diskcache@{metadata.version('diskcache')}"}]


def test_document_is_reproducible_and_contains_no_host_name() -> None:
    assert SBOM["vex"]() == SBOM["vex"]()
    assert "://" not in (ROOT / "docs" / "security" / "vex.yaml").read_text(encoding="utf-8")
