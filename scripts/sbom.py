"""The parts of `make sbom`: the components that feedproxy runs with, and the statements about their known
vulnerabilities.

    scripts/sbom.py requirements FILE    the entries of constraints.txt that an installation needs
    scripts/sbom.py vex FILE             docs/security/vex.yaml as an OpenVEX document (version 0.2.0)
"""

import json
import re
import sys
import uuid
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
STATEMENTS = ROOT / "docs" / "security" / "vex.yaml"
EXTRAS = ("redis",)
"""Extras that an installation may have. The image has them (Dockerfile)."""

OPENVEX = "https://openvex.dev/ns/v0.2.0"
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, OPENVEX)


def pinned() -> dict[str, str]:
    """Return the entries of constraints.txt, with their hashes, by name."""
    text = re.sub(r"^#.*\n", "", CONSTRAINTS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    entries = re.split(r"\n(?=\S)", text.strip())
    return {canonicalize_name(re.split(r"[=\s;\[]", entry, maxsplit=1)[0]): entry for entry in entries}


def version_of(name: str) -> str:
    """Return the version of a component in constraints.txt."""
    found = re.match(r"[^=\s]+==([^\s;\\]+)", pinned()[canonicalize_name(name)])
    assert found is not None
    return found[1]


def needed(name: str = "feedproxy", extras: tuple[str, ...] = EXTRAS) -> set[str]:
    """Return the names of this distribution and of all its dependencies here."""
    found: set[tuple[str, str]] = set()
    waiting = [(canonicalize_name(name), extra) for extra in ("", *extras)]
    while waiting:
        asked = waiting.pop()
        if asked in found:
            continue
        found.add(asked)
        for line in metadata.requires(asked[0]) or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": asked[1]}):
                wanted = canonicalize_name(requirement.name)
                waiting += [(wanted, extra) for extra in ("", *requirement.extras)]
    return {each for each, _ in found}


def requirements() -> str:
    """Return the components to install, each with its version and hashes."""
    entries = pinned()
    return "".join(f"{entries[name]}\n" for name in sorted(needed() - {"feedproxy"}))


def vex() -> dict[str, Any]:
    """Return the OpenVEX document. The same source gives the same document."""
    source = YAML(typ="safe").load(STATEMENTS.read_text(encoding="utf-8"))
    version = metadata.version("feedproxy")
    document = {
        "@context": OPENVEX,
        "author": "the maintainers of feedproxy",
        "role": "Document Creator",
        "timestamp": f"{source['date'].isoformat()}T00:00:00Z",
        "version": source["version"],
        "statements": list(_statements(source["statements"], f"pkg:pypi/feedproxy@{version}")),
    }
    return {"@id": uuid.uuid5(NAMESPACE, json.dumps(document, sort_keys=True)).urn, **document}


def _statements(statements: list[dict[str, Any]], product: str) -> Iterator[dict[str, Any]]:
    for each in statements:
        component = f"pkg:pypi/{canonicalize_name(each['component'])}@{version_of(each['component'])}"
        made = {
            "vulnerability": {"name": each["vulnerability"]},
            "products": [{"@id": product, "subcomponents": [{"@id": component}]}],
            "status": each["status"],
        }
        if "justification" in each:
            made["justification"] = each["justification"]
            made["impact_statement"] = each["impact"]
        else:
            made["action_statement"] = each["action"]
        yield made


def main(what: str, file: str) -> None:
    """Write one of the two files."""
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(requirements() if what == "requirements" else json.dumps(vex(), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
