"""The checks of `serve` before it accepts clients."""

import asyncio
import datetime
import errno
import gc
import io
import json
import logging
import os
import queue
import resource
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from mitmproxy import certs, exceptions, hooks, master
from mitmproxy.addonmanager import Loader
from mitmproxy.certs import Cert, CertStore
from mitmproxy.options import Options

from feedproxy import cli, option_files
from feedproxy.admin.admin_authorization import admin_token
from feedproxy.app import App
from feedproxy.clock import ManualClock
from feedproxy.commands import serve as serve_command
from feedproxy.errors import UsageError
from feedproxy.fleet.synchronization import FleetSynchronization
from feedproxy.process import mitmproxy_master, option_sources, proxy_process, reload, startup_checks
from feedproxy.process.open_file_limit import raise_open_file_limit
from feedproxy.process.option_sources import ServePlan
from feedproxy.server.mitm.flow_handler import get_flow_handler
from feedproxy.settings import Settings, declare, per_feed_names, restart_names
from feedproxy.telemetry import log_setup
from tests.fleet.machines import until
from tests.waiting import PATIENCE


async def test_unusable_folder_of_the_ca_is_reported_at_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    options = {"confdir": str(tmp_path / "file" / "ca"), "store": "memory:", "admin": ""}

    with pytest.raises(UsageError, match=r"^confdir \(for the CA\): .* cannot be used: Not a directory$"):
        await proxy_process.serve(ServePlan(options=options), print)


@pytest.mark.parametrize("option", sorted(startup_checks.PATH_OPTIONS))
async def test_path_in_the_home_of_an_unknown_user_is_reported_in_one_line(tmp_path: Path, option: str) -> None:
    path: Any = "~no-such-user/x" if option != "certs" else ["*=~no-such-user/x"]
    options = {"confdir": str(tmp_path), "store": "memory:", "admin": "", option: path}

    with pytest.raises(UsageError, match=rf"^{option}: ~no-such-user/x: ~no-such-user has no home folder$"):
        await proxy_process.serve(ServePlan(options=options), print)


FILES = ("admin_token_file", "tls_certificate", "tls_key", "users_file", "wsse_file", "tokens_file", "wallet")


@pytest.mark.parametrize("option", [*FILES, "ssl_verify_upstream_trusted_ca", "confdir", "certs"])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "huge"])
async def test_file_that_is_no_regular_file_or_huge_does_not_block_the_start(
    tmp_path: Path, option: str, kind: str
) -> None:
    path = tmp_path / "mitmproxy-ca.pem"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        path.touch()
        os.truncate(path, option_files.FILE_BYTES_MAX + 1)
    options: dict[str, Any] = {"confdir": str(tmp_path / "ca"), "store": "memory:", "listen": "127.0.0.1:0"}
    if option == "tls_key":
        options["tls_certificate"] = __file__
    options[option] = [f"*={path}"] if option == "certs" else str(tmp_path if option == "confdir" else path)

    said = "larger than " if kind == "huge" else f"it is a {kind}: expected a file"
    with pytest.raises(UsageError, match=rf"^{option}\b.*: {path}: {said}"):
        await proxy_process.check(ServePlan(options=options))


@pytest.mark.parametrize("option", ["confdir", "store"])
async def test_folder_of_another_account_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    """A container with another user than the owner of its volumes, for instance."""
    (folder := tmp_path / "folder").mkdir()
    before = os.stat

    def stat(path: Any, **more: Any) -> os.stat_result:
        if str(path).startswith(f"{folder}/"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return before(path, **more)

    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.setattr(os.path, "exists", lambda path: not str(path).startswith(f"{folder}/") and Path(path).exists())
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).startswith(str(folder)))
    value = str(folder if option == "confdir" else folder / "store")
    options = {"confdir": str(tmp_path / "ca"), "store": "memory:", "admin": "", option: value}

    with pytest.raises(UsageError, match=rf"^{option}.* (cannot be written|cannot write) ?to"):
        await proxy_process.check(ServePlan(options=options))


@pytest.mark.parametrize("content", ["", "not a certificate"])
async def test_damaged_certificate_authority_is_reported_at_start(tmp_path: Path, content: str) -> None:
    (tmp_path / "mitmproxy-ca.pem").write_text(content)
    (tmp_path / "mitmproxy-dhparam.pem").write_text(content)
    options = {"confdir": str(tmp_path), "store": "memory:", "admin": ""}

    with pytest.raises(UsageError, match=r"^confdir \(for the CA\): .*/mitmproxy-ca.pem is damaged: expected "):
        await proxy_process.check(ServePlan(options=options))


