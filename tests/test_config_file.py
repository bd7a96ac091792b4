"""The configuration file: its options, and its error messages."""

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import pytest

from feedproxy import option_files
from feedproxy.config import config_file
from feedproxy.config.config_file import Config, load
from feedproxy.config.environment_and_set import from_environment, parse_sets, unknown_variables
from feedproxy.config.option_suggestions import SYNONYMS
from feedproxy.config.option_types import OptionSpec, option_specs, spec_of
from feedproxy.errors import UsageError
from feedproxy.settings import Settings, deprecated_names, from_options, option_names, per_feed_names

KNOWN = {**option_specs(), "listen_port": OptionSpec(int, optional=True), "mode": OptionSpec(list)}


def read(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "feedproxy.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path, KNOWN)


def mistake(tmp_path: Path, text: str) -> str:
    """Return the error message for a configuration text, without the folder."""
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text)
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_options_and_rules_are_parsed(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        """\
feed_hints: off
site_interval: 5
allow_private: true
allow_ports: [80, "8000-9000"]
listen_port: 9000
feeds:
  - match: https://slow.example/*
    feed_min_interval: 3600
  - match: "*.example.org"
    gone: true
""",
    )

    assert config.options == {
        "feed_hints": "off",
        "site_interval": 5,
        "allow_private": True,
        "allow_ports": ["80", "8000-9000"],
        "listen_port": 9000,
    }
    assert [(rule.match.text, dict(rule.overrides)) for rule in config.rules] == [
        ("https://slow.example/*", {"feed_min_interval": 3600}),
        ("*.example.org", {"gone": True}),
    ]
    assert from_options(config.options).feed_hints == "off"


