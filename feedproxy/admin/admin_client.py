"""The client of the admin listener, for commands that talk to a running proxy.

The address comes from the flag `--admin`, the environment (FEEDPROXY_ADMIN), or the proxy's configuration file
(`--config`, FEEDPROXY_CONFIG), in this order. The default is 127.0.0.1:8081. The token comes from `--token`,
FEEDPROXY_ADMIN_TOKEN, or the configuration file.
"""

import argparse
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from msgspec.structs import replace

from feedproxy.admin.admin_authorization import admin_token
from feedproxy.clock import Seconds
from feedproxy.config.config_file import Config, load
from feedproxy.config.environment_and_set import FILE_VARIABLE, from_environment
from feedproxy.config.option_types import option_specs
from feedproxy.errors import FeedproxyError, UsageError
from feedproxy.http import uri
from feedproxy.settings import Settings, from_options, listen_address
from feedproxy.telemetry.log_format import printable_lines
from feedproxy.usm.address_or_file import parse_source

DEFAULT = Settings().admin

TIMEOUT: Seconds = 330
"""Maximum seconds to wait for an answer: five times the default of `fetch_timeout`, plus half a minute. A refresh
follows redirects, and each request can take `fetch_timeout` seconds."""

_URL = re.compile(r"https?://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?")


class AdminRefused(FeedproxyError):
    """Error for a request that the proxy could not carry out, although it was valid and permitted."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the address and the credentials of the admin listener to the parser."""
    parser.add_argument(
        "--admin",
        metavar="HOST:PORT",
        help=f"the admin listener (default: FEEDPROXY_ADMIN, or the one in --config, or {DEFAULT})",
    )
    parser.add_argument("--token", help="the admin token (default: FEEDPROXY_ADMIN_TOKEN, or the one in --config)")
    parser.add_argument("--config", metavar="FILE", help="the proxy's configuration file (default: FEEDPROXY_CONFIG)")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format (default: text)")


def read_config(file: str | None) -> Config:
    """Return the configuration of the proxy on this machine: the options and rules of a file, and the options of the
    environment. If `file` is None, FEEDPROXY_CONFIG names the file. Raises UsageError if the configuration is invalid.
    """
    specs = option_specs()
    path = file if file is not None else os.environ.get(FILE_VARIABLE, "")
    config = load(path, specs, foreign=True) if path else Config()
    return replace(config, options={**config.options, **from_environment(os.environ, specs)})


def request_settings(allow_private: bool, file: str | None = None) -> Settings:
    """Return the settings for a command's requests to other servers. Raises UsageError if the configuration is invalid.

    `allow_private` is the option of this name. The parent proxy, `upstream` and `public_url` come from the
    configuration of a proxy on this machine: `file` (read_config).
    """
    settings = from_options(read_config(file).options)
    return Settings(
        allow_private=allow_private,
        upstream_proxy=settings.upstream_proxy,
        upstream=settings.upstream,
        public_url=settings.public_url,
    )


def _address_and_token(args: argparse.Namespace) -> tuple[str, str]:
    """Return the address of the admin listener and its token. Raises UsageError if the configuration disables the admin
    listener."""
    if args.admin is not None and args.token is not None:
        return args.admin, args.token
    settings = from_options(read_config(args.config).options)
    if args.admin is None and not settings.admin:
        raise UsageError("admin: this configuration disables the admin listener")
    token = args.token if args.token is not None else admin_token(settings)
    return args.admin if args.admin is not None else settings.admin, token


def ask(
    args: argparse.Namespace,
    method: str,
    path: str,
    parameters: Mapping[str, str] | None = None,
    content: bytes | None = None,
) -> Any:
    """Send a request to the admin listener, to the path below /api/. Return the value of its JSON response.

    Raises UsageError if the listener cannot be reached, if the request is invalid, or if the token is wrong. Raises
    AdminRefused for any other error.
    """
    host_and_port, token = _address_and_token(args)
    base = _base(host_and_port)
    query = f"?{urlencode(parameters)}" if parameters else ""
    address = f"{base}/api/{path}{query}"
    request = urllib.request.Request(address, content, method=method)  # noqa: S310 -- _base returns an http URL
    if content is not None:
        request.add_header("Content-Type", "application/octet-stream")
    if token:
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    # The http_proxy of the environment may be the same proxy as the one that the command talks to.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=TIMEOUT) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        message = (
            _error_message(error) or f"the server at {host_and_port} answered {error.code}: it is no admin listener"
        )
        if error.code == 401:
            message += " (--token or FEEDPROXY_ADMIN_TOKEN)"
        if error.code in (400, 401, 403, 404, 421):
            raise UsageError(message) from error
        raise AdminRefused(message) from error
    except urllib.error.URLError as error:
        reason = getattr(error.reason, "strerror", None) or error.reason
        raise UsageError(f"no feedproxy responds at {host_and_port}: {reason}") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"the server at {host_and_port} is not a feedproxy: {error}") from error


def address_or_pattern(text: str) -> dict[str, str]:
    """Return the query parameter that names a command's feeds: `url` for an address, `pattern` for a glob. Raises
    UsageError if the text is neither."""
    if "*" in text:
        return {"pattern": text}
    address = parse_source(text)
    if address is None:
        raise UsageError(f"invalid URL {text!r}: expected http:// or https:// at its beginning")
    return {"url": address}


def print_result(args: argparse.Namespace, result: object, lines: Iterable[str]) -> None:
    """Print the result as JSON for `--format json`. For `--format text`, print the lines."""
    text = json.dumps(result, ensure_ascii=False, indent=1) if args.format == "json" else "\n".join(lines)
    if text:
        print(printable_lines(text))


def _base(admin: str) -> str:
    """Return the URL of the admin listener at `admin`, an address or a URL. If the listener listens on all addresses of
    the machine, the URL has a loopback address."""
    text = admin.strip().rstrip("/")
    if "://" in text:
        if not _URL.fullmatch(text):
            raise UsageError(f"admin: invalid address {admin}: expected HOST:PORT, such as {DEFAULT}")
        return text
    if not re.search(r":\d+$", text) and not text.isdecimal():
        text += f":{DEFAULT.rpartition(':')[2]}"
    host, port = listen_address(text, "admin")
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 -- compared, not bound
    return f"http://{uri.join_host_port(host, port)}"


def _error_message(error: urllib.error.HTTPError) -> str:
    """Return the text of the admin listener's refusal, or "" if another server has refused the request."""
    try:
        return str(json.load(error)["words"])
    except (ValueError, KeyError, TypeError, OSError):
        return ""
