"""Generator of the example configurations in conf/ from feedproxy/settings.py: `make docs`.

An example lists options in sections. Texts and defaults come from settings.py, so that each option is described in one
place. An example adds only values and advice for its purpose. tests/test_reference.py compares the files.
"""

import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, fields
from inspect import getsource
from pathlib import Path
from typing import Any

from feedproxy.settings import Settings, format_value, option_names

FOLDER = Path(__file__).resolve().parents[1] / "conf"
WIDTH = 116

OPTIONS: Mapping[str, Field[Any]] = {each.name: each for each in fields(Settings)}

INTRODUCTION = """Made by `make docs` from feedproxy/settings.py. A line that begins with `#name:` is an option at its
default. Remove the `#` to change it. Durations have units (30m, 1h30m), and a number alone is seconds. Sizes have
units (4GiB), and a number alone is bytes. `feedproxy serve --check --config FILE` checks a file, and reports a wrong
name with file and line."""


@dataclass(frozen=True, slots=True)
class Line:
    """An option in an example, with its value if that differs from the default, and advice instead of the general
    one."""

    name: str
    value: Any = None
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class Example:
    """A file of conf/: its purpose, its sections of options, and its rules at the end."""

    head: str
    sections: Mapping[str, Iterable[Line | str]]
    rules: str


def _sections_of_settings() -> dict[str, list[str]]:
    """Return the options under the headings of settings.py (`# -- heading`)."""
    source = getsource(Settings)
    parts = re.split(r"^    # -- (.+)\n", source, flags=re.MULTILINE)
    found = {}
    for heading, text in zip(parts[1::2], parts[2::2], strict=True):
        names = [name for name in re.findall(r"^    (\w+): ", text, re.MULTILINE) if name in option_names()]
        if names:
            found[heading] = names
    return found


def _yaml(value: Any) -> str:
    """Return a value as YAML on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(_yaml(each) for each in value)}]"
    text = str(value)
    plain = isinstance(value, int) or re.fullmatch(
        r"[A-Za-z/][\w./+-]*|\d+[A-Za-z]\w*|[\d.]+:\d+|\w+://[\w.:/-]+", text
    )
    if text in ("off", "on", "yes", "no", "true", "false", "null"):
        plain = None
    return text if plain else f'"{text}"'


def _comment(text: str) -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent="# ", subsequent_indent="# ", break_long_words=False, break_on_hyphens=False
    )


def _option(line: Line | str, *, explained: bool) -> str:
    line = Line(line) if isinstance(line, str) else line
    described = OPTIONS[line.name]
    default = format_value(line.name, described.default)
    advice = described.metadata["why"] if line.advice is None else line.advice
    may = " A rule can override it." if described.metadata["per_feed"] and explained else ""
    text = f"{described.metadata['text']} {advice}".strip() + may
    value = default if line.value is None else line.value
    switch = "#" if line.value is None else ""
    return f"{_comment(text)}\n# Default: {_yaml(default)}\n{switch}{line.name}: {_yaml(value)}\n"


def render(example: Example, *, explained: bool) -> str:
    """Return the file's text."""
    parts = ["\n".join(f"# {line}".rstrip() for line in example.head.splitlines()) + "\n#\n" + _comment(INTRODUCTION)]
    for title, lines in example.sections.items():
        parts.append(f"\n\n# == {title} ".ljust(112, "=") + "\n")
        parts += [_option(line, explained=explained) for line in lines]
    parts.append("\n\n# == Rules: options for some feeds ".ljust(112, "=") + "\n")
    parts.append(example.rules)
    return "\n".join(parts)


