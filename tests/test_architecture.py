"""Import rules between the parts of the project, read from the source, so that lazy imports count, too."""

import ast
import importlib
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

LAYERS: tuple[frozenset[str], ...] = (
    frozenset(
        {
            "",
            "cooperative_iteration",
            "background_work",
            "client_network",
            "clock",
            "errors",
            "notes",
            "option_files",
            "lru_map",
            "memory_max_shares",
            "oom_score",
            "durations_and_sizes",
            "repeated_log_messages",
            "settings",
            "single_flight",
            "event_signal",
        }
    ),
    frozenset({"http"}),
    frozenset({"cache", "feed", "upstream"}),
    frozenset({"store", "subscribers", "web"}),
    frozenset({"request", "scoring"}),
    frozenset({"feed_rules"}),
    frozenset({"access", "config", "refresh"}),
    frozenset({"lab", "proxy"}),
    frozenset({"check", "endpoints", "notify", "usm"}),
    frozenset({"telemetry"}),
    frozenset({"fleet"}),
    frozenset({"workers"}),
    frozenset({"app"}),
    frozenset({"admin"}),
    frozenset({"server"}),
    frozenset({"addons"}),
    frozenset({"process"}),
    frozenset({"demo"}),
    frozenset({"commands", "cli", "progress_line", "__main__"}),
)
"""Layers of the parts of the project. A part may import from all earlier layers. The empty name is
feedproxy/__init__.py.
"""

FRIENDS = LAYERS[0] | LAYERS[-1]
"""Parts that may import from each other although they are in one layer. Other parts of one layer may not."""

FOLDER_MAX = 20
"""Maximum number of modules in a folder. A folder with more has more than one subject."""

KNOW_MITMPROXY = frozenset({"server", "addons", "process"})


@cache
def _sources() -> dict[Path, ast.Module]:
    files = sorted([*(ROOT / "feedproxy").rglob("*.py"), *(ROOT / "addons").rglob("*.py")])
    return {path: ast.parse(path.read_text(encoding="utf-8"), str(path)) for path in files}


def _dotted(path: Path) -> str:
    """Return the module's name after installation, where the folder addons/ is feedproxy.addons."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[0] == "addons":
        parts.insert(0, "feedproxy")
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def _part(module: str) -> str:
    """Return the part of the project that a module belongs to: `feedproxy.http.uri` belongs to `http`."""
    _, _, below = module.partition(".")
    return below.partition(".")[0]


def _layer(part: str) -> int:
    for rank, layer in enumerate(LAYERS):
        if part in layer:
            return rank
    raise AssertionError(f"feedproxy/{part} has no place in LAYERS: give it one")


@cache
def _statements(path: Path) -> tuple[ast.Import | ast.ImportFrom | ast.ClassDef, ...]:
    """Return the imports and classes of a module, which is walked once for all tests."""
    return tuple(
        node for node in ast.walk(_sources()[path]) if isinstance(node, ast.Import | ast.ImportFrom | ast.ClassDef)
    )


@cache
def _modules() -> frozenset[str]:
    return frozenset(map(_dotted, _sources()))


@cache
def _imports(path: Path) -> tuple[tuple[int, str], ...]:
    """Return line and full name of all imports, at any depth.

    `from a import b` is a.b if that is a module of the project.
    """
    return tuple(_find_imports(path, _modules()))


def _find_imports(path: Path, ours: frozenset[str]) -> Iterator[tuple[int, str]]:
    for node in _statements(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(path, node)
            inner = [f"{base}.{alias.name}" for alias in node.names if f"{base}.{alias.name}" in ours]
            # `from feedproxy import clock` uses feedproxy.clock, not other names in feedproxy/__init__.py.
            if len(inner) < len(node.names):
                yield node.lineno, base
            for name in inner:
                yield node.lineno, name


def _absolute(path: Path, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    here = _dotted(path).split(".")
    package = here if path.name == "__init__.py" else here[:-1]
    kept = package[: len(package) - node.level + 1]
    return ".".join([*kept, node.module] if node.module else kept)


def _where(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def _foreign(name: str) -> bool:
    return name.partition(".")[0] not in {"feedproxy", "addons", *sys.stdlib_module_names}


def test_imports_follow_the_permitted_directions() -> None:
    wrong = []
    for path in _sources():
        mine = _part(_dotted(path))
        for line, name in _imports(path):
            if name.partition(".")[0] != "feedproxy":
                continue
            theirs = _part(name)
            if theirs == mine or (theirs in FRIENDS and mine in FRIENDS and _layer(theirs) == _layer(mine)):
                continue
            if _layer(theirs) >= _layer(mine):
                wrong.append(f"{_where(path, line)}: {mine or 'feedproxy'} must not know {name}")
    assert not wrong, "\n".join(["against the arrows:", *wrong])


def test_cache_and_feed_do_not_import_each_other() -> None:
    wrong = [
        f"{_where(path, line)}: {name}"
        for path in _sources()
        for line, name in _imports(path)
        if {_part(_dotted(path)), _part(name)} == {"cache", "feed"} and name.startswith("feedproxy.")
    ]
    assert not wrong, "\n".join(wrong)


def test_mitm_does_not_import_the_fast_path() -> None:
    wrong = [
        f"{_where(path, line)}: {name}"
        for path in _sources()
        if _dotted(path).startswith("feedproxy.server.mitm")
        for line, name in _imports(path)
        if name.startswith("feedproxy.server.fastpath")
    ]
    assert not wrong, "\n".join(wrong)


def test_only_server_serve_and_addons_import_mitmproxy() -> None:
    wrong = [
        f"{_where(path, line)}: {name}"
        for path in _sources()
        for line, name in _imports(path)
        if name.partition(".")[0] == "mitmproxy" and _part(_dotted(path)) not in KNOW_MITMPROXY
    ]
    assert not wrong, "\n".join(wrong)


def test_addons_do_not_import_each_other() -> None:
    wrong = [
        f"{_where(path, line)}: {name}"
        for path in _sources()
        if path.parent.name == "addons" and path.name not in {"order.py", "all.py"}
        for line, name in _imports(path)
        if name.startswith(("feedproxy.addons", "addons"))
    ]
    assert not wrong, "\n".join(wrong)


def test_imports_are_absolute() -> None:
    """mitmproxy runs an addon by its path, so relative imports have no package."""
    wrong = [
        _where(path, node.lineno)
        for path in _sources()
        for node in _statements(path)
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not wrong, "\n".join(wrong)


def test_addon_has_no_name_of_a_module_and_no_dataclass() -> None:
    """A script's folder is the first entry of the search path, and a script run by path is missing from sys.modules."""
    declared = {name.replace("-", "_").lower() for name in _requirements()}
    taken = {*sys.stdlib_module_names, *declared}
    wrong = []
    for path in _sources():
        if path.parent.name != "addons" or path.name == "__init__.py":
            continue
        if path.stem in taken:
            wrong.append(f"{_where(path, 1)}: another module has this name")
        wrong += [f"{_where(path, line)}: {name}" for line, name in _imports(path) if name.startswith("dataclasses")]
    assert not wrong, "\n".join(wrong)


