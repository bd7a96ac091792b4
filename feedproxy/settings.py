"""Every option of feedproxy: name, type, default, and a sentence for the operator.

An addon declares the options it uses to mitmproxy (`declare`), the library reads them as one value,
`Settings`; a rule of the configuration's `feeds:` list overrides those marked `per_feed` for the feeds
it matches. Inside, durations are whole seconds (or milliseconds, where `unit` says so) and sizes bytes, since
mitmproxy knows no other numbers; a configuration may write `30m` and `4GiB` (quantities.py).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

from feedproxy.errors import UsageError
from feedproxy.quantities import Unit, show

_ADDRESS = re.compile(r"(?:(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^:\[\]/@\s]*)):)?(?P<port>[0-9]{1,5})")


def option(default: Any, text: str, *, choices: tuple[str, ...] = (), per_feed: bool = False, unit: Unit = "") -> Any:
    """Describe an option: default, sentence, permitted values, unit, and whether a rule may override it."""
    metadata = {"text": text, "choices": choices, "per_feed": per_feed, "unit": unit}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator decided. Built from mitmproxy's options; valid once built."""

    # -- entrances
    listen: str = option("127.0.0.1:8080", "HOST:PORT where readers connect; `feedproxy serve` alone reads it.")
    upstream: str = option("", "The origin that feedproxy stands in front of (reverse). Empty: gateway and proxy.")
    public_url: str = option("", "The address under which readers reach this proxy, such as https://feeds.example/.")
    endpoint_prefix: str = option("/-/", "The path under which feedproxy's own endpoints stand.")
    intercept: tuple[str, ...] = option(
        (), "Hosts whose TLS is decrypted in the explicit proxy (example.com, *.example.com). None by default."
    )
    trusted_proxies: tuple[str, ...] = option(
        (), "Addresses or networks of load balancers in front, which say in `forwarded_by` who asks."
    )
    forwarded_by: str = option(
        "x-forwarded-for",
        "The field that trusted_proxies name the client's address in; the other is ignored.",
        choices=("x-forwarded-for", "forwarded"),
    )
    connect_ports: tuple[str, ...] = option(
        ("443",), "Ports that CONNECT may reach; with allow_private all above 1024, too."
    )
    allow_private: bool = option(
        False, "Let targets be at private, loopback and link-local addresses, and on any port above 1024."
    )
    allow_networks: tuple[str, ...] = option((), "Private networks that targets may be in all the same.")
    allow_ports: tuple[str, ...] = option(
        ("80", "443", "8080", "8443"), "Ports a target may have; `1025-65535` adds a range."
    )
    max_connections: int = option(10_000, "Connections from readers held at once; more are refused.")
    max_connections_per_address: int = option(
        512, "Of these from one address (IPv6: /64); 0 for any number. Peers in trusted_proxies have no such limit."
    )
    head_timeout: int = option(
        15, "Seconds for a TLS handshake, and for a request's head once begun; 0 for no limit.", unit="s"
    )
    fast_path: bool = option(True, "Answer plain requests in front of mitmproxy; `feedproxy serve` alone reads it.")
    tls_certificate: str = option("", "PEM file with the certificate (and its chain) to serve readers under TLS with.")
    tls_key: str = option("", "PEM file with its key; empty: the key stands in the certificate's file.")
    memo_max: int = option(
        134_217_728, "Bytes of answers kept ready-made for the fast path, beside the store's.", unit="B"
    )

    # -- fetching
    contact_url: str = option("", "A page about this proxy for publishers, put into the User-Agent.")
    connect_timeout: int = option(10, "Seconds to reach an origin.", unit="s")
    first_byte_timeout: int = option(30, "Seconds an origin may take to begin its answer.", unit="s")
    fetch_timeout: int = option(60, "Seconds for a whole exchange with an origin.", unit="s")
    answer_timeout: int = option(45, "Seconds a reader waits at most; then the copy, or 504.", unit="s")
    buffer_max: int = option(
        10_000_000, "Bytes of a response on the wire above which it streams through unstored.", unit="B"
    )
    decoded_max: int = option(
        50_000_000, "Bytes of a response after decoding above which it counts as a bomb.", unit="B"
    )
    header_max: int = option(65_536, "Bytes of the head of a message.", unit="B")
    redirects_max: int = option(5, "Redirects followed for one request.")

    # -- freshness
    feed_hints: str = option(
        "enforce",
        "How ttl, skipHours, skipDays and sy:* count: enforce, heuristic (only where HTTP is silent), off.",
        choices=("enforce", "heuristic", "off"),
        per_feed=True,
    )
    hint_max: int = option(86_400, "Seconds a single hint can hold a feed at most.", per_feed=True, unit="s")
    skip_max: int = option(
        259_200, "Seconds a stretch of skipped hours and days can hold a feed at most.", per_feed=True, unit="s"
    )
    default_lifetime: int = option(
        1_800, "Seconds a response is fresh when nobody says anything.", per_feed=True, unit="s"
    )
    learned_lifetime: int = option(
        2_700,
        "Seconds a feed is fresh that changes hourly and says nothing; others by the cube root of how seldom they do.",
        per_feed=True,
        unit="s",
    )
    lifetime_min: int = option(300, "Least seconds of a learned or guessed lifetime.", per_feed=True, unit="s")
    lifetime_max: int = option(86_400, "Most seconds of a learned or guessed lifetime.", per_feed=True, unit="s")
    feed_min_interval: int = option(
        60, "Least seconds between two fetches of one feed; 0 for none.", per_feed=True, unit="s"
    )
    site_interval: int = option(
        1, "Seconds between two fetches of feeds of one site; 0 for none.", per_feed=True, unit="s"
    )
    refresh_ahead: bool = option(
        True, "Refresh feeds that are read before their copy's time is over, so that no reader waits.", per_feed=True
    )
    refresh_per_poll: int = option(
        1,
        "Requests to the origin that refreshing ahead may cost for each request of the feed's readers, at most.",
        per_feed=True,
    )
    refresh_idle_after: int = option(
        3_600,
        "Seconds without a reader after which a feed is no longer refreshed ahead; one lifetime of its copy at least.",
        per_feed=True,
        unit="s",
    )
    targeted_fields: str = option(
        "reverse",
        "Where CDN-Cache-Control counts before Cache-Control: reverse, always, off.",
        choices=("reverse", "always", "off"),
        per_feed=True,
    )
    stale_while_refreshing: int = option(
        0,
        "Seconds a feed's stale copy answers while it is refreshed, where HTTP does not forbid it; 0 for not at all.",
        per_feed=True,
        unit="s",
    )
    learned_patience: int = option(
        0,
        "Seconds up to which a feed that changes seldom is left alone beyond its max-age, while its stale copy may"
        " answer (stale_while_refreshing); 0: it is refreshed at once.",
        per_feed=True,
        unit="s",
    )
    reload_interval: int = option(
        0,
        "Seconds within which a feed is not fetched again for a reader's no-cache; 0 for the floor.",
        per_feed=True,
        unit="s",
    )
    state_freshness: bool = option(False, "In reverse mode: say the hint's remaining lifetime over the origin's word.")

    # -- bad updates, moves and endings
    on_bad_update: str = option(
        "keep",
        "What a bad update does to a good copy: keep (the copy is served) or pass.",
        choices=("keep", "pass"),
        per_feed=True,
    )
    stale_max: int = option(
        604_800, "Seconds a good copy may stand in for an origin that fails.", per_feed=True, unit="s"
    )
    stale_max_refused: int = option(86_400, "The same for 403 and 404.", per_feed=True, unit="s")
    relocation_confirmations: int = option(
        2, "Times a permanent move or end is seen before readers are told.", per_feed=True
    )
    relocation_spacing: int = option(3_600, "Seconds between two sightings that count.", per_feed=True, unit="s")
    gone_recheck: int = option(
        604_800, "Seconds after which a feed that is gone is asked for again.", per_feed=True, unit="s"
    )
    moved_to: str = option(
        "", "In a rule: the feed's new address; readers get 301 (and may ask for the XML form).", per_feed=True
    )
    gone: bool = option(False, "In a rule: the feed has ended; readers get 410.", per_feed=True)
    announce_as: str = option(
        "http",
        "How moved_to and gone are told: http (301, 410) or xml (a redirect document).",
        choices=("http", "xml"),
        per_feed=True,
    )
    private: bool = option(False, "In a rule: never name this feed in a public list.", per_feed=True)

    # -- access
    readers: tuple[str, ...] = option(
        (), "Who may read: names of users, or `*` for whoever has signed in. Empty: everybody.", per_feed=True
    )
    users_file: str = option("", "Readers' passwords, as `htpasswd -B` writes them (bcrypt, Argon2).")
    wsse_file: str = option(
        "", "Lines of NAME:PASSWORD for readers that sign in by WSSE; to be read by this user alone."
    )
    tokens_file: str = option("", "Secret addresses that `feedproxy token` gives out and takes back.")
    wallet: str = option("", "A YAML file of credentials for origins, and for whose requests they are used.")
    realm: str = option("feedproxy", "What readers are told they sign in to.")

    # -- what is done to a feed
    feed_usm: bool = option(True, "Serve feeds with the media type that lets a click subscribe.", per_feed=True)
    rdf_media_type: str = option(
        "application/rss+xml",
        "The media type of RSS 1.0 and 0.90.",
        choices=("application/rss+xml", "application/rdf+xml"),
        per_feed=True,
    )
    self_link: str = option(
        "",
        "add (a missing self link), correct (also mend a wrong one), off; empty: correct in reverse, add else.",
        choices=("", "add", "correct", "off"),
        per_feed=True,
    )
    self_link_text: bool = option(
        False, "Repeat the channel's link as text of the self link, for readers that confuse the two.", per_feed=True
    )
    deltas: bool = option(
        True, "Send readers that ask for it (A-IM: feed) only the entries that are new to them.", per_feed=True
    )
    deltas_not_for: tuple[str, ...] = option(
        ("feedparser/", "UniversalFeedParser/", "rss2email/"),
        "Beginnings of User-Agents that get the whole all the same: programs that ask for deltas without knowing it.",
    )
    announce_hub: bool = option(
        False, "In reverse mode, with public_url: name our WebSub hub in the publisher's feeds.", per_feed=True
    )
    keep_unchanged: bool = option(
        True, "Keep the copy, and its tags, where nothing changed but dates of build and the like.", per_feed=True
    )
    gzip_level: int = option(6, "Effort of gzip, 1 to 9; 0 switches it off.")
    brotli_level: int = option(5, "Effort of br, 1 to 11; 0 switches it off.")
    zstd_level: int = option(6, "Effort of zstd, 1 to 19; 0 switches it off.")
    feed_process: bool = option(
        True, "Read and compress feeds in a process beside the proxy, so that no reader waits meanwhile."
    )

    negotiate: bool = option(
        False, "Answer with another format of the feed where the reader's Accept prefers it.", per_feed=True
    )

    lead_to_feeds: bool = option(
        True, "In the gateway: lead readers whose Accept prefers feeds from a page to the feed it names.", per_feed=True
    )

    # -- subscribers
    subscriber_window: int = option(86_400, "Seconds within which a reader counts as a subscriber.", unit="s")
    claim_max: int = option(1_000_000, "Most subscribers that one fetcher's User-Agent may claim for one feed.")
    claim_jump: int = option(
        10, "A claim more than this many times the last one is held back until it is seen again an hour later."
    )

    # -- store
    store: str = option(
        "",
        "Folder of the store; empty: the platform's cache folder; `memory:` keeps nothing on disk; `redis://HOST/` is"
        " shared by several machines.",
    )
    memory_max: int = option(268_435_456, "Bytes of stored responses kept in memory.", unit="B")
    store_max: int = option(4_294_967_296, "Bytes of stored responses kept on disk.", unit="B")

    # -- a store that several machines share
    fleet_local: str = option("", "With `redis://`: folder of this machine's own store in front, as `store` is alone.")
    fleet_prefix: str = option("feedproxy", "What all names in Redis begin with: one for each fleet.")
    fleet_timeout: int = option(250, "Milliseconds that a request waits for Redis at most.", unit="ms")
    fleet_lease: int = option(
        15, "Seconds after which a machine that says nothing has lost what it was fetching.", unit="s"
    )
    fleet_expiry: int = option(691_200, "Seconds that a copy stays in Redis after it was last written.", unit="s")
    fleet_exact_max: int = option(
        1_000, "Readers of a feed up to which a fleet counts exactly; above, by HyperLogLog, within 0.8 %."
    )

    # -- hearing and telling of changes
    ping_unknown: str = option(
        "note",
        "What a ping of an unknown site does: note (the operator sees it), fetch (its feed is looked for), ignore.",
        choices=("note", "fetch", "ignore"),
    )
    ping_interval: int = option(30, "Seconds within which all pings of one feed make us fetch it once.", unit="s")
    ping_source_limit: int = option(30, "Pings a minute that one address may send; 0 for any number.")
    changes_when: str = option(
        "minutes",
        "What `when` counts in changes.xml: minutes (RSS Feed State) or seconds (weblogs.com's original).",
        choices=("minutes", "seconds"),
    )
    ping_sinks: tuple[str, ...] = option(
        (), "Who is told when one of the upstream's feeds changes: URLs, see docs/how-to/tell-others.md."
    )
    purge_sinks: tuple[str, ...] = option(
        (),
        "Caches in front (a CDN, Varnish) that are told to forget feeds that changed: see docs/how-to/behind-a-cdn.md.",
    )
    purge_fields: tuple[str, ...] = option(
        (), "Fields, each NAME: VALUE, that are sent with every purge: what a CDN wants as its key, for example."
    )
    subscriptions_max: int = option(50_000, "Subscriptions held, all protocols together; more are refused.")
    subscriptions_per_site: int = option(
        1_000, "Of these with callbacks at one site (registrable domain); 0 for any number."
    )
    subscription_source_limit: int = option(
        60, "Subscriptions that one address may ask for in a minute; 0: any number."
    )
    push_interval: int = option(
        21_600,
        "Seconds a feed's copy may be used while its changes are pushed to us, where HTTP allows; 0: polled as ever.",
        per_feed=True,
        unit="s",
    )
    websub_subscribe: bool = option(
        True, "Subscribe at the WebSub hubs of feeds that are read here; needs public_url.", per_feed=True
    )
    websub_hub: str = option(
        "own",
        "Whose feeds our hub (WebSub) tells of: own (the upstream's), known (any public one), off; needs public_url.",
        choices=("own", "known", "off"),
    )
    websub_lease: int = option(864_000, "Seconds a subscription at our hub lasts: by default, and at most.", unit="s")
    websub_signature: str = option("sha256", "How our hub signs.", choices=("sha1", "sha256", "sha384", "sha512"))
    rsscloud_hub: str = option(
        "known",
        "Whose feeds rssCloud tells of: own (the upstream's), known (any public one held), off.",
        choices=("own", "known", "off"),
    )
    rsscloud_register: bool = option(
        True, "Register with the rssCloud of feeds that have a <cloud>; needs public_url.", per_feed=True
    )
    announce_cloud: bool = option(
        False, "In reverse mode, with public_url: name our rssCloud in the publisher's RSS 2.0 feeds.", per_feed=True
    )
    cnws_publisher: str = option(
        "known",
        "Whose feeds the change notification service tells of: own (the upstream's), known (any public one held), off.",
        choices=("own", "known", "off"),
    )
    cnws_subscribe: str = option(
        "",
        "In a rule: the change notification service that tells of this feed's changes; needs public_url.",
        per_feed=True,
    )

    # -- operating
    workers: int = option(1, "Processes that serve readers on one port; `feedproxy serve` alone reads it.")
    admin: str = option("127.0.0.1:8081", "HOST:PORT of the admin listener; empty switches it off.")
    admin_token: str = option("", "Token for the admin listener; required when it is not on loopback.")
    admin_token_file: str = option("", "File that holds the admin token, in place of admin_token.")
    admin_hosts: tuple[str, ...] = option((), "Names under which the admin listener may be called, beside its address.")
    log_format: str = option("text", "The line logged per request: text, json or off.", choices=("text", "json", "off"))
    score_readers: int = option(
        200, "Readers whose behaviour is judged, for the page /readers, by each worker; 0 judges nobody."
    )
    drain_timeout: int = option(20, "Seconds that requests under way have after SIGTERM.", unit="s")
    record: str = option(
        "", "A HAR file in which to record what readers ask and origins say; every answer takes the ordinary way then."
    )
    record_max: int = option(
        1_073_741_824, "Bytes of a recording after which a new file is begun; 0 for no limit.", unit="B"
    )
    record_keep: tuple[str, ...] = option(
        (), "What is recorded as it is: addresses (of readers), secrets (credentials, private feeds' contents)."
    )

    @property
    def is_fleet(self) -> bool:
        """Whether the store is one that several machines share."""
        return self.store.startswith(("redis://", "rediss://", "unix://"))

    @property
    def local_store(self) -> str:
        """Where this machine's own store is."""
        return self.fleet_local if self.is_fleet else self.store

    @property
    def is_targeted(self) -> bool:
        """Whether the fields for caches that act for the origin are meant for us (RFC 9213, section 2.2)."""
        return self.targeted_fields == "always" or (self.targeted_fields == "reverse" and bool(self.upstream))