@pytest.mark.parametrize("text", ["", "# nothing\n", "feeds:\n", "feeds: []\n", "\ufeff"])
def test_empty_configuration_is_valid(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == Config()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [\n", "feedproxy.yaml:2: not YAML"),
        ("a: !!bool maybe\n", "feedproxy.yaml: invalid YAML (KeyError)"),
        (
            "contact_url: a: b\n",
            "feedproxy.yaml:1: not YAML: mapping values are not allowed here; a value that contains",
        ),
        (
            "store: memory:\n",
            "feedproxy.yaml:1: not YAML: mapping values are not allowed here; "
            "a value that contains `: ` or ends with `:` needs quotes",
        ),
        (
            "store: a\n\tlisten: b\n",
            "feedproxy.yaml:2: not YAML: found character '\\t' that cannot start any token; indent with blanks",
        ),
        (
            "feeds:\n  - match: a\n store: b\n",
            "feedproxy.yaml:3: not YAML: expected <block end>, but found '<block mapping start>'; options of one level",
        ),
        (
            "readers: [*]\n",
            "feedproxy.yaml:1: not YAML: expected alphabetic or numeric character, but found ']'; a value",
        ),
        ("a: \x00\n", "feedproxy.yaml:1: a character that YAML does not allow"),
        ("- a\n", "feedproxy.yaml:1: a configuration is lines of the form"),
        (
            "feed_usm: true\nfeed_hint: off\n",
            "feedproxy.yaml:2: unknown option 'feed_hint'; did you mean 'feed_hints'?",
        ),
        ("feed: []\n", "feedproxy.yaml:1: unknown option 'feed'; did you mean 'feeds'?"),
        ("1: 2\n", "feedproxy.yaml:1: unknown option 1"),
        (
            "\n\nsite_interval: soon\n",
            "feedproxy.yaml:3: site_interval: expected a duration, such as 30m or 1800 (seconds), not 'soon'",
        ),
        (
            "site_interval: 1.5\n",
            "feedproxy.yaml:1: site_interval: expected a duration, such as 30m or 1800 (seconds), not a number with a"
            " fraction",
        ),
        (
            "site_interval: true\n",
            "feedproxy.yaml:1: site_interval: expected a duration, such as 30m or 1800 (seconds), not true or false",
        ),
        ("site_interval: -1\n", "feedproxy.yaml:1: site_interval: -1: expected 0 or more"),
        (
            "site_interval:\n",
            "feedproxy.yaml:1: site_interval: expected a duration, such as 30m or 1800 (seconds), not nothing",
        ),
        ("feed_usm: yes\n", "feedproxy.yaml:1: feed_usm: expected true or false, not 'yes'"),
        (
            "contact_url: 5\n",
            "feedproxy.yaml:1: contact_url: expected text, not a whole number (in quotes, if need be)",
        ),
        (
            "intercept: example.com\n",
            "feedproxy.yaml:1: intercept: expected a list of texts, such as [a, b], not text",
        ),
        ("intercept: [[a]]\n", "feedproxy.yaml:1: intercept: expected a list of texts"),
        (
            "feed_hints: enforced\n",
            "feedproxy.yaml:1: feed_hints cannot be 'enforced': expected enforce, heuristic, off",
        ),
        (
            "site_interval: 1\nfeed_usm: true\nsite_interval: 2\n",
            "feedproxy.yaml:3: duplicate key 'site_interval'",
        ),
        ("feeds: x\n", "feedproxy.yaml:1: feeds: expected a list of rules"),
        ("feeds:\n  - x\n", "feedproxy.yaml:2: expected a rule, beginning with"),
        ("feeds:\n  - gone: true\n", "feedproxy.yaml:2: this rule has no `match: PATTERN`"),
        (
            "feeds:\n  - mach: a\n",
            "feedproxy.yaml:2: this rule has no `match: PATTERN`; did you mean that by 'mach'?",
        ),
        (
            "feeds:\n  - match: a\n    hintmax: 5\n",
            "feedproxy.yaml:3: unknown option 'hintmax' in a rule; did you mean 'hint_max'?",
        ),
        (
            "feeds:\n  - match: a\n    store_max: 5\n",
            "feedproxy.yaml:3: store_max applies to all feeds: expected outside of feeds",
        ),
        (
            "feeds:\n  - match: a\n    gone: 1\n",
            "feedproxy.yaml:3: gone: expected true or false, not a whole number",
        ),
        ("feeds:\n- match: a\nhint_max: 5\n", "feedproxy.yaml:2: this rule has no option"),
        ("feeds:\n  - match: a\n  - match: b\n    gone: true\n", "feedproxy.yaml:2: this rule has no option"),
        ("feeds:\n  - match: [a]\n", "feedproxy.yaml:2: match: expected one pattern"),
        (
            "feeds:\n  - match: a\n    gone: true\n  - match: ftp://a/\n",
            "feedproxy.yaml:4: match can never match: invalid pattern: expected the scheme http or https",
        ),
        (
            "feeds:\n  - match: a\n    match: b\n",
            "feedproxy.yaml:3: duplicate key 'match'",
        ),
        (
            "feeds:\n  - match: *.example.com\n",
            "feedproxy.yaml:2: not YAML: found undefined alias; a value that begins with `*` needs",
        ),
        (
            "feeds:\n  - match: a\n    moved_to: new\n",
            "feedproxy.yaml:3: moved_to: ",
        ),
    ],
)
def test_error_names_file_and_line(tmp_path: Path, text: str, said: str) -> None:
    assert mistake(tmp_path, text).startswith(said)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("workers: 999999999", "workers: 999999999: expected 256 or less"),
        ("workers: 0", "workers: 0: expected 1 or more"),
        ("workers: '0'", "workers: 0: expected 1 or more"),
        ("max_connections: 0", "max_connections: 0: expected 1 or more"),
        ("max_connections: 1000000001", "max_connections: 1000000001: expected 1000000000 or less"),
        ("fetch_timeout: 0", "fetch_timeout: 0: expected 1s or more"),
        ("stale_max: 11000d", "stale_max: 950400000: expected 3650d or less"),
        ("buffer_max: 0", "buffer_max: 0: expected 1KiB or more"),
        ("memory_max: 1000", "memory_max: 1000: expected 1MiB or more"),
        ("store_max: 2000000GiB", "store_max: 2147483648000000: expected 1024TiB or less"),
        ("list_readers_min: 17", "list_readers_min: 17: expected 16 or less"),
        ("relocation_confirmations: 0", "relocation_confirmations: 0: expected 1 or more"),
        ("contact_url: me", "contact_url: 'me': expected a URL"),
        ("contact_url: ftp://a.example/", "contact_url: 'ftp://a.example/': expected a URL"),
        (
            'contact_url: "http://a.example/\\r\\nX: y"',
            "contact_url: 'http://a.example/\\r\\nX: y': expected text without",
        ),
        ("contact_url: http://a.example/)", "contact_url: 'http://a.example/)': expected a URL in ASCII"),
        ("contact_url: http://a.example/é", "contact_url: 'http://a.example/é': expected a URL in ASCII"),
        ("contact_url: mailto:me", "contact_url: 'mailto:me': expected an address such as mailto:"),
        ("shared_fields: ['']", "shared_fields: '': expected no blank item"),
        ("shared_fields: ['  ']", "shared_fields: '  ': expected no blank item"),
        ("shared_fields: [x edition]", "shared_fields: 'x edition': expected the name of a request field"),
        ("shared_fields: ['x:']", "shared_fields: 'x:': expected the name of a request field"),
        ("ignore_query: [a&b]", "ignore_query: 'a&b': expected the name of a query parameter"),
        ("deltas_not_for: ['']", "deltas_not_for: '': expected no blank item"),
        ("readers: ['']", "readers: '': expected no blank item"),
        ('readers: ["\\0"]', "readers: '\\x00': expected text without control characters"),
        ('users_file: "/etc/\\0users"', "users_file: '/etc/\\x00users': expected text without control characters"),
        ('realm: "a\\nb"', "realm: 'a\\nb': expected text without control characters"),
        (
            "store: redis://127.0.0.1:99999/",
            "store: 'redis://127.0.0.1:99999/': expected a folder, memory:, or redis://",
        ),
        ("store: redis://127.0.0.1:0/", "store: 'redis://127.0.0.1:0/': expected a folder"),
        ("store: redis:///0", "store: 'redis:///0': expected a folder"),
        ("store: redis://a_b!/", "store: 'redis://a_b!/': expected a folder"),
        ("store: redis://a.example/one", "store: 'redis://a.example/one': expected a folder"),
        ("store: http://a.example/", "store: 'http://a.example/': expected a folder"),
        ("fleet_local: redis://a.example/", "fleet_local: 'redis://a.example/': expected a folder"),
        ("fleet_prefix: a b", "fleet_prefix: 'a b': expected printable ASCII"),
        ("fleet_prefix: 'a{b}'", "fleet_prefix: 'a{b}': expected printable ASCII"),
        ("listen: 127.0.0.1:99999", "listen: 127.0.0.1:99999: expected HOST:PORT"),
        ("listen: a!b:80", "listen: 'a!b:80': expected HOST:PORT"),
        ("admin: '[::g]:80'", "admin: [::g]:80: expected HOST:PORT"),
        ("admin: '[:::]:80'", "admin: '[:::]:80': expected HOST:PORT"),
        ("admin_hosts: [https://a.example/]", "admin_hosts: 'https://a.example/': expected a host name"),
        ("intercept: [https://a.example/]", "intercept: 'https://a.example/': expected a host"),
        ("intercept: ['a.example:443']", "intercept: 'a.example:443': expected a host"),
        ("public_url: https://a.example/#b", "public_url: 'https://a.example/#b': expected a URL without"),
        ("endpoint_prefix: /a b/", "endpoint_prefix: '/a b/' is not a path"),
        ("endpoint_prefix: /../", "endpoint_prefix: '/../' is not a path"),
        ("trusted_proxies: [balancer]", "trusted_proxies: 'balancer': expected an address"),
        ("allow_networks: [10.0.0.0/99]", "allow_networks: invalid network '10.0.0.0/99'"),
        ("allow_ports: [70000]", "allow_ports: invalid port '70000'"),
        ("connect_ports: [0]", "connect_ports: invalid port '0'"),
        ("codings: [lzma]", "codings: 'lzma': expected br, zstd, gzip"),
        ("announce: [web]", "announce: 'web': expected hub, cloud"),
        ("moved_to: new", "moved_to: 'new': expected a URL"),
        ("cnws_subscribe: new", "cnws_subscribe: 'new': expected a URL"),
    ],
)
def test_value_outside_of_what_an_option_permits_is_an_error(tmp_path: Path, option: str, said: str) -> None:
    name = option.partition(":")[0]

    assert mistake(tmp_path, f"\n{option}\n").startswith(f"feedproxy.yaml:2: {said}")
    if name in per_feed_names():
        assert mistake(tmp_path, f"feeds:\n  - match: a\n    {option}\n").startswith(f"feedproxy.yaml:3: {said}")