def _office() -> Example:
    own = {
        "listen": Line(
            "listen",
            "0.0.0.0:8080",
            "The default admits only this machine. With 0.0.0.0 use a firewall, or set `readers`.",
        )
    }
    only_in_rules = {"moved_to", "gone", "announce_as", "private", "cnws_subscribe"}
    sections = {
        f"{heading[0].upper()}{heading[1:]}": [
            own.get(name, name) for name in names if name not in {"upstream", *only_in_rules}
        ]
        for heading, names in _sections_of_settings().items()
    }
    texts = "\n".join(
        _comment(f"{name} (default {_yaml(OPTIONS[name].default)}): {OPTIONS[name].metadata['text']}")
        for name in OPTIONS
        if name in only_in_rules
    )
    rules = f"""{_comment(RULES)}
#
{texts}

#feeds:
#  - match: https://daily.example/*
#    feed_min_interval: 1h
#  - match: "*.politeness.example"
#    site_interval: 10s
#    hint_max: 2d
#  - match: https://wiki.example/secret/*
#    private: true
#  - match: https://old.example/feed.xml
#    moved_to: https://new.example/feed.xml
"""
    return Example(OFFICE_HEAD, sections, rules)


RULES = """A rule has a pattern, and options for the feeds with a matching address. If several rules match, the later
rule takes precedence. A pattern is an address with `*`, or a host: *.example.org is every feed on hosts below it. A
rule may contain the options above that say so, and these options, which are only for rules:"""

OFFICE_HEAD = """feedproxy for an office, a school, a family: one shared copy of every feed for many readers.

  feedproxy serve --config conf/office.yaml

Readers use one of two entrances. In the gateway they subscribe to
http://THIS-HOST:8080/https://example.com/feed.xml. For the explicit proxy they set
http_proxy=http://THIS-HOST:8080 in their environment.

This file contains every option. An office needs about ten of them: listen, public_url, contact_url, allow_networks,
allow_ports, store, store_max, admin, admin_token_file and feeds."""

PUBLISHER_HEAD = """feedproxy for a publisher: a cache in front of your own origin, with one request for all readers.

  feedproxy serve --config conf/publisher.yaml

This file contains the options for publishers. conf/office.yaml contains all options."""

FLEET_HEAD = """feedproxy on several machines that share their copies. Use the same file on each machine.

  pip install 'feedproxy[redis]'
  feedproxy serve --config conf/fleet.yaml

This file contains the options for a fleet, see docs/how-to/run-a-fleet.md. conf/office.yaml contains all options."""

LAB_HEAD = """feedproxy in the lab: in front of a replay, to test a reader or a change of feedproxy in a virtual week.

  feedproxy replay week.har --proxy --config conf/lab.yaml --step

The replay is the only origin, for every address. The store is in memory, and the clock is that of the replay. This
file contains the options for the lab. conf/office.yaml contains all options."""

PUBLISHER = Example(
    PUBLISHER_HEAD,
    {
        "Addresses": [
            Line(
                "upstream",
                "http://127.0.0.1:8000",
                "feedproxy does not check the address: it may be private, and have any port. The upstream gets"
                " its own name"
                " as Host.",
            ),
            Line(
                "listen",
                "127.0.0.1:8080",
                "The web server's proxy_pass, or the CDN's origin, has to name this address. For a web server on this"
                " machine, use loopback.",
            ),
            Line(
                "public_url",
                None,
                "Set it to your site's public address. feedproxy writes it into self links, redirects and"
                " pages. Push updates need it. Rules, refresh and purge then also accept your feeds' public addresses.",
            ),
            Line(
                "trusted_proxies",
                ["127.0.0.1", "::1"],
                "Without this option, all readers behind the web server count as one.",
            ),
        ],
        "Freshness": [
            "feed_hints",
            Line("state_freshness", True),
            Line(
                "feed_min_interval",
                "10s",
                "10 seconds protect your own origin from many readers, and an edit appears soon.",
            ),
            Line("default_lifetime", "5m"),
        ],
        "When the origin fails": [
            "on_bad_update",
            "stale_max",
            Line(
                "relocation_confirmations",
                1,
                "A redirect or 410 of your own site is intended, so one observation is enough.",
            ),
        ],
        "Editing of feeds": ["self_link", "feed_usm", "deltas"],
        "Notifications": [
            "announce",
            "ping_sinks",
            Line(
                "purge_sinks",
                None,
                "Needs state_freshness. See docs/how-to/behind-a-cdn.md. conf/varnish.vcl configures Varnish.",
            ),
            "rsscloud_hub",
            "cnws_publisher",
        ],
        "Operating": [
            Line(
                "admin",
                None,
                "Run `feedproxy refresh https://your.example/feed.xml` when you publish, so that readers get"
                " the news at"
                " once. The public address needs public_url.",
            ),
            Line("log_format", "json"),
        ],
    },
    f"""{
        _comment(
            "moved_to, gone and announce_as are only for rules (conf/office.yaml). With public_url a pattern"
            " may match the"
            " public address or that of the upstream."
        )
    }

#feeds:
#  - match: https://your.example/old.xml
#    moved_to: https://your.example/feed.xml
#  - match: https://your.example/ended.xml
#    gone: true
#    announce_as: xml
""",
)