class Loader(Protocol):
    """What `declare` needs of mitmproxy's loader."""

    def add_option(self, name: str, typespec: Any, default: Any, help: str, choices: Any = None) -> None: ...


def declare(loader: Loader, *names: str) -> None:
    """Declare these options to mitmproxy, from the one place that defines them."""
    wanted = set(names)
    for each in fields(Settings):
        if each.name in wanted:
            default = each.default
            kind: Any = type(default)
            if isinstance(default, tuple):
                kind, default = Sequence[str], list(default)
            loader.add_option(each.name, kind, default, each.metadata["text"], each.metadata["choices"] or None)
            wanted.discard(each.name)
    if wanted:
        raise LookupError(f"no such option: {', '.join(sorted(wanted))}")


def shown(name: str, value: Any) -> Any:
    """Return an option's value as a configuration writes it: a number that has a unit as text with that unit."""
    unit: Unit = next((each.metadata["unit"] for each in fields(Settings) if each.name == name), "")
    return show(value, unit) if unit and value else value


def option_names() -> list[str]:
    """Every option's name, in the order of this file."""
    return [each.name for each in fields(Settings)]


def per_feed_names() -> list[str]:
    """The options that a rule may override."""
    return [each.name for each in fields(Settings) if each.metadata["per_feed"]]