@pytest.mark.parametrize(
    "option",
    [
        "contact_url: https://a.example/about?x=1;y=2",
        "contact_url: mailto:feeds@a.example",
        "shared_fields: [X-Edition, cookie]",
        "ignore_query: ['utm_*', 'null', 'a[b]']",
        "readers: ['*']",
        "store: redis://user:p%40ss@127.0.0.1:6379/3",
        "store: rediss://[::1]/",
        "store: unix:///run/redis.sock?db=1",
        "store: 'memory:'",
        "store: /var/cache/feedproxy",
        "listen: :8080",
        "listen: '[::1]:0'",
        "admin: ''",
        "admin_hosts: [status.a.example, '192.0.2.1:8081']",
        "intercept: ['*.a.example', 'b.example']",
        "endpoint_prefix: /own/feeds/",
        "allow_ports: [80, 1025-65535]",
    ],
)
def test_value_that_an_option_permits_is_accepted(tmp_path: Path, option: str) -> None:
    assert [*read(tmp_path, f"{option}\n").options] == [option.partition(":")[0]]


def test_missing_configuration_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.yaml: cannot be read: No such file"):
        load(tmp_path / "none.yaml", KNOWN)


def test_pipe_is_read_until_its_writer_closes_it(tmp_path: Path) -> None:
    os.mkfifo(path := tmp_path / "pipe")
    writer = threading.Thread(target=path.write_text, args=["memory_max: 1MiB\n"])
    writer.start()

    assert load(path, KNOWN).options == {"memory_max": 2**20}
    writer.join()