FLEET = Example(
    FLEET_HEAD,
    {
        "What the machines share": [
            Line(
                "store",
                "redis://valkey:6379/0",
                "redis://[USER:PASSWORD@]HOST[:PORT][/DB], rediss:// for TLS, unix:///PATH. With a password,"
                " this file is a"
                " secret. Set maxmemory-policy volatile-lru in Redis. Redis needs no persistence.",
            ),
            "fleet_prefix",
        ],
        "What each machine has alone": [
            Line("fleet_local", "/var/cache/feedproxy"),
            "memory_max",
            "store_max",
            "workers",
        ],
        "Addresses": [
            Line("listen", "0.0.0.0:8080", "The load balancer connects to this port."),
            Line(
                "public_url",
                "http://localhost:8080/",
                "Here this is the address of the load balancer, the same on all machines.",
            ),
            Line("trusted_proxies", ["172.16.0.0/12"], "Here this is the address or network of the load balancer."),
            Line(
                "admin",
                None,
                "The load balancer can read `/readyz` without a token. Everything else needs the token."
                " Loopback is enough"
                " if the load balancer only checks the port for clients.",
            ),
            "admin_token_file",
        ],
    },
    """# The same rules on all machines.

#feeds:
#  - match: https://daily.example/*
#    feed_min_interval: 1h
""",
)

LAB = Example(
    LAB_HEAD,
    {
        "What a week should show": [
            Line(
                "polling",
                "off",
                "With a clock that jumps, a scheduled refresh would come at the end of each jump. With `off`,"
                " only requests"
                " cause fetches.",
            ),
            "feed_min_interval",
            Line(
                "site_interval",
                "0",
                "A recording can have many feeds of one site. While the clock stands still, all feeds but the"
                " first would"
                " wait.",
            ),
            Line("feed_hints", None, "Play a week with each value, and compare the requests to origins."),
            Line("on_bad_update", None, "With `pass`, readers get every fault, so that you can test the readers."),
        ],
        "Recording and log": [
            "record",
            Line("record_keep", ["addresses"], "In a lab, addresses show which reader sent a request."),
            "log_format",
        ],
    },
    """# A rule changes options for one feed, and leaves the others unchanged.

#feeds:
#  - match: http://example.com/feed.xml
#    feed_hints: "off"
#    on_bad_update: pass
""",
)


def pages() -> dict[str, str]:
    """Return the text of every generated file of conf/."""
    examples = {"office.yaml": _office(), "publisher.yaml": PUBLISHER, "fleet.yaml": FLEET, "lab.yaml": LAB}
    return {name: render(example, explained=name == "office.yaml") for name, example in examples.items()}


def main() -> None:
    """Write the files that differ."""
    for name, text in pages().items():
        path = FOLDER / name
        if path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"conf/{name}")


if __name__ == "__main__":
    main()