@pytest.mark.parametrize("passphrase", ["", "wrong"])
async def test_encrypted_certificate_authority_without_its_passphrase_is_not_called_damaged(
    tmp_path: Path, passphrase: str
) -> None:
    CertStore.create_store(tmp_path, "mitmproxy", 2048)
    key = certs.load_pem_private_key((tmp_path / "mitmproxy-ca.pem").read_bytes(), None)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL)
    encrypted = key.private_bytes(*form, serialization.BestAvailableEncryption(b"right"))
    certificate = (tmp_path / "mitmproxy-ca-cert.pem").read_bytes()
    (tmp_path / "mitmproxy-ca.pem").write_bytes(encrypted + certificate)
    options = {"confdir": str(tmp_path), "store": "memory:", "admin": ""}

    with pytest.raises(UsageError, match=r"mitmproxy-ca.pem is encrypted: expected its passphrase in cert_passphrase$"):
        await proxy_process.check(ServePlan(options={**options, "cert_passphrase": passphrase}))
    assert await proxy_process.check(ServePlan(options={**options, "cert_passphrase": "right"}))


async def test_certificate_authority_made_before_the_clock_is_set_is_valid_for_longer_than_ten_years(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certs, "CA_EXPIRY", certs.CA_EXPIRY)
    plan = ServePlan(options={"confdir": str(tmp_path), "store": "memory:", "admin": ""})

    mitmproxy_master.build_master(plan, App(clock=ManualClock(60.0)))

    validity = Cert.from_pem((tmp_path / "mitmproxy-ca-cert.pem").read_bytes())
    assert validity.notafter - validity.notbefore > datetime.timedelta(days=70 * 365)


def test_certificate_authority_that_clients_refuse_is_reported(tmp_path: Path) -> None:
    CertStore.create_store(tmp_path, "mitmproxy", 2048)
    made = Cert.from_pem((tmp_path / "mitmproxy-ca-cert.pem").read_bytes()).notbefore.timestamp()

    for day, reason in (
        (-5, "is not valid before"),
        (1, ""),
        (3_630, ""),
        (3_640, "expires on"),
        (3_651, "has expired on"),
    ):
        warnings = startup_checks.certificate_warnings(
            Settings(intercept=("a.example",)), str(tmp_path), made + 86_400 * day
        )
        assert len(warnings) == bool(reason), day
        assert all(reason in warning for warning in warnings), warnings
        assert all("remove the files mitmproxy-ca*" in warning for warning in warnings if "expire" in reason), warnings
        assert startup_checks.certificate_warnings(Settings(), str(tmp_path), made + 86_400 * day) == []


@pytest.mark.parametrize(("workers", "is_reported"), [(1, False), (4, False), (5, True)])
def test_more_workers_than_processors_are_reported(
    monkeypatch: pytest.MonkeyPatch, workers: int, is_reported: bool
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})

    warnings = startup_checks.warnings_about(Settings(workers=workers))

    assert any("number of processors is 4" in warning for warning in warnings) == is_reported


def test_processors_are_counted_on_systems_without_an_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 4)

    for workers, is_reported in ((1, False), (4, False), (5, True)):
        warnings = startup_checks.warnings_about(Settings(workers=workers))
        assert any("number of processors is 4" in warning for warning in warnings) == is_reported, workers


async def test_read_only_folder_of_the_ca_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    options = {"confdir": str(tmp_path / "ca"), "store": "memory:", "admin": ""}

    with pytest.raises(UsageError, match=r"^confdir \(for the CA\): .*/ca cannot be written to$"):
        await proxy_process.serve(ServePlan(options=options), print)

    assert list((tmp_path / "ca").iterdir()) == []  # mitmproxy would log a traceback
    assert caplog.text == ""


async def test_template_process_starts_before_the_store_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(app: App) -> None:
        assert app.helper_pool.template is not None
        raise UsageError("loaded")

    app = App()
    monkeypatch.setattr(App, "parts", property(load))
    try:
        with pytest.raises(UsageError, match=r"^loaded$"):
            await proxy_process.serve(
                ServePlan(options={"confdir": str(tmp_path), "store": "memory:", "admin": ""}), print, app
            )
    finally:
        await app.helper_pool.close()


def test_sigterm_in_a_callback_of_the_garbage_collection_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []

    async def starting(_: ServePlan, announce: Callable[[str], None]) -> int:
        collected = asyncio.Event()
        reference = weakref.ref(collected, lambda _: os.kill(os.getpid(), signal.SIGTERM))
        del collected
        assert reference() is None
        return 1

    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(proxy_process, "serve", starting)
    monkeypatch.setattr(log_setup, "log_to", lambda: None)
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as in the first process of a container
    try:
        serve_command.run(cli.make_parser("serve").parse_args(["serve"]))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert codes == [0]


async def test_sigterm_while_the_start_waits_for_redis_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(_: FleetSynchronization) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await until(lambda: app.draining)
        await asyncio.sleep(0)

    app = App()
    monkeypatch.setattr(FleetSynchronization, "start", start)
    options = {"confdir": str(tmp_path), "store": f"unix://{tmp_path}/none", "fleet_local": "memory:", "admin": ""}

    async with asyncio.timeout(PATIENCE):
        assert await proxy_process.serve(ServePlan(options={**options, "listen": "127.0.0.1:0"}), print, app) == 0