def test_pipe_without_a_writer_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_file, "PIPE_TIMEOUT", 0)
    os.mkfifo(path := tmp_path / "pipe")

    with pytest.raises(UsageError, match="pipe: cannot be read: it is a pipe, and no file came from it within 0 s"):
        load(path, KNOWN)


def test_endless_file_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(option_files, "FILE_BYTES_MAX", 100_000)

    with pytest.raises(UsageError, match="/dev/zero: cannot be read: larger than 100000 bytes"):
        load("/dev/zero", KNOWN)


def test_file_that_is_not_utf_8_is_an_error(tmp_path: Path) -> None:
    (path := tmp_path / "old.yaml").write_bytes(b"feed_usm: true\ncontact_url: caf\xe9\n")

    with pytest.raises(UsageError, match=r"old\.yaml:2: not UTF-8"):
        load(path, KNOWN)


@pytest.mark.parametrize(
    "text",
    [
        "admin_token: 31415926\n",
        "admin_token: [hunter2]\n",
        'admin_token: "hunter2\\r"\n',
        'purge_fields: ["Key: hunter2\\r"]\n',
        "store: redis://me:hunter2@a.example:99999/\n",
        "store: redis://me:hunter2#/@a.example/\n",
        "upstream_proxy: http://me:hunter2@a.example:99999\n",
        "public_url: https://me:hunter2@a.example/\n",
        "admin_token: hunter2\nadmin_token: hunter3\n",
        "admin_token: *hunter2\n",
        "admin_token: !hunter2!3\n",
        "feeds:\n  - match: https://me:hunter2@example.com/\n",
        "feeds:\n  - match: a\n    moved_to: https://me:hunter2@example.com/\n",
    ],
)
def test_error_messages_contain_no_secret(tmp_path: Path, text: str) -> None:
    said = mistake(tmp_path, text)

    assert "hunter" not in said
    assert "31415926" not in said


