"""The log of the operator's actions: one line for each, with its parameters, the client and the outcome."""

import contextlib
import logging

from aiohttp import web

from feedproxy.telemetry.page_redaction import redact_text

logger = logging.getLogger("feedproxy.operator")

LOGGED_PARAMETERS = ("action", "deed", "id", "url", "pattern", "feed", "name", "seconds", "replace", "intercept")
"""Names of the parameters that the log line of an action contains."""


async def log_action(request: web.Request, status: int, reason: str) -> None:
    """Log an action at INFO, without secrets. `reason` is its outcome in words."""
    parameters = dict(request.query)
    if request.content_type == "application/x-www-form-urlencoded":
        with contextlib.suppress(Exception):  # an unreadable form was refused
            parameters.update((name, value) for name, value in (await request.post()).items() if isinstance(value, str))
    parameters = {name: redact_text(parameters[name]) for name in LOGGED_PARAMETERS if parameters.get(name)}
    action, client = request.path.removeprefix("/api").strip("/"), request.remote or ""
    fields = {"event": "operator", "action": action, **parameters, "client": client, "status": status, "reason": reason}
    parameter_text = "".join(f" {name}={value}" for name, value in parameters.items())
    logger.info(
        "%s", f"operator {client} {action}{parameter_text} {status} {reason}".rstrip(), extra={"fields": fields}
    )
