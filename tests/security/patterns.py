"""Every regular expression of the product that is compiled at the top of a module."""

import importlib
import pkgutil
import re

import feedproxy

NOT_IMPORTED = ("feedproxy.demo", "feedproxy.lab", "feedproxy.desktop", "feedproxy.commands", "feedproxy.addons")
"""What no stranger's text comes to."""


def patterns() -> dict[str, "re.Pattern[str] | re.Pattern[bytes]"]:
    """By module and name."""
    found: dict[str, re.Pattern[str] | re.Pattern[bytes]] = {}
    for module in pkgutil.walk_packages(feedproxy.__path__, "feedproxy."):
        if module.name.startswith(NOT_IMPORTED) or module.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, re.Pattern):
                found.setdefault(f"{module.name}.{name}", value)
    return found