def test_repeated_anchor_causes_no_warning_with_its_lines(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    config = read(tmp_path, "admin_token: &a hunter2\nstore: &a /srv/feeds\n")

    assert config.options == {"admin_token": "hunter2", "store": "/srv/feeds"}
    assert not recwarn.list


def test_moved_to_is_kept_in_normal_form(tmp_path: Path) -> None:
    config = read(tmp_path, "feeds:\n  - match: a\n    moved_to: https://Example.COM:443\n")

    assert config.rules[0].overrides == {"moved_to": "https://example.com/"}


def test_yaml_merge_key_in_a_rule_sets_the_merged_options(tmp_path: Path) -> None:
    config = read(tmp_path, "feeds:\n  - &slow\n    match: a\n    hint_max: 5\n  - <<: *slow\n    match: b\n")

    assert [dict(rule.overrides) for rule in config.rules] == [{"hint_max": 5}, {"hint_max": 5}]


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("feed_hints=off", ("feed_hints", "off")),
        ("site_interval=5", ("site_interval", 5)),
        ("allow_private=true", ("allow_private", True)),
        ("allow_private=false", ("allow_private", False)),
        ("allow_private", ("allow_private", True)),
        ("contact_url=https://example.com/?a=b", ("contact_url", "https://example.com/?a=b")),
        ("contact_url=", ("contact_url", "")),
        ("mode=regular@8080", ("mode", ["regular@8080"])),
        ("listen_port=", ("listen_port", None)),
        ("allow_ports=80, 443", ("allow_ports", ["80", "443"])),
        ('purge_fields=["Surrogate-Key: a, b"]', ("purge_fields", ["Surrogate-Key: a, b"])),
        ("allow_networks=", ("allow_networks", [])),
    ],
)
def test_set_parses_the_value_by_the_options_type(text: str, option: tuple[str, Any]) -> None:
    assert parse_sets([text], KNOWN) == dict([option])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("feed_hint=off", "--set: unknown option 'feed_hint'; did you mean 'feed_hints'?"),
        ("feed_hints=on", "--set: feed_hints cannot be 'on': expected enforce, heuristic, off"),
        ("site_interval=soon", "--set: site_interval: expected a duration, such as 30m or 1800 (seconds), not 'soon'"),
        ("site_interval", "--set: site_interval needs a value: --set site_interval=VALUE"),
        ("allow_private=maybe", "--set: allow_private: expected true or false, not 'maybe'"),
    ],
)
def test_set_flag_has_the_error_messages_of_the_file(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_sets([text], KNOWN)

    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("value", ["80,443", "[80, 443]", "80", "", " 80 , 443 ,"])
def test_list_is_parsed_alike_by_set_and_in_the_environment(value: str) -> None:
    environment = {"FEEDPROXY_ALLOW_PORTS": value}

    assert parse_sets([f"allow_ports={value}"], KNOWN) == from_environment(environment, KNOWN)


def test_repeated_set_extends_a_list_and_replaces_other_values() -> None:
    assert parse_sets(["mode=a", "site_interval=1", "mode=b", "site_interval=2"], KNOWN) == {
        "mode": ["a", "b"],
        "site_interval": 2,
    }


def test_every_option_of_mitmproxy_has_a_known_type() -> None:
    from mitmproxy.options import Options

    options: Any = Options()  # mitmproxy's `items` has no types
    for name, option in options.items():
        assert spec_of(option.typespec, option.choices).kind in {bool, int, str, list}, name


def test_every_default_is_a_valid_value(tmp_path: Path) -> None:
    defaults = Settings()
    text = [f"{name}={'' if spec.kind is list else getattr(defaults, name)}" for name, spec in option_specs().items()]

    read_back = parse_sets([line.replace("=True", "=true").replace("=False", "=false") for line in text], KNOWN)

    assert all(
        read_back[name] == getattr(defaults, name) for name, spec in option_specs().items() if spec.kind is not list
    )


@pytest.mark.parametrize(
    ("typespec", "spec"),
    [
        (bool, OptionSpec(bool)),
        (int, OptionSpec(int)),
        (Optional[int], OptionSpec(int, optional=True)),  # noqa: UP045 -- as in mitmproxy
        (str | None, OptionSpec(str, optional=True)),
        (Sequence[str], OptionSpec(list)),
    ],
)
def test_types_of_mitmproxy_are_converted(typespec: Any, spec: OptionSpec) -> None:
    assert spec_of(typespec) == spec


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("port", "listen"),
        ("bind", "listen"),
        ("timeout", "fetch_timeout"),
        ("cache_dir", "store"),
        ("cache_size", "store_max"),
        ("user_agent", "contact_url"),
        ("ssl_cert", "tls_certificate"),
        ("admin_listen", "admin"),
        ("min_interval", "feed_min_interval"),
        ("auth", "readers"),
        ("backend", "upstream"),
        ("base_url", "public_url"),
        ("access_log", "log_format"),
        ("feed-hints", "feed_hints"),
    ],
)
def test_unknown_option_suggests_own_options_before_mitmproxys(name: str, near: str) -> None:
    known = {**KNOWN, **{each: OptionSpec(str) for each in ("certs", "tcp_timeout", "key_size", "proxy_debug")}}

    with pytest.raises(UsageError, match=f"did you mean '{near}'"):
        parse_sets([f"{name}=1"], known)