def test_files_are_not_writable_by_other_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def serving(_: ServePlan, announce: Callable[[str], None]) -> int:
        return 0

    monkeypatch.setattr(proxy_process, "serve", serving)
    monkeypatch.setattr(log_setup, "log_to", lambda: None)
    before = os.umask(0o005)
    try:
        assert serve_command.run(cli.make_parser("serve").parse_args(["serve"])) == 0
        assert os.umask(before) == 0o027
    finally:
        os.umask(before)


def test_closed_standard_streams_become_the_null_device() -> None:
    check = "import os, sys; from feedproxy import cli; cli.open_standard_streams();"
    check += "sys.stdin.read(); sys.stdout.flush(); sys.stderr.write(chr(0xDCFF)); sys.stderr.flush();"
    check += "os._exit(sum(os.fstat(number).st_rdev != os.stat(os.devnull).st_rdev for number in range(3)))"

    done = subprocess.run(["sh", "-c", f"exec '{sys.executable}' -c '{check}' <&- >&- 2>&-"], check=False)

    assert done.returncode == 0


def test_full_disk_at_standard_output_does_not_disturb_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    async def serving(_: ServePlan, announce: Callable[[str], None]) -> int:
        announce("http://127.0.0.1:8080")
        return 0

    monkeypatch.setattr(proxy_process, "serve", serving)
    monkeypatch.setattr(log_setup, "log_to", lambda: None)
    monkeypatch.setattr(sys, "stdout", FullDisk())
    code = serve_command.run(cli.make_parser("serve").parse_args(["serve"]))

    assert code == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1024, 524_288), (11_024, 524_288)),
        ((1024, 4096), (4096, 4096)),
        ((65_536, 65_536), None),
        ((1024, resource.RLIM_INFINITY), (11_024, resource.RLIM_INFINITY)),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), None),
    ],
)
def test_limit_of_open_files_is_raised_for_max_connections(
    monkeypatch: pytest.MonkeyPatch, before: tuple[int, int], after: tuple[int, int] | None
) -> None:
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: before)
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: raised.append(limits))

    raise_open_file_limit(Settings(max_connections=10_000))

    assert raised == ([after] if after else [])
    assert any("ulimit -Hn" in warning for warning in startup_checks.warnings_about(Settings())) == (before[1] == 4096)


def test_limit_of_too_few_open_files_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 64))

    with pytest.raises(UsageError, match=r"only 64 files \(ulimit -Hn\): expected at least 256$"):
        raise_open_file_limit(Settings())


async def test_default_of_memory_max_fits_a_container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in (option_sources, startup_checks):
        monkeypatch.setattr(module, "available_memory", lambda: 512 * 2**20)

    made, app = configured(tmp_path, "workers: 1\n", confdir=str(tmp_path))
    assert app.settings.memory_max == 128 * 2**20
    assert not any("memory_max" in warning for warning in startup_checks.warnings_about(app.settings))
    await reload.reload(made, app, ServePlan(str(tmp_path / "feedproxy.yaml"), options={"store": "memory:"}))
    assert app.settings.memory_max == 128 * 2**20

    _, app = configured(tmp_path, "memory_max: 256MiB\n", confdir=str(tmp_path))
    assert app.settings.memory_max == 256 * 2**20
    (warning,) = (warning for warning in startup_checks.warnings_about(app.settings) if "memory_max" in warning)
    assert warning.endswith("256MiB with workers: 1 may take 768 MiB, but the machine or container has 512 MiB")


class FullDisk(io.StringIO):
    def flush(self) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def configured(tmp_path: Path, text: str, **given: object) -> tuple[master.Master, App]:
    (path := tmp_path / "feedproxy.yaml").write_text(text, encoding="utf-8")
    return mitmproxy_master.build_master(ServePlan(str(path), options={"admin": "", "store": "memory:", **given}))[:2]


async def test_app_and_its_flow_handler_are_freed_with_their_master(tmp_path: Path) -> None:
    made, app = configured(tmp_path, "")
    get_flow_handler(app)
    made.addons.add(AddonOfApp(app, made))
    reference = weakref.ref(app)

    del made, app
    configured(tmp_path, "")  # mitmproxy's context holds the last master
    gc.collect()

    assert reference() is None


class AddonOfApp:
    """Refers to a master, and its App to this addon, as closures of addons do."""

    def __init__(self, app: App, made: master.Master) -> None:
        self.master = made
        app.take_part = self  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("0.0.0.0:9000", ("0.0.0.0", 9000)),
        ("'[::1]:9000'", ("::1", 9000)),
        ("':9000'", ("", 9000)),
        ("'9000'", ("127.0.0.1", 9000)),
    ],
)
async def test_listen_address_can_be_set_in_the_file(tmp_path: Path, listen: str, address: tuple[str, int]) -> None:
    made, _ = configured(tmp_path, f"listen: {listen}\n")

    assert (made.options.listen_host, made.options.listen_port) == address


