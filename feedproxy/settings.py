"""Options of feedproxy: name, type, default, unit and description.

`feedproxy options`, docs/reference/options.md and the examples in conf/ are made from this module (`make docs`). An
addon declares the options that it uses to mitmproxy (`declare`), and the library reads all of them as one `Settings`.
A rule of the configuration's `feeds:` list overrides options marked `per_feed`. Durations are whole seconds and sizes
bytes, since mitmproxy has no other numbers; a configuration may write `30m` and `4GiB` (quantities.py).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, Protocol

from feedproxy.errors import UsageError
from feedproxy.memory_limits import MemoryLimits
from feedproxy.quantities import Unit, format_quantity, parse

_ADDRESS = re.compile(r"(?:(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^:\[\]/@\s]*)):)?(?P<port>[0-9]{1,5})")

RENAMED: Mapping[str, tuple[str, str]] = {
    "announce_cloud": ("announce", "cloud"),
    "announce_hub": ("announce", "hub"),
    "brotli_level": ("codings", "br"),
    "gzip_level": ("codings", "gzip"),
    "ping_source_limit": ("source_limit", ""),
    "refresh_ahead": ("polling", "off"),
    "rsscloud_register": ("push_subscribe", ""),
    "subscription_source_limit": ("source_limit", ""),
    "websub_subscribe": ("push_subscribe", ""),
    "zstd_level": ("codings", "zstd"),
}
"""Options by their former names, each with the list item that stands for a true or non-zero value. For `polling`, which
is not a list, the item is the value that stands for false."""

DERIVED: Mapping[str, str] = {
    "decoded_max": "five times buffer_max",
    "first_byte_timeout": "half of fetch_timeout",
    "learned_lifetime": "what the price in polling gives",
    "learned_patience": "what the price in polling gives",
    "memo_max": "half of memory_max",
    "refresh_idle_after": "what the price in polling gives",
    "refresh_per_poll": "what the price in polling gives",
    "stale_max_refused": "stale_max, and a day at most",
    "subscriptions_per_site": "a fiftieth of subscriptions_max",
}
"""Former options that are now derived from another one; setting them has no effect."""


INSTEAD: Mapping[str, str] = {
    "changes_when": "ask for changes.xml?when=seconds",
}
"""Replacements of deprecated options that are not options."""


PRICES: Mapping[str, int] = {"off": 300, "frugal": 7200, "balanced": 1800, "eager": 300}
"""Seconds of staleness that a request costs, by the names of `polling`."""


@lru_cache(maxsize=256)
def price_of(polling: str) -> int | None:
    """Return the price in seconds for a value of `polling`; None if the value is invalid."""
    price = PRICES.get(polling)
    return (parse(polling, "s") or None) if price is None else price


def option(
    default: Any,
    text: str,
    why: str = "",
    *,
    choices: tuple[str, ...] = (),
    per_feed: bool = False,
    unit: Unit = "",
    restart: bool = False,
    deprecated: bool = False,
) -> Any:
    """Return the field of an option: its default, its effect in a sentence, and why an operator would change it.

    `choices` are the permitted values, `unit` is that of a number, and rules may override a `per_feed` option. A reload
    (SIGHUP) leaves `restart` options as they are. A deprecated option works, is not listed, and is reported at the
    start if it is set.
    """
    metadata = {"text": text, "why": why, "choices": choices, "per_feed": per_feed, "unit": unit}
    return field(default=default, metadata={**metadata, "restart": restart, "deprecated": deprecated})


@dataclass(frozen=True, slots=True)
class Settings:
    """The values of all options, made from mitmproxy's options."""

    # -- listening
    listen: str = option(
        "127.0.0.1:8080",
        "HOST:PORT on which readers are served: gateway and explicit proxy alike.",
        "The default admits this machine only. An office sets its network's address, or 0.0.0.0 and a firewall. PORT"
        " alone is loopback, :PORT every address.",
        restart=True,
    )
    upstream: str = option(
        "",
        "The origin that feedproxy stands in front of (reverse mode); empty: gateway and explicit proxy.",
        "Set by publishers, see conf/publisher.yaml. The address is trusted: it may be private, and on any port.",
        restart=True,
    )
    public_url: str = option(
        "",
        "The URL under which readers, hubs and clouds reach this proxy, such as https://feeds.example/.",
        "Set it where TLS or another name in front makes it differ from what a request shows. Pages, lists, self links"
        " and redirects are written with it, and push updates (WebSub, rssCloud, CNWS) need it.",
        restart=True,
    )
    trusted_proxies: tuple[str, ...] = option(
        (),
        "Addresses or networks of the load balancers, CDNs and TLS terminators in front.",
        "Only their forwarding field is believed. Without this all readers behind a balancer count as one. Name no"
        " network that readers are in.",
    )
    forwarded_by: str = option(
        "x-forwarded-for",
        "The field in which trusted_proxies name the client's address: x-forwarded-for or forwarded (RFC 7239).",
        "The other field is ignored, as X-Forwarded-Host always is; X-Forwarded-Proto goes with the first. Every"
        " trusted proxy has to write the named field itself: docs/how-to/behind-a-load-balancer.md.",
        choices=("x-forwarded-for", "forwarded"),
    )
    endpoint_prefix: str = option(
        "/-/",
        "The path of feedproxy's own endpoints.",
        "Change it only where the origin you serve has such a path itself.",
        restart=True,
    )
    max_connections: int = option(
        10_000,
        "Maximum number of client connections; more are refused.",
        "Each takes a few kilobytes and a file descriptor: keep it below `ulimit -n`.",
    )
    max_connections_per_address: int = option(
        512,
        "Maximum number of connections per client address (IPv6: per /64); 0 = unlimited.",
        "Raise it for readers behind one NAT. Peers in trusted_proxies are exempt.",
    )
    tls_certificate: str = option(
        "",
        "PEM file with the certificate and its chain, to serve readers under TLS.",
        "For proxies with nothing in front that does it. Renewed files are read within a minute.",
        restart=True,
    )
    tls_key: str = option(
        "", "PEM file with the certificate's key; empty: the key is in the certificate's file.", restart=True
    )

    # -- permitted targets
    allow_private: bool = option(
        False,
        "Let targets be at private, loopback and link-local addresses, and on any port above 1024.",
        "Every client of this proxy then reaches them too: prefer allow_networks.",
        restart=True,
    )
    allow_networks: tuple[str, ...] = option(
        (), "Private networks in which targets may be.", "For an intranet's feeds: [10.20.0.0/16].", restart=True
    )
    allow_ports: tuple[str, ...] = option(
        ("80", "443", "8080", "8443"),
        "Ports that a target may have; `1025-65535` adds a range.",
        "A short list keeps clients from probing other services through this proxy.",
        restart=True,
    )
    intercept: tuple[str, ...] = option(
        (),
        "Hosts whose TLS is decrypted in the explicit proxy, such as example.com or *.example.com.",
        "Their feeds are cached then; readers must trust mitmproxy's CA (~/.mitmproxy). All other hosts are tunnelled."
        " The gateway needs none of this.",
    )

    # -- requests to origins
    upstream_proxy: str = option(
        "",
        "A parent proxy through which all requests to other servers go: http://[USER:PASSWORD@]HOST:PORT, socks5://…,"
        " socks5h://…, environment (http_proxy, https_proxy, all_proxy, no_proxy), or direct.",
        "For networks whose way out is a proxy. Addresses are checked here first; this machine itself is never asked"
        " for through it. See docs/how-to/behind-a-companys-proxy.md.",
        per_feed=True,
    )
    contact_url: str = option(
        "",
        "A page about this proxy, named in the User-Agent.",
        "Please set it: publishers look there before they block. A name and a way to write to you is enough.",
    )
    feed_min_interval: int = option(
        60,
        "Minimum time between two fetches of one feed; 0 = none.",
        "It binds readers' reloads, pings and refreshes too. Raise it for feeds that change daily.",
        per_feed=True,
        unit="s",
    )
    site_interval: int = option(
        1,
        "Minimum time between two fetches from one site (registrable domain); 0 = none.",
        "Raise it in a rule for sites that ask for more.",
        per_feed=True,
        unit="s",
    )
    reload_interval: int = option(
        900,
        "Time after a fetch within which a feed reader's no-cache is answered from the copy; 0 = none.",
        "Some readers send no-cache with every poll. In skipped hours they get the copy, too. A person's reload in a "
        "browser always asks the origin, at most once in feed_min_interval.",
        per_feed=True,
        unit="s",
    )
    fetch_timeout: int = option(
        60,
        "Maximum time of one exchange with an origin.",
        "Half of it may pass before the first byte.",
        unit="s",
        restart=True,
    )
    buffer_max: int = option(
        10_000_000,
        "Maximum size of a stored response as transferred; larger ones are streamed through.",
        "The largest feeds met are a few megabytes; this keeps podcasts' audio files out. After decoding a response may"
        " be five times as large.",
        unit="B",
        restart=True,
    )

    # -- refreshing ahead of readers
    polling: str = option(
        "balanced",
        "Price of a request to an origin, in staleness that it has to save: off, frugal (2h), balanced (30m), eager"
        " (5m), or a duration.",
        "Feeds are refreshed shortly before their readers are expected, where the staleness that this saves all of them"
        " together is worth the price. It also decides for how long a copy answers where neither HTTP nor the feed"
        " says. `off` refreshes nothing ahead: copies then answer for as long as with `eager`.",
        per_feed=True,
    )
    stale_while_refreshing: int = option(
        0,
        "Time for which a stale copy still answers while it is refreshed, where HTTP does not forbid it.",
        "Readers who come after a pause do not wait then; they get what is new with their next poll. They wait if a"
        " copy of this age probably lacks news of more than two hours ago. An origin's own stale-while-revalidate"
        " counts without it.",
        per_feed=True,
        unit="s",
    )

    # -- freshness
    feed_hints: str = option(
        "enforce",
        "How a feed's ttl, skipHours, skipDays and sy:* count: enforce, heuristic (only where HTTP is silent), off.",
        "`enforce` also holds the copy where HTTP's lifetime has ended. Choose less where readers need news before the"
        " publisher's schedule says so.",
        choices=("enforce", "heuristic", "off"),
        per_feed=True,
    )
    hint_max: int = option(
        86_400,
        "Maximum time that a single hint holds a feed.",
        "A ttl of a month is usually a mistake. A stretch of skipped hours and days counts up to three days.",
        per_feed=True,
        unit="s",
    )
    default_lifetime: int = option(
        1_800,
        "Freshness lifetime of a response when nothing is stated and nothing is known of the feed yet.",
        per_feed=True,
        unit="s",
    )
    targeted_fields: str = option(
        "reverse",
        "Where CDN-Cache-Control takes precedence over Cache-Control (RFC 9213): reverse, always, off.",
        "The field is for caches that act for the origin. `always` in a rule says that this proxy does so for these"
        " sites.",
        choices=("reverse", "always", "off"),
        per_feed=True,
    )
    shared_fields: tuple[str, ...] = option(
        (),
        "Names of further request fields that go to the origin although the answer is shared by all clients.",
        "Other request fields are dropped, or the response is stored for equal requests only (docs/decisions/"
        "unusual-requests.md). Name a field only if the origin's Vary lists it wherever responses depend on it."
        " Otherwise any client can replace the shared response by its own variant. With `authorization`, responses"
        " with public, must-revalidate or s-maxage are shared as RFC 9111, section 3.5, allows, except feeds.",
        per_feed=True,
    )
    ignore_query: tuple[str, ...] = option(
        (),
        "Names of query parameters that make no difference to a feed, such as utm_* or null; `*` for any.",
        "/feed?utm_source=x is then /feed: one stored copy and one request to the origin for both. Usually set in a"
        " rule. A wildcard does not match a parameter whose name suggests a secret. Responses list the ignored"
        " parameters in No-Vary-Search, for caches in front.",
        per_feed=True,
    )
    state_freshness: bool = option(
        False,
        "In reverse mode, state what remains of a hint's lifetime in place of the origin's Cache-Control.",
        "CDNs and readers then keep to the feed's own schedule, too.",
    )

    # -- when origins fail, move or end
    on_bad_update: str = option(
        "keep",
        "What an error page, a challenge, an empty, broken or ill-formed update does to a good copy: keep or pass.",
        "`keep` serves the good copy, marked as such; `pass` sends readers what came.",
        choices=("keep", "pass"),
        per_feed=True,
    )
    stale_max: int = option(
        604_800,
        "Maximum time that a good copy is served while its origin fails.",
        "For 403 and 404 it is a day at most.",
        per_feed=True,
        unit="s",
    )
    relocation_confirmations: int = option(
        2,
        "How often a permanent redirect or a 410 is seen, an hour apart, before readers are told.",
        'Many "permanent" redirects are a misconfiguration of an hour, and a reader that follows one never comes back.',
        per_feed=True,
    )
    moved_to: str = option(
        "",
        "In a rule: the feed's new address; readers get 301.",
        per_feed=True,
    )
    gone: bool = option(False, "In a rule: the feed has ended; readers get 410 and stop asking.", per_feed=True)
    announce_as: str = option(
        "http",
        "In a rule: how moved_to and gone are sent: http (301, 410) or xml (a redirect document).",
        "The document is for readers that cannot see a status.",
        choices=("http", "xml"),
        per_feed=True,
    )
    private: bool = option(False, "In a rule: never name this feed in a list that others can read.", per_feed=True)

    # -- access
    readers: tuple[str, ...] = option(
        (),
        "Users who may read, or `*` for all who signed in; empty: everyone.",
        "Usually set in a rule. Public lists (feeds.opml, changes.xml) never name feeds with readers,"
        " also for clients that have signed in.",
        per_feed=True,
    )
    users_file: str = option(
        "",
        "File of readers' passwords, as `htpasswd -B` writes it (bcrypt, Argon2).",
        "Changes take effect at once. See docs/how-to/ask-readers-who-they-are.md for this and the next three.",
        restart=True,
    )
    wsse_file: str = option(
        "", "File of NAME:PASSWORD lines for readers that sign in by WSSE; mode 0600.", restart=True
    )
    tokens_file: str = option(
        "", "File of secret addresses, which `feedproxy token` gives out and revokes.", restart=True
    )
    wallet: str = option(
        "", "YAML file of credentials for origins, and for whose requests they are used; mode 0600.", restart=True
    )

    # -- editing of feeds
    feed_usm: bool = option(
        True, "Serve feeds with the media type that lets a click subscribe (application/rss+xml …).", per_feed=True
    )
    self_link: str = option(
        "",
        "The feed's link to itself: add (where missing or relative), correct (also repair a wrong one), off.",
        "Readers that are handed a file find by it where to subscribe. Empty: add; in reverse mode correct, or off"
        " without public_url. All other bytes stay as they came.",
        choices=("", "add", "correct", "off"),
        per_feed=True,
    )
    deltas: bool = option(
        True,
        "Send readers that ask for it (A-IM: feed) only the entries that are new to them (226).",
        "Other readers do not notice. Switch it off in a rule for a feed whose readers lose entries.",
        per_feed=True,
    )
    compression_dictionaries: str = option(
        "secure",
        "Use a feed's last versions as dictionaries of its next one (RFC 9842): secure, always, off.",
        "An update is then a few hundred bytes (Content-Encoding: dcz), to clients and from origins that offer it."
        " secure: over TLS or on loopback, as the RFC has it. always: in plain HTTP, too, where no device on the way"
        " alters what it does not understand.",
        choices=("secure", "always", "off"),
        per_feed=True,
    )
    cors: bool = option(
        False,
        "Let scripts of every web origin read feeds (Access-Control-Allow-Origin: *), for readers in browsers.",
        "Feeds that are private, or that readers have to sign in for, stay closed.",
        per_feed=True,
    )
    negotiate: bool = option(
        False,
        "Answer in another format of the feed where the request's Accept prefers it.",
        "Usually set in a rule, since browsers get a page then. Every format is at /-/as/FORMAT/ADDRESS without it.",
        per_feed=True,
    )
    lead_to_feeds: bool = option(
        True,
        "In the gateway, redirect readers whose Accept prefers feeds from a page to the feed it names.",
        "Readers can subscribe to a page's address then. Browsers get the page.",
        per_feed=True,
    )
    codings: tuple[str, ...] = option(
        ("br", "zstd", "gzip"),
        "Content codings that readers are offered: br, zstd, gzip.",
        "Each is made once per version of a feed, when it is first asked for.",
    )

    # -- subscribers
    subscriber_window: int = option(
        86_400,
        "Time for which a reader counts as a subscriber.",
        "Publishers get the count in the User-Agent.",
        unit="s",
        restart=True,
    )
    list_readers_min: int = option(
        3,
        "Readers that have to ask for a feed within 30 days before feeds.opml and changes.xml name it (1 to 16).",
        "What the operator has imported is named anyway, and in changes.xml what `upstream` serves. An address that one"
        " reader alone knows may be that reader's secret: 1 suits an office whose members trust one another. Readers"
        " are told apart by address and User-Agent.",
    )

    # -- the store
    store: str = option(
        "",
        "Folder of the store; empty: the platform's cache folder. `memory:` keeps nothing; `redis://HOST/` is shared.",
        "After a restart with `memory:` every origin is asked anew. `redis://` and `rediss://` are for several"
        " machines: docs/how-to/run-a-fleet.md.",
        restart=True,
    )
    memory_max: int = option(
        268_435_456,
        "Maximum size of the stored responses kept in memory.",
        "A feed with its codings takes about 1.5 times its size: the default holds several thousand. Everything derived"
        " from them (answers kept ready, conversions, deltas, reader scores) takes as much again at most:"
        " docs/explanation/memory.md.",
        unit="B",
        restart=True,
    )
    store_max: int = option(4_294_967_296, "Maximum size of the stored responses on disk.", unit="B", restart=True)
    fleet_local: str = option("", "With `redis://`: folder of this machine's own store in front of it.", restart=True)
    fleet_prefix: str = option(
        "feedproxy",
        "With `redis://`: what every name in Redis begins with.",
        "Two fleets on one Redis need two.",
        restart=True,
    )

    # -- notifications
    push_subscribe: bool = option(
        True, "Subscribe to the hubs and clouds of feeds that are read here; needs public_url.", per_feed=True
    )
    cnws_subscribe: str = option(
        "",
        "In a rule: URL of the change notification service that reports this feed's changes; needs public_url.",
        per_feed=True,
    )
    ping_unknown: str = option(
        "note",
        "What a ping of a site without readers here does: note (shown to the operator), fetch (find its feed), ignore.",
        "With `fetch` anyone can make this proxy fetch.",
        choices=("note", "fetch", "ignore"),
    )
    source_limit: int = option(
        60,
        "Maximum number of pings, and of subscriptions, per minute and client address (IPv6: per /64); 0 = unlimited.",
    )
    subscriptions_max: int = option(
        50_000,
        "Maximum number of subscriptions, all protocols together.",
        "Callbacks at one site (registrable domain) get a fiftieth of it.",
        restart=True,
    )
    websub_hub: str = option(
        "own",
        "Feeds that the WebSub hub at /-/hub serves: own (the upstream's), known (any public one stored), off.",
        "Needs public_url. With `known` a subscriber learns which feeds are stored here.",
        choices=("own", "known", "off"),
    )
    rsscloud_hub: str = option(
        "known",
        "Feeds that the rssCloud hub serves: own (the upstream's), known (any public one stored), off.",
        choices=("own", "known", "off"),
    )
    cnws_publisher: str = option(
        "known",
        "Feeds that the change notification service at /-/cnws serves: own (the upstream's), known, off.",
        choices=("own", "known", "off"),
    )
    announce: tuple[str, ...] = option(
        (),
        "In reverse mode: what the publisher's feeds name: hub (WebSub, all feeds), cloud (rssCloud, RSS 2.0).",
        "Readers then subscribe by push. Needs public_url.",
        per_feed=True,
    )
    ping_sinks: tuple[str, ...] = option(
        (),
        "URLs that are pinged when one of the upstream's feeds changes.",
        "For publishers, see docs/how-to/tell-others.md.",
    )
    purge_sinks: tuple[str, ...] = option(
        (),
        "Caches in front (a CDN, Varnish) that are purged when one of the upstream's feeds changes, moves or ends.",
        "For publishers, see docs/how-to/behind-a-cdn.md.",
    )
    purge_fields: tuple[str, ...] = option(
        (),
        "Fields, each NAME: VALUE, that are sent with every purge.",
        "A CDN's key, for example: then keep this file readable by feedproxy's user only.",
    )

    # -- operating
    workers: int = option(
        1,
        "Number of processes that serve readers, on one port with one store.",
        "One uses one processor and answers thousands of requests a second. Several need a store on disk:"
        " docs/how-to/run-more-workers.md.",
        restart=True,
    )
    admin: str = option(
        "127.0.0.1:8081",
        "HOST:PORT of the admin listener: status page, metrics, refresh, purge; empty: off.",
        "Beyond loopback it needs a token.",
        restart=True,
    )
    admin_token: str = option(
        "", "Token for the admin listener.", "Keep this file readable by feedproxy's user only.", restart=True
    )
    admin_token_file: str = option(
        "",
        "File that holds the admin token, in place of admin_token.",
        "For secrets that Docker, Kubernetes or systemd hand over.",
        restart=True,
    )
    admin_hosts: tuple[str, ...] = option(
        (),
        "Extra host names that the admin listener accepts.",
        "Other names are refused: a web page could have made one that leads here.",
        restart=True,
    )
    log_format: str = option(
        "text",
        "Format of the line per request: text, json, combined (as Apache and nginx write it) or off.",
        "It names no reader. Only text and json say why an answer is what it is.",
        choices=("text", "json", "combined", "off"),
    )
    log_level: str = option(
        "info",
        "Lowest level of the lines that are logged: debug (with mitmproxy's messages), info, warning or error.",
        "Lines of requests are of level info.",
        choices=("debug", "info", "warning", "error"),
    )
    reuse_port: bool = option(
        False,
        "Let a second feedproxy of the same user listen on the same ports.",
        "So that it can take over without a gap: docs/how-to/restart-without-a-gap.md. Both need the option.",
        restart=True,
    )
    record: str = option(
        "",
        "HAR file in which requests and responses are recorded.",
        "For replay and grading (docs/how-to/record-traffic.md). Secrets are left out, addresses become pseudonyms."
        " Hits cost more meanwhile.",
        restart=True,
    )
    record_keep: tuple[str, ...] = option(
        (),
        "What is recorded unchanged: addresses (of readers), secrets (credentials, private feeds' contents).",
        "Think of where the file will go before you add one.",
        restart=True,
    )

    # -- deprecated: limits that no installation has had a reason to change; fixed from the next release on

    rdf_media_type: str = option(
        "application/rss+xml",
        "Media type of RSS 1.0 and 0.90.",
        "Desktop programs register for application/rss+xml; RDF tools want application/rdf+xml.",
        choices=("application/rss+xml", "application/rdf+xml"),
        per_feed=True,
        deprecated=True,
    )
    self_link_text: bool = option(
        False,
        "Repeat the channel's link as text of the self link.",
        "For readers that take the first link they meet for the channel's.",
        per_feed=True,
        deprecated=True,
    )
    changes_when: str = option(
        "minutes",
        "Unit of `when` in changes.xml: minutes (RSS Feed State) or seconds (weblogs.com).",
        choices=("minutes", "seconds"),
        deprecated=True,
    )
    drain_timeout: int = option(20, "Time that open requests have after SIGTERM.", unit="s", deprecated=True)
    push_interval: int = option(
        21_600,
        "Time for which a copy is used while its changes are pushed to this proxy, where HTTP allows; 0 = as polled.",
        per_feed=True,
        unit="s",
        deprecated=True,
    )
    answer_timeout: int = option(
        45,
        "Maximum time a reader waits; then the copy is served, or 504.",
        "Keep it below what readers wait (a minute is common). The fetch goes on, and the next reader has it.",
        unit="s",
        deprecated=True,
    )

    fast_path: bool = option(
        True,
        "Answer plain requests in front of mitmproxy (docs/explanation/fast-path.md).",
        restart=True,
        deprecated=True,
    )
    lifetime_max: int = option(
        86_400,
        "Seconds of the longest lifetime that is learned or estimated from Last-Modified.",
        per_feed=True,
        unit="s",
        deprecated=True,
    )
    claim_max: int = option(
        1_000_000, "Subscribers that one fetcher may claim for one feed.", restart=True, deprecated=True
    )
    claim_jump: int = option(
        10,
        "Factor by which a claim may grow at once; a larger one counts when it is repeated an hour later.",
        restart=True,
        deprecated=True,
    )
    connect_timeout: int = option(
        10, "Time to reach an origin: name, connection, TLS.", unit="s", deprecated=True, restart=True
    )
    head_timeout: int = option(
        15,
        "Seconds for a TLS handshake with a reader, and for the head of a request once it has begun; 0 = unlimited.",
        unit="s",
        deprecated=True,
    )
    header_max: int = option(
        65_536,
        "Bytes of the head of a message: more than common servers accept.",
        unit="B",
        deprecated=True,
        restart=True,
    )
    redirects_max: int = option(
        5,
        "Redirects that are followed for one request, as in the Fetch specification's early editions and most readers.",
        deprecated=True,
    )
    skip_max: int = option(
        259_200,
        "Seconds that a stretch of skipped hours and days holds a feed: a long weekend.",
        per_feed=True,
        unit="s",
        deprecated=True,
    )
    lifetime_min: int = option(
        300, "Seconds of the shortest lifetime that is learned or estimated.", per_feed=True, unit="s", deprecated=True
    )
    relocation_spacing: int = option(
        3_600,
        "Seconds between two sightings of a move or an end that count as two.",
        per_feed=True,
        unit="s",
        deprecated=True,
    )
    gone_recheck: int = option(
        604_800, "Seconds after which a feed that is gone is asked for again.", per_feed=True, unit="s", deprecated=True
    )
    realm: str = option(
        "feedproxy",
        "The protection space that readers sign in to (RFC 9110, section 11.5).",
        deprecated=True,
        restart=True,
    )
    deltas_not_for: tuple[str, ...] = option(
        ("feedparser/", "UniversalFeedParser/", "rss2email/"),
        "User-Agent prefixes that never get a 226: programs that ask for one and take it for an error.",
        deprecated=True,
    )
    feed_process: bool = option(
        True, "Feeds are read and compressed in a process beside the proxy.", deprecated=True, restart=True
    )
    fleet_timeout: int = option(
        250,
        "Milliseconds that a request waits for Redis; one in the same building answers within five.",
        unit="ms",
        deprecated=True,
        restart=True,
    )
    fleet_lease: int = option(
        15,
        "Seconds after which a silent machine has lost what it was fetching; it renews three times in that time.",
        unit="s",
        deprecated=True,
        restart=True,
    )
    fleet_expiry: int = option(
        691_200,
        "Seconds that a copy, or a purge, stays in Redis after it was last written: longer than stale_max.",
        unit="s",
        deprecated=True,
        restart=True,
    )
    fleet_exact_max: int = option(
        1_000,
        "Readers of a feed that a fleet counts one by one, at some 200 bytes each; above by HyperLogLog, within 0.8 %.",
        deprecated=True,
        restart=True,
    )
    ping_interval: int = option(
        30, "Seconds within which all pings of one feed cause one fetch.", unit="s", deprecated=True
    )
    websub_lease: int = option(
        864_000,
        "Seconds that a subscription at the hub lasts: ten days, as WebSub recommends.",
        unit="s",
        deprecated=True,
    )
    websub_signature: str = option(
        "sha256",
        "How the hub signs (WebSub, section 7.1): sha1 is broken, and subscribers know this one.",
        choices=("sha1", "sha256", "sha384", "sha512"),
        deprecated=True,
    )
    record_max: int = option(
        1_073_741_824, "Bytes of a recording after which a new file is begun.", unit="B", deprecated=True, restart=True
    )
    score_readers: int = option(200, "Readers whose behaviour is graded by each worker.", deprecated=True, restart=True)
    connect_ports: tuple[str, ...] = option(
        ("443",),
        "Ports that CONNECT may reach: anything can be said through a tunnel (RFC 9110, section 9.3.6).",
        deprecated=True,
        restart=True,
    )
    keep_unchanged: bool = option(
        True,
        "Keep the copy, and its tags, where nothing changed but dates of build and the like.",
        per_feed=True,
        deprecated=True,
    )

    @property
    def first_byte_timeout(self) -> int:
        """Seconds that an origin may take to begin its response: half of fetch_timeout."""
        return max(1, self.fetch_timeout // 2)

    @property
    def decoded_max(self) -> int:
        """Bytes of a response after decoding; more counts as a decompression bomb."""
        return 5 * self.buffer_max

    @property
    def memory(self) -> MemoryLimits:
        """The limits of the caches in memory."""
        return MemoryLimits.of(self.memory_max)

    @property
    def stale_max_refused(self) -> int:
        """Seconds that a stale copy is served while its origin answers 403 or 404, which may be intended."""
        return min(self.stale_max, 86_400)

    @property
    def subscriptions_per_site(self) -> int:
        """Subscriptions with callbacks at one site (registrable domain)."""
        return max(2, self.subscriptions_max // 50)

    @property
    def price(self) -> int:
        """Seconds of staleness that a request to an origin has to save (`polling`)."""
        return price_of(self.polling) or PRICES["balanced"]

    @property
    def is_fleet(self) -> bool:
        """True if several machines share the store."""
        return self.store.startswith(("redis://", "rediss://", "unix://"))

    @property
    def local_store(self) -> str:
        """Location of this machine's own store."""
        return self.fleet_local if self.is_fleet else self.store

    @property
    def is_targeted(self) -> bool:
        """True if targeted cache-control fields apply to this proxy (RFC 9213, section 2.2)."""
        return self.targeted_fields == "always" or (self.targeted_fields == "reverse" and bool(self.upstream))


class Loader(Protocol):
    """The part of mitmproxy's loader that `declare` needs."""

    def add_option(self, name: str, typespec: Any, default: Any, help: str, choices: Any = None) -> None: ...


def declare(loader: Loader, *names: str) -> None:
    """Declare these options to mitmproxy. Raises LookupError for an unknown name."""
    wanted = set(names)
    for option_field in fields(Settings):
        if option_field.name in wanted:
            default = option_field.default
            kind: Any = type(default)
            if isinstance(default, tuple):
                kind, default = Sequence[str], list(default)
            metadata = option_field.metadata
            loader.add_option(option_field.name, kind, default, metadata["text"], metadata["choices"] or None)
            wanted.discard(option_field.name)
    if wanted:
        raise LookupError(f"no such option: {', '.join(sorted(wanted))}")


def require(options: Any, **values: Any) -> None:
    """Set those of mitmproxy's options that have other values: each change copies all options."""
    changed = {name: value for name, value in values.items() if name not in options or getattr(options, name) != value}
    if changed:
        options.update_defer(**changed)


def format_value(name: str, value: Any) -> Any:
    """Return an option's value as a configuration writes it: a number that has a unit as text with that unit."""
    unit: Unit = next((item.metadata["unit"] for item in fields(Settings) if item.name == name), "")
    return format_quantity(value, unit) if unit and value else value


def option_names() -> list[str]:
    """Return every option's name, in the order of this file, without the deprecated ones."""
    return [item.name for item in fields(Settings) if not item.metadata["deprecated"]]


def deprecated_names() -> list[str]:
    """Return the options that still work and will be fixed limits in the next release."""
    return [item.name for item in fields(Settings) if item.metadata["deprecated"]]


def restart_names() -> list[str]:
    """Return the options that are read at the start only."""
    return [item.name for item in fields(Settings) if item.metadata["restart"]]


def defaults() -> dict[str, Any]:
    """Return the default of every option, deprecated ones included, as a configuration would write it."""
    found = {item.name: item.default for item in fields(Settings)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def per_feed_names() -> list[str]:
    """Return the options that a rule may override."""
    return [item.name for item in fields(Settings) if item.metadata["per_feed"]]


def from_options(values: Mapping[str, Any]) -> Settings:
    """Return Settings with these option values. Missing options have their defaults, and unknown ones are ignored."""
    known: dict[str, Any] = {}
    for item in fields(Settings):
        if item.name in values:
            value = values[item.name]
            known[item.name] = tuple(value) if isinstance(item.default, tuple) else value
    return Settings(**known)


def ports(settings: Settings, listed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the listed ports, and with `allow_private` all above 1024: services in private networks use any port."""
    return (*listed, "1025-65535") if settings.allow_private else listed


def listen_address(text: str, option_name: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`, `:PORT` (all addresses: the host is empty) or `PORT` (loopback).

    Raises UsageError, which names the option.
    """
    found = _ADDRESS.fullmatch(text.strip())
    if found is None or int(found["port"]) > 65535:
        default = getattr(Settings(), option_name)
        raise UsageError(f"{option_name}: {text}: expected HOST:PORT, such as {default}")
    host = found["six"] or found["host"]
    return "127.0.0.1" if host is None else host, int(found["port"])


def override(settings: Settings, rules: Iterable[Mapping[str, Any]]) -> Settings:
    """Return settings with rules applied; later rules take precedence."""
    merged: dict[str, Any] = {}
    for rule in rules:
        merged.update(rule)
    return replace(settings, **merged) if merged else settings