def test_every_synonym_names_an_existing_option_and_is_no_option() -> None:
    assert {meant for meant in SYNONYMS.values() if meant not in KNOWN} == set()
    assert SYNONYMS.keys() & KNOWN.keys() == set()


def test_environment_variable_sets_an_option_in_its_own_units() -> None:
    environment = {
        "FEEDPROXY_HINT_MAX": "2h",
        "FEEDPROXY_ALLOW_PORTS": "80, 8000-8010",
        "FEEDPROXY_PURGE_FIELDS": '["Surrogate-Key: a, b"]',
        "FEEDPROXY_ALLOW_PRIVATE": "TRUE",
        "FEEDPROXY_SERVICE_HOST": "10.0.0.1",
        "HINT_MAX": "1",
    }

    assert from_environment(environment, KNOWN) == {
        "allow_ports": ["80", "8000-8010"],
        "allow_private": True,
        "hint_max": 7200,
        "purge_fields": ["Surrogate-Key: a, b"],
    }


@pytest.mark.parametrize("name", ["workers", "gzip_level"])
def test_number_of_thousands_of_digits_is_reported_like_other_wrong_values(name: str) -> None:
    """Python refuses to parse such a number. `gzip_level` is a former option, which is read in another place."""
    with pytest.raises(UsageError, match=rf"^FEEDPROXY_{name.upper()}: {name}: expected a "):
        from_environment({f"FEEDPROXY_{name.upper()}": "9" * 5000}, KNOWN)


def test_environment_variable_with_a_wrong_value_is_reported_by_its_own_name() -> None:
    with pytest.raises(UsageError, match=r"^FEEDPROXY_HINT_MAX: hint_max: expected a duration, such as 30m"):
        from_environment({"FEEDPROXY_HINT_MAX": "soon"}, KNOWN)


def test_environment_variable_that_resembles_an_option_is_reported() -> None:
    environment = {"FEEDPROXY_LISTEM": "x", "FEEDPROXY_PORT_80_TCP": "tcp://10.0.0.1", "FEEDPROXY_CONFIG": "x"}

    assert unknown_variables(environment, KNOWN) == {"FEEDPROXY_LISTEM": "FEEDPROXY_LISTEN"}