async def test_command_line_overrides_the_address_of_the_file(tmp_path: Path) -> None:
    made, _ = configured(tmp_path, "listen: 192.0.2.1:9000\n", listen_port=0)
    assert (made.options.listen_host, made.options.listen_port) == ("192.0.2.1", 0)

    made, _ = configured(tmp_path, "listen_port: 9000\n", listen="8000")
    assert (made.options.listen_host, made.options.listen_port) == ("127.0.0.1", 8000)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("listen: somewhere", "listen: somewhere: expected HOST:PORT, such as 127.0.0.1:8080"),
        ("codings: [gzip, lzma]", "codings: 'lzma': expected br, zstd, gzip"),
        ("endpoint_prefix: own", "endpoint_prefix: 'own' is not a path"),
        ("trusted_proxies: [balancer]", "trusted_proxies: 'balancer': expected an address"),
        ("allow_ports: [http]", "allow_ports: invalid port 'http'"),
        ("allow_networks: [here]", "allow_networks: invalid network 'here'"),
        (
            "upstream: 127.0.0.1:8000",
            "upstream: 127.0.0.1:8000: invalid URL: expected http:// or https:// at its beginning",
        ),
        ("mode: [socks5]", "mode: socks5 is not supported: expected gateway and explicit proxy"),
    ],
)
async def test_error_in_an_option_value_names_the_line_of_the_file(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        configured(tmp_path, f"feed_usm: true\n{line}\n")

    assert str(caught.value).startswith(f"{tmp_path}/feedproxy.yaml:2: {words}")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("users_file: /nowhere/users", "users_file: /nowhere/users: No such file or directory"),
        ("wallet: /nowhere/wallet.yaml", "wallet: /nowhere/wallet.yaml: No such file or directory"),
        ("store: /dev/null/store", "store: /dev/null is not a folder"),
        ("confdir: /dev/null/conf", "confdir (for the CA): /dev/null/conf cannot be used: Not a directory"),
        ("record: /dev/null/a.har", "record: /dev/null is not a folder"),
        ("record: /dev", "record: /dev is not a file that can be written"),
        ("admin: 0.0.0.0:8081", "admin: "),
        ("admin: 127.0.0.1:8080", "admin: 127.0.0.1:8080 is the address of `listen`, too"),
        ("tls_key: /nowhere.pem", "tls_key: tls_certificate is not set"),
        ("upstream: http://127.0.0.1:8080/", "upstream: http://127.0.0.1:8080/ is this proxy itself"),
        ("workers: 2", "workers: 2 workers need a shared store: store is memory:"),
    ],
)
async def test_error_found_by_the_check_names_the_line_of_the_file(tmp_path: Path, line: str, words: str) -> None:
    file = tmp_path / "feedproxy.yaml"
    others = {"confdir": tmp_path, "store": "'memory:'"}
    others.pop(line.partition(":")[0], None)
    file.write_text("\n".join([line, *(f"{name}: {value}" for name, value in others.items())]))

    with pytest.raises(UsageError) as caught:
        await proxy_process.check(ServePlan(config=str(file)))

    assert str(caught.value).startswith(f"{file}:1: {words}")


def test_recording_below_a_folder_that_cannot_be_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording, stat = tmp_path / "private" / "week.har", os.stat

    def deny(path: Any, **options: Any) -> os.stat_result:
        if os.fspath(path) == str(recording):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return stat(path, **options)

    recording.parent.mkdir()
    monkeypatch.setattr(os, "stat", deny)
    monkeypatch.setattr(os, "access", lambda *_: False)

    with pytest.raises(UsageError, match=f"^record: cannot write to {recording.parent}$"):
        startup_checks.check_folders(Settings(store="memory:", record=str(recording)))


async def test_check_names_the_option_that_keeps_workers_from_sharing_a_store(tmp_path: Path) -> None:
    file = tmp_path / "feedproxy.yaml"
    file.write_text("workers: 2\nstore: redis://127.0.0.1/\nfleet_local: 'memory:'\n")

    with pytest.raises(UsageError, match="workers: 2 workers need a shared store: fleet_local is memory:"):
        await proxy_process.check(ServePlan(config=str(file), options={"confdir": str(tmp_path)}))


async def test_upstream_at_the_port_of_another_address_is_no_error(tmp_path: Path) -> None:
    made, _ = configured(tmp_path, "listen: 192.0.2.1:80\nupstream: http://127.0.0.1:80/\n")
    assert made.options.mode[0].endswith("reverse:http://127.0.0.1:80")


@dataclass
class Updated:
    """An addon that records that it was called, and then raises the error."""

    name: str
    called: list[str]
    error: Exception | None = None

    async def update(self, flows: object) -> None:
        self.called.append(self.name)
        if self.error is not None:
            raise self.error


async def test_event_reaches_every_addon_that_handles_it_also_after_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made, _ = configured(tmp_path, "")
    assert not any(hasattr(addon, "addons") for addon in made.addons.chain), "an addon with children has no handlers"
    called: list[str] = []
    made.addons.add(Updated("first", called, ValueError("broken")), Updated("second", called))

    await made.addons.trigger_event(hooks.UpdateHook([]))

    assert called == ["first", "second"]
    assert "Addon error: broken" in caplog.text


