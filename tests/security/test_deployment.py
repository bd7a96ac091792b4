"""Deployment files: the systemd unit, the image, the compose file and the pinned images limit what the proxy may do."""

import json
import re
import runpy
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from feedproxy.refresh.ingest.helper_pool import QUICK_HELPERS_MAX, SLOW_HELPERS_MAX
from feedproxy.upstream.resolver import THREADS

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "conf" / "feedproxy.service"
IMAGES = runpy.run_path(str(ROOT / "scripts" / "image_digests.py"))
COMPOSE: dict[str, Any] = YAML(typ="safe").load((ROOT / "conf" / "compose.yaml").read_text(encoding="utf-8"))
ALONE: dict[str, Any] = YAML(typ="safe").load((ROOT / "conf" / "compose-one.yaml").read_text(encoding="utf-8"))
CONTAINERS = COMPOSE["services"] | ALONE["services"]
DIGEST = "sha256:" + "0123456789abcdef" * 4


def service() -> dict[str, list[str]]:
    """Return the [Service] section: each setting with all its values, in order."""
    settings: dict[str, list[str]] = {}
    section = ""
    for line in UNIT.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line
        elif section == "[Service]" and "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            settings.setdefault(name, []).append(value)
    return settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DynamicUser", "yes"),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("PrivateTmp", "yes"),
        ("PrivateDevices", "yes"),
        ("ProtectKernelTunables", "yes"),
        ("ProtectProc", "invisible"),
        ("CapabilityBoundingSet", ""),
        ("RestrictAddressFamilies", "AF_INET AF_INET6 AF_UNIX"),
        ("RestrictNamespaces", "yes"),
        ("SystemCallArchitectures", "native"),
        ("UMask", "0077"),
        ("LimitCORE", "0"),
        # If the kernel ends the helper process, systemd must not end the proxy.
        ("OOMPolicy", "continue"),
        ("IPAddressDeny", "link-local multicast"),
    ],
)
def test_unit_removes_privileges_that_a_proxy_does_not_need(name: str, value: str) -> None:
    assert service()[name] == [value]


def test_unit_limits_memory_and_tasks() -> None:
    found = service()
    (high,), (most,), (tasks,) = found["MemoryHigh"], found["MemoryMax"], found["TasksMax"]
    units = {"M": 2**20, "G": 2**30}

    assert int(high[:-1]) * units[high[-1]] < int(most[:-1]) * units[most[-1]] <= 4 * 2**30
    look_ups, others, readers = THREADS.slots, 40, 1 + QUICK_HELPERS_MAX + SLOW_HELPERS_MAX
    assert 4 * (look_ups + others + readers) <= int(tasks) <= 4096


def test_unit_filters_system_calls_but_lets_the_helper_process_limit_itself() -> None:
    lines = service()["SystemCallFilter"]

    assert lines[0] == "@system-service"
    assert lines[1] == "~@privileged @resources"
    # `os.nice` is setpriority, and resource.setrlimit is prlimit64. A refusal would end the process at its start.
    assert {"setpriority", "setrlimit", "prlimit64"} <= set(lines[2].split())


def test_systemd_rates_the_unit_as_confined() -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    command = [program, "security", "--offline=true", "--threshold=20", "--no-pager", str(UNIT)]
    found = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)

    if "exposure level" not in found.stdout:
        pytest.skip(f"systemd-analyze cannot judge a unit offline here: {found.stderr.strip()}")
    assert found.returncode == 0, found.stdout[-200:]


def test_unit_has_no_setting_unknown_to_systemd() -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    command = [program, "verify", "--man=no", str(UNIT)]
    found = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)

    assert not re.search("Unknown|Failed to parse|Invalid", found.stderr), found.stderr


@pytest.mark.parametrize("name", sorted(CONTAINERS))
def test_container_is_limited_and_can_write_to_its_volumes_only(name: str) -> None:
    container = CONTAINERS[name]

    assert container["read_only"] is True
    assert container["cap_drop"] == ["ALL"]
    assert container["security_opt"] == ["no-new-privileges:true"]
    assert container["mem_limit"]
    assert container["pids_limit"]
    assert "privileged" not in container
    assert not any("docker.sock" in volume for volume in container.get("volumes", ()))


def test_third_party_images_are_pinned_by_digest() -> None:
    named = [each["image"] for each in COMPOSE["services"].values() if "build" not in each]
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    (base,) = re.findall(r"^ARG BASE=(\S+)$", dockerfile, re.MULTILINE)

    assert named
    assert all(IMAGES["IMAGE"].fullmatch(image) for image in (*named, base))
    assert set(re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)) == {"${BASE}"}


def test_image_is_built_from_all_files_of_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    copied = {
        source for line in re.findall(r"^COPY ([^-].*) \S+$", dockerfile, re.MULTILINE) for source in line.split()
    }
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] == "!"}
    files = [file for group in project["tool"]["setuptools"]["data-files"].values() for file in group]
    files += [project["project"]["readme"], *project["project"]["license-files"]]

    assert copied == sent
    assert all((ROOT / source).exists() for source in copied)
    assert [file for file in files if not any(Path(file).is_relative_to(source) for source in copied)] == []


def test_image_runs_as_an_unprivileged_user() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")

    # Kubernetes cannot tell from a name that the user is not root.
    assert [int(user) > 0 for user in re.findall(r"^USER (\S+)$", dockerfile, re.MULTILINE)] == [True]
    assert "--require-hashes" in dockerfile


def test_options_of_the_image_can_be_set_by_the_documented_variables() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    (command,) = re.findall(r"^CMD (.*)$", dockerfile, re.MULTILINE)
    flags = {part.removeprefix("--") for part in json.loads(command) if part.startswith("--")}
    documented = {name.lower() for name in re.findall(r"-e FEEDPROXY_([A-Z_]+)=", dockerfile)}

    assert documented == {"admin", "admin_token"}
    assert not flags & documented  # a flag takes precedence over a variable


def test_renewal_of_image_digests_changes_nothing_else() -> None:
    text = f"FROM a/b:1-x@{DIGEST} AS build\nimage: c:2\nimage: d:3@{DIGEST}\n"
    asked: list[str] = []

    def latest(image: str) -> str:
        asked.append(image)
        return f"sha256:{'f' * 64}"

    renewed = IMAGES["renewed"](text, latest)

    assert asked == ["a/b:1-x", "d:3"]
    assert renewed == text.replace(DIGEST, f"sha256:{'f' * 64}")
    with pytest.raises(ValueError, match="expected a digest"):
        IMAGES["renewed"](text, lambda _: "")
