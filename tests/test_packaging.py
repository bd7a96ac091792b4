"""The installed product: the wheel, the source archive, and the pinned dependencies."""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Mapping
from email.parser import Parser
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import feedproxy

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGED = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "feedproxy", "addons", "conf")

BUILD = "import sys; from setuptools import build_meta; build_meta.build_{}(sys.argv[1])"


def _run(*command: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        env=None if env is None else {**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=330,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the files that belong to the package, so that builds leave no files in the project."""
    copy = tmp_path_factory.mktemp("tree")
    for name in PACKAGED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.is_file():
            shutil.copy(source, copy / name)
    return copy


@pytest.fixture(scope="session")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-c", BUILD.format("wheel"), out, cwd=tree)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that the wheel installs into site-packages."""
    place = tmp_path_factory.mktemp("site packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    return place


def _contents(archive: Path) -> set[str]:
    with zipfile.ZipFile(archive) as opened:
        return {name for name in opened.namelist() if ".dist-info/" not in name and ".data/" not in name}


def _expected() -> set[str]:
    """Return every file of the product by its installed name."""
    files = set()
    for folder, prefix in (("feedproxy", "feedproxy/"), ("addons", "feedproxy/addons/")):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith("."):
                files.add(prefix + path.relative_to(ROOT / folder).as_posix())
    return files


def test_configured_packages_are_the_existing_folders() -> None:
    """setuptools would discover them, but would omit the mapped folder."""
    folders = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "feedproxy").rglob("__init__.py")}
    folders.add("feedproxy.addons")
    named = PROJECT["tool"]["setuptools"]["packages"]
    assert sorted(named) == sorted(folders)


def test_wheel_contains_every_file_of_the_product_and_no_other(wheel: Path) -> None:
    assert _contents(wheel) == _expected()


def test_wheel_contains_manual_and_completion(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        found = {name.partition(".data/data/")[2] for name in opened.namelist() if ".data/data/" in name}
    share = ROOT / "conf" / "share"
    assert found == {f"share/{path.relative_to(share)}" for path in share.rglob("*") if path.is_file()}


def test_wheel_installs_no_package_named_addons(installed: Path) -> None:
    assert {path.name for path in installed.iterdir() if path.suffix not in (".dist-info", ".data")} == {"feedproxy"}


def test_wheel_has_the_version_of_the_program(installed: Path) -> None:
    metadata = Parser().parsestr(next(installed.glob("*.dist-info/METADATA")).read_text(encoding="utf-8"))
    assert metadata["Version"] == feedproxy.__version__
    assert metadata["License-Expression"] == "MIT"
    assert next(installed.glob("*.dist-info/licenses/LICENSE")).is_file()


def test_installed_command_runs_alone(installed: Path, tmp_path: Path) -> None:
    command = (sys.executable, "-m", "feedproxy.cli")
    env = {"PYTHONPATH": str(installed)}

    version = _run(*command, "--version", cwd=tmp_path, env=env)
    folder = Path(_run(*command, "addons", cwd=tmp_path, env=env).strip())

    assert version.strip() == f"feedproxy {feedproxy.__version__}"
    assert folder == installed / "feedproxy" / "addons"
    assert (folder / "all.py").is_file()


def test_mitmproxy_can_load_the_installed_product_by_path(installed: Path, tmp_path: Path) -> None:
    script = installed / "feedproxy" / "addons" / "all.py"
    load = "import sys; from mitmproxy.addons import script; print(len(script.load_script(sys.argv[1]).addons))"

    count = _run(sys.executable, "-c", load, script, cwd=tmp_path, env={"PYTHONPATH": str(installed)})

    assert int(count) > 0


def test_source_archive_builds_the_same_wheel(tree: Path, wheel: Path, tmp_path: Path) -> None:
    _run(sys.executable, "-c", BUILD.format("sdist"), tmp_path, cwd=tree)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = next(path for path in tmp_path.iterdir() if path.is_dir())

    _run(sys.executable, "-c", BUILD.format("wheel"), tmp_path, cwd=unpacked)

    assert _contents(next(tmp_path.glob("*.whl"))) == _contents(wheel)


def _pins() -> list[tuple[Requirement, int]]:
    """Return each logical line of constraints.txt and its number of hashes."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(Requirement(line.partition("--hash")[0]), line.count("--hash=sha256:")) for line in lines]


def test_pins_are_exact_and_have_hashes() -> None:
    for requirement, hashes in _pins():
        assert [each.operator for each in requirement.specifier] == ["=="], requirement
        assert hashes > 0, requirement


def test_pins_contain_no_address() -> None:
    """The user chooses the index; the hashes ensure that the files are the same."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert "://" not in text
    assert not [line for line in text.splitlines() if line.startswith("-")]


def _wanted() -> list[Any]:
    project = PROJECT["project"]
    extras = [each for extra in project["optional-dependencies"].values() for each in extra]
    return [*project["dependencies"], *extras, *PROJECT["build-system"]["requires"]]


@pytest.mark.parametrize("wanted", sorted(set(_wanted())))
def test_every_requirement_is_satisfied_by_a_pin(wanted: str) -> None:
    """After a change of pyproject.toml, run: make constraints."""
    requirement = Requirement(wanted)
    pinned = [
        next(iter(pin.specifier)).version
        for pin, _ in _pins()
        if canonicalize_name(pin.name) == canonicalize_name(requirement.name)
    ]
    assert pinned, f"{requirement.name} is not in constraints.txt"
    assert all(requirement.specifier.contains(version) for version in pinned)


def test_every_requirement_of_a_pin_is_pinned() -> None:
    """With `--require-hashes`, pip installs nothing if one of them is missing."""
    pins = {canonicalize_name(pin.name) for pin, _ in _pins()}
    missing = {
        f"{name} needs {requirement}"
        for name in pins
        for requirement in _requirements(name)
        if canonicalize_name(requirement.name) not in pins
    }
    assert not missing


def _requirements(name: str) -> list[Requirement]:
    """Return the unconditional requirements of an installed distribution, for this Python."""
    try:
        named = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []  # for another Python
    return [each for each in map(Requirement, named) if each.marker is None or each.marker.evaluate({"extra": ""})]