async def test_event_reaches_no_addon_after_one_that_halts_it(tmp_path: Path) -> None:
    made, _ = configured(tmp_path, "")
    called: list[str] = []
    made.addons.add(Updated("first", called, exceptions.AddonHalt()), Updated("second", called))

    await made.addons.trigger_event(hooks.UpdateHook([]))

    assert called == ["first"]


def test_unknown_option_cannot_be_declared() -> None:
    with pytest.raises(LookupError, match=r"^no such option: another, no_option$"):
        declare(Loader(SimpleNamespace(options=Options())), "no_option", "feed_hints", "another")


async def test_error_on_the_command_line_does_not_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^codings: 'lzma': expected"):
        configured(tmp_path, "codings: [gzip]\n", codings=["lzma"])


async def test_environment_overrides_the_file_and_set_overrides_both(tmp_path: Path) -> None:
    (path := tmp_path / "feedproxy.yaml").write_text("hint_max: 1h\nskip_max: 1h\nsite_interval: 1h\n")
    environment = {"FEEDPROXY_SKIP_MAX": "2h", "FEEDPROXY_SITE_INTERVAL": "2h"}
    options = {"admin": "", "store": "memory:"}

    _, app, _ = mitmproxy_master.build_master(ServePlan(str(path), ("site_interval=3h",), options, environment))

    assert (app.settings.hint_max, app.settings.skip_max, app.settings.site_interval) == (3600, 7200, 10_800)


async def test_check_prints_the_options_in_force_and_starts_nothing(tmp_path: Path) -> None:
    (path := tmp_path / "feedproxy.yaml").write_text(
        "store_max: 1GiB\nfeeds:\n  - match: a.example\n    private: true\n"
    )

    lines = await proxy_process.check(ServePlan(str(path), options={"store": str(tmp_path / "store")}))

    assert "options: 2 not at their default: store, store_max" in lines
    assert "rules:   1" in lines
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"users_file": "/nowhere/users"}, "users_file: /nowhere/users: No such file"),
        ({"tokens_file": "/nowhere/tokens"}, "tokens_file: /nowhere/tokens: No such file"),
        ({"wallet": "/nowhere/wallet"}, "wallet: /nowhere/wallet: No such file"),
        ({"admin_token_file": "/nowhere/token"}, "admin_token_file: /nowhere/token: No such file"),
        ({"admin": ":8081"}, "admin: :8081 is open to other machines: set admin_token or admin_token_file"),
        ({"workers": -1}, "workers: -1: expected 1 or more"),
        ({"listen": "a b:80"}, "listen: a b:80: expected HOST:PORT"),
        ({"store": "redis://a.example:99999/"}, "store: 'redis://a.example:99999/': expected a folder"),
        ({"purge_fields": ["a"]}, "purge_fields: invalid purge field: expected NAME: VALUE"),
        ({"upstream": "http://a.example/#b"}, "upstream: http://a.example/#…: an origin has no query and no fragment"),
        ({"store": __file__}, f"store: {__file__} is not a folder"),
    ],
)
async def test_check_reports_an_error_with_the_options_name(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError) as found:
        await proxy_process.check(ServePlan(options={"confdir": str(tmp_path), **options}))

    assert str(found.value).startswith(words)


async def test_admin_token_is_read_from_its_file(tmp_path: Path) -> None:
    (file := tmp_path / "token").write_text("a-secret\n")

    _, app, _ = mitmproxy_master.build_master(ServePlan(options={"admin": ":8081", "admin_token_file": str(file)}))

    assert admin_token(app.settings) == "a-secret"


async def test_admin_token_in_two_places_is_refused(tmp_path: Path) -> None:
    (file := tmp_path / "token").write_text("a-secret\n")
    plan = ServePlan(options={"admin": ":8081", "admin_token_file": str(file), "admin_token": "another"})

    with pytest.raises(UsageError, match="admin_token_file: admin_token is set as well"):
        mitmproxy_master.build_master(plan)


# -- messages at the start


@pytest.mark.parametrize(
    ("text", "host", "warns"),
    [
        ("", "0.0.0.0", True),
        ("", "192.0.2.1", True),
        ("", "::", True),
        ("", "127.0.0.1", False),
        ("", "::1", False),
        ("readers: ['*']\n", "0.0.0.0", False),
        ("upstream: http://127.0.0.1:8000\n", "0.0.0.0", False),
    ],
)
async def test_proxy_open_to_every_machine_gets_a_warning(tmp_path: Path, text: str, host: str, warns: bool) -> None:
    _, app = configured(tmp_path, text)

    warnings = startup_checks.open_access_warnings(app.settings, [(host, 8080)])

    assert ["may use this proxy (readers is empty)" in warning for warning in warnings] == [True] * warns


# -- reload


async def reloaded(path: Path, made: master.Master, app: App, **given: object) -> None:
    await reload.reload(made, app, ServePlan(str(path), options={"admin": "", "store": "memory:", **given}))


