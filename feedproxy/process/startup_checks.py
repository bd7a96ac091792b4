"""Checks of a configuration at the start and at a reload, beyond the checks of single values."""

import contextlib
import ipaddress
import logging
import os
import resource
import socket
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mitmproxy import master
from mitmproxy.certs import Cert, CertStore
from mitmproxy.options import CONF_BASENAME

from feedproxy import option_files
from feedproxy.app import App
from feedproxy.clock import Instant, Seconds, is_unset
from feedproxy.durations_and_sizes import format_quantity
from feedproxy.errors import UsageError
from feedproxy.feed_rules import Rule
from feedproxy.http import uri
from feedproxy.memory_max_shares import BESIDE_CACHES, fitting_memory_max
from feedproxy.server.fastpath.client_tls_connection import ReloadingCertificate
from feedproxy.settings import Settings, listen_address
from feedproxy.store.store_location import MEMORY, store_folder
from feedproxy.upstream import parent_proxy
from feedproxy.upstream.parent_proxy import OPTION
from feedproxy.workers.available_memory import available_memory

logger = logging.getLogger("feedproxy")

PATH_OPTIONS = frozenset(
    {
        "admin_token_file",
        "certs",
        "client_certs",
        "confdir",
        "fleet_local",
        "record",
        "ssl_verify_upstream_trusted_ca",
        "ssl_verify_upstream_trusted_confdir",
        "store",
        "tls_certificate",
        "tls_key",
        "tokens_file",
        "users_file",
        "wallet",
        "wsse_file",
    }
)
"""Options of feedproxy and mitmproxy that name files or folders."""

EXPIRES_SOON: Seconds = 14 * 86_400
"""A warning reports a certificate that expires in less than this many seconds. Programs that renew certificates usually
do so 30 days before the certificates expire."""

TLS_NEEDS_FAST_PATH = "TLS for readers needs the fast path (fast_path: true, without record)"

READABLE_BY_OTHERS = 0o044
"""Bits of a file's mode that permit other users to read the file."""


def all_warnings(proxy_master: master.Master, app: App) -> list[str]:
    """Return all warnings about the configuration in force, and about the addresses at which the proxy listens."""
    settings, server = app.settings, proxy_master.addons.get("proxyserver")
    return [
        *warnings_about(settings, app.configured_rules.rules),
        *certificate_warnings(settings, proxy_master.options.confdir, app.clock.now()),
        *open_access_warnings(settings, server.listen_addrs()),
    ]


def log_new_warnings(proxy_master: master.Master, app: App, *, only_record: bool = False) -> None:
    """Log the warnings that did not apply at the last call. If `only_record` is True, log nothing, but remember the
    warnings for the next call."""
    warnings = all_warnings(proxy_master, app)
    for warning in warnings:
        if warning not in app.warnings and not only_record:
            logger.warning("%s", warning)
    app.warnings = frozenset(warnings)


def warnings_about(settings: Settings, rules: Iterable[Rule] = ()) -> list[str]:
    """Return warnings about settings and rules that are valid but probably not intended."""
    warnings = []
    has_readers = settings.readers or any(rule.overrides.get("readers") for rule in rules)
    if has_readers and not (settings.users_file or settings.wsse_file or settings.tokens_file):
        warnings.append("readers: no client can sign in without users_file, wsse_file or tokens_file")
    if settings.upstream and not settings.public_url:
        warnings.append(
            "public_url is not set: feeds, redirects and notifications cannot name the address that readers use"
        )
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY and files < settings.max_connections:
        warnings.append(
            f"max_connections: {settings.max_connections}, but this process may open only {files} files (ulimit -Hn)"
        )
    if settings.workers > 1 and settings.workers > (processors := usable_processors()):
        warnings.append(
            f"workers: {settings.workers}, but the number of processors is {processors}: more workers only take memory"
        )
    available = available_memory()
    if settings.memory_max > fitting_memory_max(settings.memory_max, available, settings.workers):
        needed = (2 * settings.memory_max + BESIDE_CACHES) * settings.workers
        warnings.append(
            f"memory_max: {format_quantity(settings.memory_max, 'B')} with workers: {settings.workers} may take"
            f" {needed // 2**20} MiB, but the machine or container has {available // 2**20} MiB"
        )
    for name in ("wsse_file", "wallet", "admin_token_file"):
        path = option_files.expand(getattr(settings, name)) if getattr(settings, name) else None
        with contextlib.suppress(OSError):
            if path is not None and (mode := path.stat().st_mode) & READABLE_BY_OTHERS:
                warnings.append(
                    f"{name}: {path} holds secrets and other users can read it: mode {mode & 0o777:04o}, not 0600"
                )
    return warnings