MODEL_OF_CONVERSIONS = ROOT / "feedproxy/feed/convert/model.py"
"""Module whose values are all dataclasses, because `Feed` is one."""


def test_frozen_value_is_a_struct_unless_it_has_a_reason_to_be_a_dataclass() -> None:
    """docs/decisions/value-classes.md lists the reasons."""
    wrong = [
        f"{_where(path, node.lineno)}: {node.name}"
        for path in _sources()
        if path != MODEL_OF_CONVERSIONS
        for node in _statements(path)
        if isinstance(node, ast.ClassDef) and _is_frozen_dataclass(node) and not _is_dataclass_for_a_reason(path, node)
    ]
    assert not wrong, "\n".join(wrong)


def test_struct_is_frozen() -> None:
    wrong = [
        f"{_where(path, node.lineno)}: {node.name}"
        for path in _sources()
        for node in _statements(path)
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base) in ("Struct", "msgspec.Struct") for base in node.bases)
        and not _has_argument(node.keywords, "frozen", value=True)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("source", "is_permitted"),
    [
        ("@dataclass(frozen=True)\nclass A:\n    a: int", False),
        ("@dataclasses.dataclass(slots=True, frozen=True)\nclass A:\n    a: int", False),
        ("@dataclass(frozen=True)\nclass A:\n    a: str = field(repr=False)", True),
        ("@dataclass(frozen=True)\nclass A:\n    a: str = field(repr=True)", False),
        ("@dataclass(frozen=True)\nclass A:\n    a: str = field(default='', metadata={})", True),
        ("@dataclass(frozen=True)\nclass A:\n    a: str = option('')", True),
        ("@dataclass(frozen=True)\nclass A:\n    @cached_property\n    def b(self): ...", True),
        ("@dataclass(frozen=True)\nclass A:\n    a: str = field(compare=False)", True),
        ("@dataclass(slots=True)\nclass A:\n    a: int", True),
        ("@dataclass\nclass A:\n    a: int", True),
    ],
)
def test_rule_of_value_classes_is_recognised(source: str, is_permitted: bool) -> None:
    (node,) = ast.parse(source).body

    assert isinstance(node, ast.ClassDef)
    assert (not _is_frozen_dataclass(node) or _is_dataclass_for_a_reason(None, node)) is is_permitted


def _is_frozen_dataclass(node: ast.ClassDef) -> bool:
    return any(
        isinstance(decorator, ast.Call)
        and ast.unparse(decorator.func) in ("dataclass", "dataclasses.dataclass")
        and _has_argument(decorator.keywords, "frozen", value=True)
        for decorator in node.decorator_list
    )