async def test_reload_applies_options_and_rules_and_restores_defaults(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "feedproxy")
    made, app = configured(tmp_path, "site_interval: 7\nstale_max: 1h\n")
    target = "https://slow.example/feed"
    before = app.settings_generation
    (path := tmp_path / "feedproxy.yaml").write_text(
        "site_interval: 5\nping_sinks: [https://sink.example/RPC2]\nfeeds:\n- match: slow.example\n  private: true\n"
    )

    await reloaded(path, made, app)

    assert (app.settings.site_interval, app.settings.stale_max) == (5, 604_800)
    assert app.settings_for(target).private
    assert app.settings_generation > before
    assert "configuration loaded: 1 rules; options changed: site_interval, stale_max, ping_sinks" in caplog.text
    assert "restart" not in caplog.text


async def test_reload_ignores_options_that_are_read_only_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made, app = configured(tmp_path, "memory_max: 1MiB\n")
    (path := tmp_path / "feedproxy.yaml").write_text("memory_max: 2MiB\nstore_max: 2GiB\nsite_interval: 5\n")

    await reloaded(path, made, app)

    assert (app.settings.memory_max, app.settings.site_interval) == (1_048_576, 5)
    assert app.settings.store_max != 2 * 2**30
    assert "these options take effect after a restart: memory_max, store_max" in caplog.text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("workers: 2\n", "feedproxy.yaml:2: workers: 2 workers need a shared store: store is memory:"),
        ("tls_key: key.pem\n", "feedproxy.yaml:2: tls_key: tls_certificate is not set"),
        ("mode: [transparent]\n", "feedproxy.yaml:2: mode: transparent is not supported"),
        ("upstream: http://127.0.0.1:8080\n", "feedproxy.yaml:2: upstream: http://127.0.0.1:8080 is this proxy itself"),
        (
            "tls_certificate: cert.pem\nfast_path: false\n",
            "feedproxy.yaml:2: tls_certificate: TLS for readers needs the fast path",
        ),
    ],
)
async def test_reload_refuses_options_with_which_a_start_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, words: str
) -> None:
    made, app = configured(tmp_path, "site_interval: 7\n")
    (path := tmp_path / "feedproxy.yaml").write_text(f"site_interval: 5\n{text}")

    await reloaded(path, made, app)
    with pytest.raises(UsageError) as at_start:
        mitmproxy_master.build_master(
            ServePlan(str(path), options={"admin": "", "store": "memory:", "confdir": str(tmp_path)})
        )

    assert app.settings.site_interval == 7
    assert words in caplog.text
    assert words in str(at_start.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "site_interval: 5\nfeed_hint: off\n",
            "feedproxy.yaml:2: unknown option 'feed_hint'; did you",
        ),
        ("site_interval: 5\nping_sinks: [x]\n", "ping_sinks: "),
        (
            "site_interval: 5\nupstream: a.example\n",
            "feedproxy.yaml:2: upstream: a.example: invalid URL: expected",
        ),
        ("site_interval: 5\ntrusted_proxies: [x]\n", "trusted_proxies: 'x': expected an address"),
        ("upstream_proxy: http://127.0.0.1:8080\n", "feedproxy.yaml:1: upstream_proxy: "),
        ("site_interval: 5\nfeeds:\n- private: true\n", "feedproxy.yaml:3: this rule has no `match: PATTERN`"),
    ],
)
async def test_reload_with_an_error_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, words: str
) -> None:
    made, app = configured(tmp_path, "site_interval: 7\nfeeds:\n- match: a.example\n  private: true\n")
    settings = app.settings
    (path := tmp_path / "feedproxy.yaml").write_text(text)

    await reloaded(path, made, app)

    assert app.settings == settings
    assert app.settings_for("https://a.example/").private
    assert words in caplog.text


@pytest.mark.parametrize("text", ["", "# being written\n"])
async def test_reload_of_an_empty_file_keeps_protection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    made, app = configured(tmp_path, "feeds:\n- match: a.example\n  readers: [bob]\n")
    (path := tmp_path / "feedproxy.yaml").write_text(text)

    await reloaded(path, made, app)

    assert app.settings_for("https://a.example/").readers == ("bob",)
    assert "feedproxy.yaml: it is empty, and rules with readers or private are in force" in caplog.text


async def test_reload_of_a_pipe_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made, app = configured(tmp_path, "site_interval: 7\n")
    (path := tmp_path / "feedproxy.yaml").unlink()
    os.mkfifo(path)

    await reloaded(path, made, app)

    assert app.settings.site_interval == 7
    assert "feedproxy.yaml: it is a pipe, which can be read only at the start" in caplog.text


async def test_reload_that_removes_protection_gets_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rules = "- match: a.example\n  readers: [bob]\n", "- match: b.example\n  private: true\n"
    made, app = configured(tmp_path, f"feeds:\n{''.join(rules)}")
    (path := tmp_path / "feedproxy.yaml").write_text(f"feeds:\n{rules[0]}")

    await reloaded(path, made, app)

    assert not app.settings_for("https://b.example/").private
    assert "rules with readers or private: 1, and 2 before" in caplog.text