def from_options(values: Mapping[str, Any]) -> Settings:
    """Settings from option values; names that are missing keep their defaults, unknown ones are passed over."""
    known: dict[str, Any] = {}
    for each in fields(Settings):
        if each.name in values:
            value = values[each.name]
            known[each.name] = tuple(value) if isinstance(each.default, tuple) else value
    return Settings(**known)


def ports(settings: Settings, listed: tuple[str, ...]) -> tuple[str, ...]:
    """The ports listed, and with `allow_private` all above 1024: what runs on one's own network runs anywhere."""
    return (*listed, "1025-65535") if settings.allow_private else listed


def listen_address(text: str, option_name: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, `:PORT` (all addresses: the host is empty) or `PORT` (this machine alone).

    Raises UsageError, which names the option.
    """
    found = _ADDRESS.fullmatch(text.strip())
    if found is None or int(found["port"]) > 65535:
        default = getattr(Settings(), option_name)
        raise UsageError(f"{option_name}: {text}: expected HOST:PORT, such as {default}")
    host = found["six"] or found["host"]
    return "127.0.0.1" if host is None else host, int(found["port"])


def override(settings: Settings, rules: Iterable[Mapping[str, Any]]) -> Settings:
    """Settings with the rules that match a feed laid over them, later rules over earlier ones."""
    merged: dict[str, Any] = {}
    for rule in rules:
        merged.update(rule)
    return replace(settings, **merged) if merged else settings