def _is_dataclass_for_a_reason(path: Path | None, node: ast.ClassDef) -> bool:
    """Return True if the class has one of the properties of value-classes.md. `path` is None without imports."""
    calls = [part for part in ast.walk(node) if isinstance(part, ast.Call)]
    has_reason = any(
        ast.unparse(call.func) == "option"
        or _has_argument(call.keywords, "repr", value=False)
        or _has_argument(call.keywords, "compare", value=False)
        or any(argument.arg == "metadata" for argument in call.keywords)
        for call in calls
        if call not in node.decorator_list
    )
    has_cached_property = any(
        ast.unparse(decorator).rpartition(".")[2] == "cached_property"
        for part in node.body
        if isinstance(part, ast.FunctionDef)
        for decorator in part.decorator_list
    )
    of_mitmproxy = (
        {name.rpartition(".")[2] for _, name in _imports(path) if name.startswith("mitmproxy.")} if path else set()
    )
    bases = {ast.unparse(base).partition("[")[0].partition(".")[0] for base in node.bases}
    return has_reason or has_cached_property or bool(bases & of_mitmproxy)


def _has_argument(keywords: list[ast.keyword], name: str, *, value: bool) -> bool:
    return any(
        keyword.arg == name and isinstance(keyword.value, ast.Constant) and keyword.value.value is value
        for keyword in keywords
    )


def test_modules_import_each_other_without_cycles() -> None:
    imported = {_dotted(path): {name for _, name in _imports(path) if name != _dotted(path)} for path in _sources()}
    TopologicalSorter(imported).prepare()  # raises CycleError, which names the modules


def test_folder_has_at_most_twenty_modules() -> None:
    """The folder addons/ is exempt: each of its files is one part of the product."""
    counts = Counter(path.parent.relative_to(ROOT) for path in _sources() if path.name != "__init__.py")
    large = {str(folder): count for folder, count in counts.items() if count > FOLDER_MAX and folder.name != "addons"}
    assert not large


def test_every_module_has_a_docstring() -> None:
    # A package's __init__.py may be empty.
    wrong = [_where(path, 1) for path, tree in _sources().items() if tree.body and not ast.get_docstring(tree)]
    assert not wrong, "\n".join(["without a docstring:", *wrong])


def _requirements() -> list[str]:
    """Return the distributions that the package requires according to pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = (each for name, all_ in project["optional-dependencies"].items() if name != "test" for each in all_)
    return [_name_of(requirement) for requirement in (*project["dependencies"], *extras)]


def _name_of(requirement: str) -> str:
    end = next((at for at, each in enumerate(requirement) if not (each.isalnum() or each in "-_.")), None)
    return requirement[:end]


_packages_distributions = cache(packages_distributions)


def _modules_of(distributions: list[str]) -> dict[str, str]:
    def plain(name: str) -> str:
        return name.replace("_", "-").replace(".", "-").lower()

    wanted = {plain(name): name for name in distributions}
    return {
        module: wanted[plain(name)]
        for module, names in _packages_distributions().items()
        for name in names
        if plain(name) in wanted
    }


def test_every_imported_distribution_is_declared() -> None:
    """An indirect dependency can disappear with any release."""
    declared = _modules_of(_requirements())
    wrong = [
        f"{_where(path, line)}: {name}"
        for path in _sources()
        for line, name in _imports(path)
        if _foreign(name) and name.partition(".")[0] not in declared
    ]
    assert not wrong, "\n".join(["not among pyproject.toml's dependencies:", *wrong])


def test_every_declared_distribution_is_imported() -> None:
    used = {name.partition(".")[0] for path in _sources() for _, name in _imports(path)}
    by_distribution: dict[str, set[str]] = {name: set() for name in _requirements()}
    for module, name in _modules_of(_requirements()).items():
        by_distribution[name].add(module)
    idle = [name for name, modules in by_distribution.items() if not modules & used]
    assert not idle, f"dependencies that nothing imports: {', '.join(idle)}"


@pytest.mark.parametrize("package", ["cache", "feed", "http"])
def test_pure_parts_use_neither_network_nor_disk_nor_clock(package: str) -> None:
    """Decisions are pure functions of their arguments. The caller provides time and bytes."""
    edge = {"socket", "ssl", "asyncio", "aiohttp", "sqlite3", "diskcache", "subprocess", "tempfile"}
    wrong = [
        f"{_where(path, line)}: {name}"
        for path in _sources()
        if _part(_dotted(path)) == package
        for line, name in _imports(path)
        if name.partition(".")[0] in edge
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", sorted([*(ROOT / "scripts").glob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]))
def test_scripts_and_benchmarks_import_names_that_exist(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "feedproxy":
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