async def test_reload_logs_the_warnings_of_the_start_that_did_not_apply_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    CertStore.create_store(tmp_path, "mitmproxy", 2048)
    made, app = configured(tmp_path, "readers: [bob]\n", confdir=str(tmp_path))
    expired = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=3_651)).timestamp()
    monkeypatch.setattr(made.addons.get("proxyserver"), "listen_addrs", lambda: [("192.0.2.1", 8080)])
    app.clock = ManualClock(expired)
    startup_checks.log_new_warnings(made, app)
    path = tmp_path / "feedproxy.yaml"

    async def logged_by_reload(text: str) -> list[str]:
        caplog.clear()
        path.write_text(text)
        await reloaded(path, made, app, confdir=str(tmp_path))
        return [record.getMessage().partition(":")[0] for record in caplog.records if record.levelname == "WARNING"]

    assert await logged_by_reload("readers: [bob]\nintercept: [a.example]\n") == ["confdir (for the CA)"]
    assert await logged_by_reload("readers: [bob]\nintercept: [a.example]\n") == []
    assert await logged_by_reload("intercept: [a.example]\n") == ["listen"]
    assert await logged_by_reload("readers: [bob]\n") == ["readers"]


async def test_reload_keeps_options_of_the_command_line(tmp_path: Path) -> None:
    made, app = configured(tmp_path, "site_interval: 7\n", site_interval=3)
    (path := tmp_path / "feedproxy.yaml").write_text("site_interval: 5\n")

    await reloaded(path, made, app, site_interval=3)

    assert app.settings.site_interval == 3


@dataclass
class HeldReads:
    """Reads of the configuration, each of which lasts until `go_on` is called."""

    started: queue.Queue[threading.Event] = field(default_factory=queue.Queue)
    count: int = 0

    def read(self, *arguments: Any) -> option_sources.LoadedOptions:
        self.count += 1
        self.started.put(may_end := threading.Event())
        assert may_end.wait(PATIENCE)
        return READ_AGAIN(*arguments)

    async def next_started(self) -> threading.Event:
        await until(lambda: not self.started.empty())
        return self.started.get()


READ_AGAIN = reload.read_again


async def test_reload_does_not_stop_the_event_loop_and_merges_later_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HeldReads()
    monkeypatch.setattr(reload, "read_again", held.read)
    made, app = configured(tmp_path, "site_interval: 7\n")
    path = tmp_path / "feedproxy.yaml"
    reloader = reload.Reloader(made, app, ServePlan(str(path), options={"admin": "", "store": "memory:"}))

    path.write_text("site_interval: 5\n")
    reloader.request()
    first = await held.next_started()
    assert app.settings.site_interval == 7, "the loop runs while the file is read"
    for _ in range(30):
        reloader.request()
    first.set()
    second = await held.next_started()
    assert app.settings.site_interval == 5
    path.write_text("site_interval: 4\n")
    second.set()
    await until(lambda: app.settings.site_interval == 4)

    assert held.count == 2
    reloader.request()
    (await held.next_started()).set()
    await until(lambda: held.count == 3)


async def test_reload_that_the_end_of_the_proxy_interrupts_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "feedproxy")
    held = HeldReads()
    monkeypatch.setattr(reload, "read_again", held.read)
    made, app = configured(tmp_path, "site_interval: 7\n")
    (path := tmp_path / "feedproxy.yaml").write_text("site_interval: 5\n")

    reloading = asyncio.ensure_future(reloaded(path, made, app))
    reading = await held.next_started()
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "feedproxy-reload")
    app.terminating = True
    reading.set()
    await reloading

    assert app.settings.site_interval == 7
    assert "configuration loaded" not in caplog.text


def test_options_of_rules_never_need_a_restart() -> None:
    assert not set(restart_names()) & set(per_feed_names())