@pytest.mark.parametrize("text", ["store_max: 4GiB\n", "store_max: 4294967296\n", "store_max: '4294967296'\n"])
def test_size_in_a_file_may_have_a_unit(tmp_path: Path, text: str) -> None:
    (file := tmp_path / "feedproxy.yaml").write_text(text)

    assert load(file, KNOWN).options == {"store_max": 2**32}


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("announce_hub: true\nannounce_cloud: true\n", {"announce": ["hub", "cloud"]}),
        ("announce_hub: false\n", {"announce": []}),
        ("websub_subscribe: false\n", {"push_subscribe": False}),
        ("gzip_level: 0\nzstd_level: 9\n", {"codings": ["br", "zstd"]}),
        ("ping_source_limit: 7\n", {"source_limit": 7}),
        ("decoded_max: 5\n", {}),
        ("refresh_ahead: false\n", {"polling": "off"}),
        ("refresh_ahead: true\n", {}),
        ("refresh_per_poll: 4\n", {}),
        ("refresh_idle_after: 2h\n", {}),
        ("learned_patience: 6h\n", {}),
        ("learned_lifetime: 90m\n", {}),
        ("redirects_max: 2\n", {"redirects_max": 2}),
        ("answer_timeout: 30s\n", {"answer_timeout": 30}),
        ("changes_when: seconds\n", {"changes_when": "seconds"}),
        ("rdf_media_type: application/rdf+xml\n", {"rdf_media_type": "application/rdf+xml"}),
        ("self_link_text: true\n", {"self_link_text": True}),
        ("push_interval: 3h\n", {"push_interval": 10_800}),
        ("drain_timeout: 1m\n", {"drain_timeout": 60}),
    ],
)
def test_former_option_is_accepted_with_a_hint(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, options: dict[str, object]
) -> None:
    (file := tmp_path / "feedproxy.yaml").write_text(text)

    assert load(file, KNOWN).options == options
    assert f"{file}:1: {text.partition(':')[0]} is deprecated: " in caplog.text


@pytest.mark.parametrize(
    ("text", "price"),
    [("off", 300), ("frugal", 7200), ("balanced", 1800), ("eager", 300), ("45m", 2700), ("90", 90), ("false", 300)],
)
def test_polling_is_a_name_or_a_duration(tmp_path: Path, text: str, price: int) -> None:
    (file := tmp_path / "feedproxy.yaml").write_text(
        f"polling: {text}\nfeeds:\n  - match: a.example\n    polling: 1h\n"
    )

    loaded = load(file, KNOWN)

    assert from_options(loaded.options).price == price
    assert loaded.rules[0].overrides == {"polling": "1h"}
    assert from_options(parse_sets([f"polling={text.replace('false', 'off')}"], KNOWN)).price == price


@pytest.mark.parametrize("text", ["eagerly", "0", "-5m", "true", "[off]", "0m", "0.5"])
def test_polling_rejects_text_that_is_no_price(tmp_path: Path, text: str) -> None:
    (file := tmp_path / "feedproxy.yaml").write_text(f"polling: {text}\n")

    with pytest.raises(UsageError, match=r"polling.* expected .*balanced, eager, or a duration such as 45m"):
        load(file, KNOWN)


def test_rule_with_only_a_former_option_is_accepted(tmp_path: Path) -> None:
    (file := tmp_path / "feedproxy.yaml").write_text("feeds:\n  - match: a.example\n    learned_lifetime: 2h\n")

    assert load(file, KNOWN).rules[0].overrides == {}


def test_former_option_is_accepted_in_rules_by_set_and_in_the_environment(tmp_path: Path) -> None:
    (file := tmp_path / "feedproxy.yaml").write_text("feeds:\n  - match: a.example\n    announce_hub: true\n")

    assert load(file, KNOWN).rules[0].overrides == {"announce": ("hub",)}
    assert parse_sets(["rsscloud_register=false"], KNOWN) == {"push_subscribe": False}
    assert from_environment({"FEEDPROXY_ANNOUNCE_HUB": "true"}, KNOWN) == {"announce": ["hub"]}


def test_options_are_at_most_eighty_and_listed_once() -> None:
    names = [*option_names(), *deprecated_names()]

    assert len(names) == len(set(names))
    assert len(option_names()) <= 80


def test_rule_accepts_units(tmp_path: Path) -> None:
    (file := tmp_path / "feedproxy.yaml").write_text("feeds:\n  - match: slow.example\n    feed_min_interval: 1h30m\n")

    assert load(file, KNOWN).rules[0].overrides == {"feed_min_interval": 5400}
