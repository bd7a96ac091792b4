"""Suggestions after an unknown option: similar names, and names in other programs."""

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from feedproxy.settings import option_names

RULES_KEY = "feeds"
MATCH_KEY = "match"


SYNONYMS = {
    "access_log": "log_format",
    "address": "listen",
    "admin_address": "admin",
    "admin_listen": "admin",
    "admin_port": "admin",
    "allowed_hosts": "gateway_hosts",
    "auth": "readers",
    "backend": "upstream",
    "base_url": "public_url",
    "bind": "listen",
    "bind_address": "listen",
    "cache": "store",
    "cache_dir": "store",
    "cache_path": "store",
    "cache_size": "store_max",
    "cache_ttl": "default_lifetime",
    "cert": "tls_certificate",
    "contact": "contact_url",
    "data_dir": "store",
    "default_ttl": "default_lifetime",
    "disk_size": "store_max",
    "external_url": "public_url",
    "grace": "stale_max",
    "host": "listen",
    "htpasswd": "users_file",
    "http_proxy": "upstream_proxy",
    "https_proxy": "upstream_proxy",
    "interval": "feed_min_interval",
    "key": "tls_key",
    "keep_stale": "stale_max",
    "log": "log_format",
    "loglevel": "log_level",
    "max_age": "default_lifetime",
    "max_size": "store_max",
    "max_ttl": "hint_max",
    "memory": "memory_max",
    "memory_size": "memory_max",
    "min_ttl": "lifetime_min",
    "mitm": "intercept",
    "origin": "upstream",
    "outgoing_proxy": "upstream_proxy",
    "parent": "upstream_proxy",
    "parent_proxy": "upstream_proxy",
    "passwords": "users_file",
    "password_file": "users_file",
    "port": "listen",
    "ports": "allow_ports",
    "private_networks": "allow_networks",
    "processes": "workers",
    "proxy": "upstream_proxy",
    "proxy_url": "upstream_proxy",
    "real_ip": "trusted_proxies",
    "redis": "store",
    "redis_url": "store",
    "server_name": "public_url",
    "socks_proxy": "upstream_proxy",
    "ssl_cert": "tls_certificate",
    "ssl_certificate": "tls_certificate",
    "ssl_key": "tls_key",
    "ssl_certificate_key": "tls_key",
    "stale": "stale_max",
    "storage": "store",
    "threads": "workers",
    "timeout": "fetch_timeout",
    "tls_cert": "tls_certificate",
    "token": "admin_token",
    "trust_proxy": "trusted_proxies",
    "trusted_hosts": "gateway_hosts",
    "ttl": "default_lifetime",
    "upstream_url": "upstream",
    "url": "public_url",
    "user_agent": "contact_url",
    "users": "users_file",
    "verbose": "log_level",
    "verbosity": "log_level",
}
"""feedproxy's options, keyed by their names in other programs, for hints after an unknown name."""


def suggest(name: Any, names: Collection[str]) -> str:
    """Return `; did you mean 'x'?`, or "" if no name in `names` is similar. An option of feedproxy is preferred to one
    of mitmproxy."""
    word = str(name).strip().lower().replace("-", "_")
    own_names = {*option_names(), RULES_KEY, MATCH_KEY}
    own = [candidate for candidate in names if candidate in own_names]
    synonym = SYNONYMS.get(word)
    similar_names = (
        ([synonym] if synonym in names else [])
        or [candidate for candidate in own if "_" in word and f"_{word}_" in f"_{candidate}_"][:1]
        or difflib.get_close_matches(word, own, n=1, cutoff=0.75)
        or difflib.get_close_matches(word, [candidate for candidate in names if candidate], n=1, cutoff=0.8)
        or difflib.get_close_matches(word, own or [candidate for candidate in names if candidate], n=1)
    )
    return f"; did you mean {similar_names[0]!r}?" if similar_names else ""


def suggest_key(entry: Mapping[Any, Any], expected: str) -> str:
    """Return a hint that a key of `entry` resembles the missing key `expected`, or "" if no key does."""
    similar_names = difflib.get_close_matches(expected, [str(key) for key in entry], n=1)
    return f"; did you mean that by {similar_names[0]!r}?" if similar_names else ""