async def test_log_level_and_format_are_applied_by_a_reload(tmp_path: Path) -> None:
    stream, root, product = io.StringIO(), logging.getLogger(), logging.getLogger("feedproxy")
    before = list(root.handlers), root.level, product.level
    log_setup.log_to(stream)
    try:
        made, app = configured(tmp_path, "")
        (path := tmp_path / "feedproxy.yaml").write_text("log_level: warning\nlog_format: json\n")
        await reloaded(path, made, app)
        stream.truncate(0)
        stream.seek(0)
        product.info("not heard")
        product.warning("heard")
        assert json.loads(stream.getvalue())["message"] == "heard"

        path.write_text("log_level: debug\n")
        await reloaded(path, made, app)
        logging.getLogger("mitmproxy.x").info("of mitmproxy")
        assert "of mitmproxy" in stream.getvalue()
    finally:
        for each in list(root.handlers):
            if each not in before[0]:
                root.removeHandler(each)
        root.setLevel(before[1])
        product.setLevel(before[2])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("upstream_proxy: proxy.example:3128", ":1: upstream_proxy: invalid proxy address: expected http://"),
        ("upstream_proxy: http://u:s3cret@proxy.example", ":1: upstream_proxy: missing port of the proxy"),
        ("upstream_proxy: [http://u:s3cret@a:1]", ":1: upstream_proxy: expected text, not a list"),
        ("upstream_proxy: http://localhost:8080", ":1: upstream_proxy: http://localhost:8080 is this proxy itself"),
        ("upstream_proxy: http://u:s3cret@127.0.0.1:8081", ":1: upstream_proxy: http://127.0.0.1:8081 is this proxy"),
        ("upstream_proxy: environment", ":1: upstream_proxy: environment: all_proxy: invalid proxy address"),
        (
            "feeds: [{match: a.example, upstream_proxy: 'ftp://u:s3cret@a:1'}]",
            ":1: upstream_proxy: invalid proxy address",
        ),
        ("proxy: http://u:s3cret@a:1", ":1: unknown option 'proxy'; did you mean 'upstream_proxy'?"),
        ("http_proxy: http://u:s3cret@a:1", ":1: unknown option 'http_proxy'; did you mean 'upstream_proxy'?"),
    ],
)
async def test_invalid_parent_proxy_is_reported_at_start_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    monkeypatch.setenv("all_proxy", "ftp://u:s3cret@a:1")
    (path := tmp_path / "feedproxy.yaml").write_text(f"{text}\n")

    with pytest.raises(UsageError) as found:
        await proxy_process.check(ServePlan(str(path), options={"confdir": str(tmp_path), "store": "memory:"}))

    assert str(found.value).startswith(f"{path}{words}")
    assert "s3cret" not in str(found.value)


async def test_check_prints_the_parent_proxy_without_its_password(tmp_path: Path) -> None:
    options = {"confdir": str(tmp_path), "store": "memory:", "upstream_proxy": "http://u:s3cret@proxy.example:3128"}

    lines = await proxy_process.check(ServePlan(options=options))

    assert "s3cret" not in "".join(lines)
    assert "upstream_proxy: http://proxy.example:3128" in lines


@pytest.mark.parametrize("public", ["", "https://www.example.com/"])
async def test_check_warns_of_an_upstream_without_public_url(tmp_path: Path, public: str) -> None:
    options = {"upstream": "http://127.0.0.1:8000", "public_url": public, "store": "memory:"}

    lines = await proxy_process.check(ServePlan(options={"confdir": str(tmp_path), **options}))

    assert any(line.startswith("warning: public_url") for line in lines) == (not public)


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("readers: [alice]\n", True),
        ("feeds:\n  - match: example.com\n    readers: [alice]\n", True),
        ("readers: [alice]\ntokens_file: TOKENS\n", False),
        ("", False),
    ],
)
async def test_check_warns_of_readers_that_cannot_sign_in(tmp_path: Path, text: str, warned: bool) -> None:
    (tokens := tmp_path / "tokens").touch()
    (config := tmp_path / "feedproxy.yaml").write_text(f"store: 'memory:'\n{text}".replace("TOKENS", str(tokens)))

    lines = await proxy_process.check(ServePlan(options={"confdir": str(tmp_path)}, config=str(config)))

    assert any(line.startswith("warning: readers: no client can sign in") for line in lines) is warned


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, True), (0o644, True)])
async def test_check_warns_of_a_file_of_secrets_readable_by_others(tmp_path: Path, mode: int, warned: bool) -> None:
    (secrets := tmp_path / "wsse").write_text("bob:word\n")
    secrets.chmod(mode)

    options = {"confdir": str(tmp_path), "wsse_file": str(secrets), "store": "memory:"}

    lines = await proxy_process.check(ServePlan(options=options))

    assert any(line.startswith(f"warning: wsse_file: {secrets} holds secrets") for line in lines) is warned


async def test_reload_applies_another_parent_proxy_and_refuses_an_invalid_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made, app = configured(tmp_path, "upstream_proxy: http://u:s3cret@one.example.com:3128\n")
    path, target = tmp_path / "feedproxy.yaml", "https://feeds.example.com/"
    assert str(app.parent_of(target)) == "http://one.example.com:3128"

    path.write_text("upstream_proxy: socks5://two.example.com:1080\n")
    await reloaded(path, made, app)
    assert str(app.parent_of(target)) == "socks5://two.example.com:1080"

    path.write_text("upstream_proxy: ftp://u:s3cret@three.example.com:3128\n")
    await reloaded(path, made, app)
    assert str(app.parent_of(target)) == "socks5://two.example.com:1080"
    assert "upstream_proxy: invalid proxy address" in caplog.text
    assert "s3cret" not in caplog.text


def test_reason_of_a_failed_start_has_no_error_number() -> None:
    """mitmproxy gives its own error the number of the cause, and appends the text of the cause."""
    cause = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    unknown = OSError(cause.errno, f"gateway failed to listen on nowhere.test:8080 with {cause}")
    taken = OSError(
        errno.EADDRINUSE, "gateway failed to listen on 127.0.0.1:8080 with [Errno 98] Address already in use"
    )

    assert proxy_process._short_reason(unknown) == "Temporary failure in name resolution"
    assert proxy_process._short_reason(taken) == "Address already in use"
