"""The other end of the admin listener: what the command line asks it, with nothing but the standard library."""

import argparse
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from feedproxy.clock import Seconds
from feedproxy.errors import FeedproxyError, UsageError

DEFAULT = "127.0.0.1:8081"
TOKEN = "FEEDPROXY_ADMIN_TOKEN"  # noqa: S105 -- the variable's name

TIMEOUT: Seconds = 330
"""A refresh follows up to five redirects, and each may take as long as a fetch may (fetch_timeout)."""

_HOST_PORT = re.compile(r"(?:https?://)?(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?")


class Refused(FeedproxyError):
    """The proxy answered, and did not do what was asked."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Where the proxy is, and how to be let in."""
    parser.add_argument("--admin", metavar="HOST:PORT", default=DEFAULT, help=f"the admin listener ({DEFAULT})")
    parser.add_argument("--token", help=f"its token; else the environment's {TOKEN}")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how to print the answer")


def ask(
    args: argparse.Namespace,
    method: str,
    path: str,
    parameters: Mapping[str, str] | None = None,
    content: bytes | None = None,
) -> Any:
    """The JSON that the listener answers to this; `content` is sent as it is.

    Raises UsageError where it cannot be spoken to, and Refused.
    """
    base = _base(args.admin)
    query = f"?{urlencode(parameters)}" if parameters else ""
    address = f"{base}/api/{path}{query}"
    request = urllib.request.Request(address, content, method=method)  # noqa: S310 -- http by _base
    if content is not None:
        request.add_header("Content-Type", "application/octet-stream")
    token = args.token if args.token is not None else os.environ.get(TOKEN, "")
    if token:
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    # The environment's http_proxy may well be the very proxy that is meant.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=TIMEOUT) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        words = _words(error)
        if error.code in (400, 401, 403, 404, 421):
            raise UsageError(words) from error
        raise Refused(words) from error
    except urllib.error.URLError as error:
        reason = getattr(error.reason, "strerror", None) or error.reason
        raise UsageError(f"no feedproxy answers at {args.admin}: {reason}") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"what answers at {args.admin} is no feedproxy: {error}") from error


def _base(admin: str) -> str:
    text = admin.strip().rstrip("/")
    text = f"127.0.0.1:{text}" if text.isdecimal() else text
    if not _HOST_PORT.fullmatch(text):
        raise UsageError(f"--admin {admin}: expected HOST:PORT, such as {DEFAULT}")
    return text if "://" in text else f"http://{text}"


def _words(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["words"])
    except (ValueError, KeyError, TypeError, OSError):
        return f"the admin listener answered {error.code}"
