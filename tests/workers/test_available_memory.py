"""The memory that this process may use, by the limits of its cgroups."""

from pathlib import Path

import pytest

from feedproxy.memory_max_shares import MEMORY_MAX_LEAST, fitting_memory_max
from feedproxy.workers.available_memory import available_memory

MIB = 2**20
HYBRID = "9:name=systemd:/\n4:cpu,memory:/docker/abc\n0::/\n"


@pytest.mark.parametrize(
    ("cgroup", "files"),
    [
        ("0::/\n", {"memory.max": f"{64 * MIB}\n"}),
        ("0::/a.slice/b.service\n", {"a.slice/memory.max": f"{64 * MIB}\n", "a.slice/b.service/memory.max": "max\n"}),
        ("0::/a.service\n", {"a.service/memory.high": f"{64 * MIB}\n", "a.service/memory.max": f"{128 * MIB}\n"}),
        (HYBRID, {"memory/docker/abc/memory.limit_in_bytes": f"{64 * MIB}\n"}),
        (HYBRID, {"memory/memory.limit_in_bytes": f"{64 * MIB}\n"}),
    ],
    ids=["container", "slice", "high", "version-1", "version-1-container"],
)
def test_smallest_limit_of_a_cgroup_counts(tmp_path: Path, cgroup: str, files: dict[str, str]) -> None:
    for name, text in {"proc/self/cgroup": cgroup, **{f"sys/fs/cgroup/{name}": files[name] for name in files}}.items():
        (file := tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    assert available_memory(tmp_path) == 64 * MIB


@pytest.mark.parametrize("cgroup", [None, "", "rubbish\n", "0::/\n", "4:memory:/\n"])
def test_memory_of_the_machine_counts_without_limits(tmp_path: Path, cgroup: str | None) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    if cgroup is not None:
        (tmp_path / "proc/self/cgroup").write_text(cgroup)
    (limits := tmp_path / "sys/fs/cgroup/memory").mkdir(parents=True)
    (limits / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    (limits.parent / "memory.max").write_text("max\n")

    assert 64 * MIB < available_memory(tmp_path) < 2**60


@pytest.mark.parametrize(
    ("available", "workers", "expected"),
    [(2048, 1, 256), (768, 1, 256), (512, 1, 128), (1024, 2, 128), (256, 1, 16), (64, 4, 16)],
)
def test_default_of_memory_max_fits_the_available_memory(available: int, workers: int, expected: int) -> None:
    assert fitting_memory_max(256 * MIB, available * MIB, workers) == expected * MIB
    assert expected * MIB >= MEMORY_MAX_LEAST
