"""The configuration in force without secrets: options that differ from their defaults, and rules."""

import re
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from aiohttp import web

from feedproxy.admin.html_or_json import as_json, wants_json
from feedproxy.admin.pages.feed_pages import FeedPages
from feedproxy.app import App
from feedproxy.feed_rules import Rule
from feedproxy.settings import Settings, format_value, secret_names
from feedproxy.telemetry.page_redaction import View, redact_text

HIDDEN = "(set)"
_PASSWORD_PARAMETER = re.compile(r"([?&](?:ssl_)?password=)[^&\s]*")
"""Pattern of a password in the query of a Redis address."""


async def show_configuration(request: web.Request, app: App, pages: FeedPages) -> web.Response:
    """Return the page, or its values as JSON."""
    view = {"options": changed_options(app.settings), "rules": rule_views(app.rules.rules)}
    if wants_json(request):
        return as_json(view)
    return pages.page(request, "configuration.html", **view)


def changed_options(settings: Settings) -> list[View]:
    """Return the options that differ from their defaults, in the order of the reference."""
    changed = []
    for field in fields(Settings):
        value = getattr(settings, field.name)
        if value != field.default:
            changed.append(
                {
                    "name": field.name,
                    "value": _display_value(field.name, value),
                    "default": _display_value(field.name, field.default) if not field.metadata["secret"] else "",
                    "restart": field.metadata["restart"],
                    "text": field.metadata["text"],
                }
            )
    return changed


def rule_views(rules: Iterable[Rule]) -> list[View]:
    """Return the views of the rules, in the order of the configuration."""
    return [
        {
            "match": redact_text(rule.match.text),
            "options": {name: _display_value(name, value) for name, value in rule.overrides.items()},
        }
        for rule in rules
    ]


def _display_value(name: str, value: Any) -> str:
    """Return a value in the form of the configuration file, without secrets."""
    if name in secret_names():
        return HIDDEN
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_without_userinfo(str(item)) for item in value) + "]"
    return _without_userinfo(str(format_value(name, value)))


def _without_userinfo(text: str) -> str:
    scheme, separator, remainder = text.partition("://")
    if separator and "@" in remainder:
        text = f"{scheme}://…@{remainder.rpartition('@')[2]}"
    return redact_text(_PASSWORD_PARAMETER.sub(r"\1…", text))