def usable_processors() -> int:
    """Return the number of processors that this process may use. On macOS and Windows, this is the number of all
    processors."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_CA = "confdir (for the CA)"
_CA_ADVICE = f": remove the files {CONF_BASENAME}-ca* there, restart feedproxy, and let clients trust the new CA"


def certificate_warnings(settings: Settings, confdir: str, now: Instant) -> list[str]:
    """Return warnings about certificates for clients that are not valid now, or that expire soon."""
    files = {}
    if settings.tls_certificate:
        files["tls_certificate"] = option_files.expand(settings.tls_certificate)
    if settings.intercept:
        files[_CA] = option_files.expand(confdir) / f"{CONF_BASENAME}-ca.pem"
    warnings = []
    for name, path in files.items():
        with contextlib.suppress(OSError, ValueError):  # other checks report the file
            certificate = Cert.from_pem(option_files.read(path))
            begin, end = certificate.notbefore, certificate.notafter
            advice = _CA_ADVICE if name == _CA else ""
            if now >= end.timestamp():
                warnings.append(f"{name}: {path} has expired on {end:%Y-%m-%d}, and clients refuse it{advice}")
            elif end.timestamp() - now < EXPIRES_SOON:
                warnings.append(f"{name}: {path} expires on {end:%Y-%m-%d}{advice}")
            elif now < begin.timestamp() and not is_unset(now):
                warnings.append(f"{name}: {path} is not valid before {begin:%Y-%m-%d}, and clients refuse it")
    return warnings


def open_access_warnings(settings: Settings, addresses: Iterable[tuple[Any, ...]]) -> list[str]:
    """Return a list with one warning if other machines may use the proxy at one of `addresses` without restriction.
    Otherwise return an empty list."""
    if settings.upstream or settings.readers:
        return []
    for host, port, *_ in addresses:
        if ipaddress.ip_address(host.partition("%")[0]).is_loopback:
            continue
        name = socket.gethostname() if uri.is_every_address(host) else host
        place = uri.join_host_port(name, port)
        return [f"listen: every machine that reaches {place} may use this proxy (readers is empty)"]
    return []


def check_folders(settings: Settings) -> None:
    """Raise UsageError if the folder of the store or of the recording, or an existing recording, is not writable. If a
    folder is missing, its nearest existing parent must be writable."""
    folders = {"store": None if settings.is_fleet or settings.store == MEMORY else store_folder(settings.store)}
    if settings.record:
        recording = option_files.expand(settings.record).absolute()
        if os.path.exists(recording) and not (recording.is_file() and os.access(recording, os.W_OK)):
            raise UsageError(f"record: {recording} is not a file that can be written")
        folders["record"] = recording.parent
    for name, folder in folders.items():
        if folder is None:
            continue
        nearest = next(path for path in (folder, *folder.parents) if os.path.exists(path))
        if not nearest.is_dir():
            raise UsageError(f"{name}: {nearest} is not a folder")
        if not os.access(nearest, os.W_OK | os.X_OK):
            raise UsageError(f"{name}: cannot write to {nearest}")


def check_mode(values: Mapping[str, Any]) -> None:
    for mode in values.get("mode", ()):
        if mode.partition("@")[0] != "regular":
            # Any other mode would bypass the entrances and their checks.
            expected = "gateway and explicit proxy (regular), or reverse by the option upstream"
            raise UsageError(f"mode: {mode} is not supported: expected {expected}")


def check_app(app: App) -> None:
    """Check combinations of options, the addresses of other proxies, and the files of certificates. Raises UsageError
    for a value that would cause failures later."""
    settings = app.settings
    check_combinations(settings, app.rules.rules)
    if settings.tls_certificate:
        ReloadingCertificate(settings.tls_certificate, settings.tls_key)
    try:
        if app.trusted_ca:
            option_files.read(Path(app.trusted_ca))
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=app.trusted_ca)
    except OSError as error:
        raise UsageError(f"ssl_verify_upstream_trusted_ca: {app.trusted_ca}: {error.strerror or error}") from error


def check_combinations(settings: Settings, rules: Iterable[Rule]) -> None:
    """Raise UsageError if options exclude each other, or name this proxy itself as another server. No file is read."""
    if settings.tls_key and not settings.tls_certificate:
        raise UsageError("tls_key: tls_certificate is not set, and without it clients are served without TLS")
    if settings.tls_certificate and (settings.record or not settings.fast_path):
        raise UsageError(f"tls_certificate: {TLS_NEEDS_FAST_PATH}")
    if settings.workers > 1 and settings.local_store == MEMORY:
        name = "fleet_local" if settings.is_fleet else "store"
        raise UsageError(f"workers: {settings.workers} workers need a shared store: {name} is {MEMORY}")
    if settings.admin:
        admin, listen = listen_address(settings.admin, "admin"), listen_address(settings.listen, "listen")
        if admin == listen and admin[1]:
            raise UsageError(f"admin: {settings.admin} is the address of `listen`, too: expected another port")
    if settings.upstream and is_own_address(settings, *uri.split_host_port(uri.normalise(settings.upstream))):
        raise UsageError(f"upstream: {settings.upstream} is this proxy itself")
    for value in sorted({settings.upstream_proxy, *(rule.overrides.get(OPTION, "") for rule in rules)}):
        parent = parent_proxy.parse(value) if value != parent_proxy.ENVIRONMENT else None
        if parent is not None and is_own_address(settings, parent.host, parent.port):
            raise UsageError(f"{OPTION}: {parent} is this proxy itself")


def is_own_address(settings: Settings, host: str, port: int) -> bool:
    """Return True for a loopback address at which this proxy listens."""
    addresses = [listen_address(settings.listen, "listen")]
    if settings.admin:
        addresses.append(listen_address(settings.admin, "admin"))
    return uri.is_this_machine(host) and any(
        port == own_port and (uri.is_every_address(own_host) or uri.is_this_machine(own_host))
        for own_host, own_port in addresses
    )


def check_paths(values: Mapping[str, Any]) -> None:
    """Check the paths in the options `values`.

    Raises UsageError for a path that begins with `~` and an unknown user, and for a path in `certs` that is not a
    readable regular file, or is too large.
    """
    for name in PATH_OPTIONS & values.keys():
        for value in values[name] if isinstance(values[name], list) else (values[name],):
            try:
                # An entry of `certs` may begin with the name of a host: DOMAIN=PATH.
                path = option_files.expand(value.rpartition("=")[2] if name == "certs" else value or "")
                if name == "certs":
                    option_files.read(path)
            except UsageError as error:
                raise UsageError(f"{name}: {error}") from error
            except OSError as error:
                raise UsageError(f"{name}: {path}: {error.strerror or error}") from error


def check_confdir(confdir: str, passphrase: str) -> None:
    """Raise UsageError unless mitmproxy can use the certificate authority in `confdir`, or write a new one there. A
    missing folder is created. `passphrase` decrypts the key of the authority."""
    folder = option_files.expand(confdir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"confdir (for the CA): {folder} cannot be used: {error.strerror or error}") from error
    authority, parameters = (folder / f"{CONF_BASENAME}-{name}.pem" for name in ("ca", "dhparam"))
    if not os.path.exists(authority):  # Path.exists would raise PermissionError for a folder of another account
        if not os.access(folder, os.W_OK):
            raise UsageError(f"confdir (for the CA): {folder} cannot be written to")
        return
    try:
        for file in (authority, parameters):
            if file.exists():
                option_files.read(file)
        # mitmproxy logs an error as a traceback, and continues without an authority.
        CertStore.from_files(authority, parameters, passphrase.encode() or None)
    except OSError as error:
        raise UsageError(f"confdir (for the CA): {file}: {error.strerror or error}") from error
    except (ValueError, TypeError, IndexError) as error:
        reason = "is damaged: expected a private key and a certificate (without the file, feedproxy makes a new CA)"
        if b"ENCRYPTED" in option_files.read(authority):
            reason = "is encrypted: expected its passphrase in cert_passphrase"
        raise UsageError(f"confdir (for the CA): {authority} {reason}") from error
