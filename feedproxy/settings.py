"""Options of feedproxy: name, type, default, unit and description.

`feedproxy options`, docs/reference/options.md and conf/ are made from this module (`make docs`). Addons declare their
options to mitmproxy (`declare`), and the library reads all of them as one `Settings`. Durations are whole seconds and
sizes are bytes. A configuration may write `30m` and `4GiB` (durations_and_sizes.py).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, lru_cache
from typing import Any, Protocol

from feedproxy.durations_and_sizes import Unit, format_quantity, parse
from feedproxy.errors import UsageError
from feedproxy.memory_max_shares import MemoryLimits

_ADDRESS = re.compile(r"(?:(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^:\[\]/@\s]*)):)?(?P<port>[0-9]{1,5})")

PRICES: Mapping[str, int] = {"off": 300, "frugal": 7200, "balanced": 1800, "eager": 300}
"""Price of a request for each name in the option `polling`: the seconds of staleness that a request must save.

If `polling` is `off`, there are no scheduled refreshes: a copy is refreshed by the first poll after its lifetime. The
price of `off` is low, so that lifetimes are short.
"""


MAXIMA: Mapping[Unit, int] = {"": 10**9, "s": 10 * 365 * 86_400, "ms": 86_400_000, "B": 2**50}
"""Maximum values of numeric options by unit: counts, ten years in seconds, a day in milliseconds, and a pebibyte in
bytes."""


@lru_cache(maxsize=256)
def price_of(polling: str) -> int | None:
    """Return the price of a request for a value of `polling`, in seconds of staleness, or None if the value is
    invalid."""
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
    minimum: int = 0,
    maximum: int | None = None,
    restart: bool = False,
    deprecated: bool = False,
    secret: bool = False,
) -> Any:
    """Return the field of an option: its default, its effect (`text`), and a reason to change it (`why`).

    - `choices`: the permitted values.
    - `unit`, `minimum`, `maximum`: unit and limits of a number (by default MAXIMA).
    - `per_feed`: rules may override the option.
    - `restart`: a reload (SIGHUP) does not change the option.
    - `deprecated`: the option still works, is not listed, and is reported at the start if it is set.
    - `secret`: the value appears on no page and in no error message.
    """
    metadata = {"text": text, "why": why, "choices": choices, "per_feed": per_feed, "unit": unit}
    limits = {"minimum": minimum, "maximum": MAXIMA[unit] if maximum is None else maximum}
    flags = {"restart": restart, "deprecated": deprecated, "secret": secret}
    return field(default=default, metadata={**metadata, **limits, **flags})


@dataclass(frozen=True, slots=True)
class Settings:
    """The values of all options."""

    # -- listening
    listen: str = option(
        "127.0.0.1:8080",
        "HOST:PORT at which feedproxy serves clients.",
        "With the default, only programs on this machine can connect. For an office, set the machine's address"
        " in the office network, or 0.0.0.0 with a firewall. PORT alone means loopback, :PORT means every"
        " address.",
        restart=True,
    )
    upstream: str = option(
        "",
        "URL of the origin in reverse mode. If it is empty, feedproxy is gateway and explicit proxy.",
        "Publishers set this option, see conf/publisher.yaml. feedproxy does not check the address: it may be"
        " private, and have any port.",
        restart=True,
    )
    public_url: str = option(
        "",
        "The URL at which clients, hubs and clouds reach this proxy, such as https://feeds.example/.",
        "Set it if a server in front adds TLS or another host name. Clients then use another URL than the one"
        " that feedproxy sees in their requests. feedproxy writes public_url into pages, lists, self links and"
        " redirects. Push updates (WebSub, rssCloud, CNWS) need it.",
        restart=True,
    )
    gateway_hosts: tuple[str, ...] = option(
        (),
        "Further host names at which the gateway answers, such as proxy.example.com or *.example.com; * stands for"
        " every name.",
        "The gateway always answers at IP addresses, at names without a dot (localhost, proxy), at names for private"
        " use (.local, .internal, .lan, .home.arpa), at the machine's own name, and at the hosts of listen and"
        " public_url. It refuses requests with any other name in Host. This prevents DNS rebinding, by which a web"
        " page could use the gateway through its reader's browser.",
    )
    trusted_proxies: tuple[str, ...] = option(
        (),
        "Addresses or networks of the load balancers, CDNs and TLS terminators in front.",
        "In requests from these, feedproxy reads the client's address from the field that forwarded_by names."
        " Without this option, all readers behind a load balancer count as one reader. Do not list networks of"
        " readers.",
    )
    forwarded_by: str = option(
        "x-forwarded-for",
        "The field in which trusted_proxies state the client's address: x-forwarded-for or forwarded (RFC 7239).",
        "feedproxy ignores the other of these two fields, and X-Forwarded-Host. It reads X-Forwarded-Proto only"
        " with x-forwarded-for. Every trusted proxy has to write the named field itself:"
        " docs/how-to/behind-a-load-balancer.md.",
        choices=("x-forwarded-for", "forwarded"),
    )
    endpoint_prefix: str = option(
        "/-/",
        "The path of feedproxy's own endpoints.",
        "Change it only if the origin in reverse mode uses this path itself.",
        restart=True,
    )
    max_connections: int = option(
        10_000,
        "Maximum number of client connections. At this number, a new connection replaces the connection that has been"
        " idle for longest. If no connection is idle, the new one is refused.",
        "Each connection takes a few kilobytes and a file descriptor. Keep the number below `ulimit -Hn`.",
        minimum=1,
    )
    max_connections_per_address: int = option(
        512,
        "Maximum number of connections from one client address (IPv6: from one /64). 0 = unlimited.",
        "Raise it if many readers share one address (NAT). The limit does not apply to addresses in trusted_proxies.",
    )
    tls_certificate: str = option(
        "",
        "PEM file with the certificate and its chain, with which feedproxy serves clients under TLS.",
        "Use it if no server in front does TLS. If the file is renewed, feedproxy loads it within a"
        " minute, or at once at a reload (SIGHUP).",
        restart=True,
    )
    tls_key: str = option(
        "", "PEM file with the certificate's key, if the certificate's file does not contain it.", restart=True
    )

    # -- permitted targets
    allow_private: bool = option(
        False,
        "Permit targets at private, loopback and link-local addresses, and at any port above 1024.",
        "Every client of this proxy can then reach these addresses and ports. allow_networks is safer, because"
        " it permits only certain networks. If you set the option back to false, stored copies of such addresses are"
        " no longer served, but copies of names that resolve to them are served until you purge them, or until"
        " stale_max has passed.",
        restart=True,
    )
    allow_networks: tuple[str, ...] = option(
        (),
        "Private networks in which targets may be.",
        "For example [10.20.0.0/16], for the feeds of an intranet.",
        restart=True,
    )
    allow_ports: tuple[str, ...] = option(
        ("80", "443", "8080", "8443"),
        "Ports that a target may have. `1025-65535` adds a range.",
        "With few permitted ports, clients cannot probe other services through this proxy.",
        restart=True,
    )
    intercept: tuple[str, ...] = option(
        (),
        "Hosts whose TLS feedproxy decrypts in the explicit proxy, such as example.com or *.example.com.",
        "feedproxy can then cache their feeds. Clients must trust mitmproxy's CA (~/.mitmproxy). Connections to"
        " all other hosts are tunnelled. The gateway fetches https itself, and does not need this option.",
    )

    # -- requests to origins
    upstream_proxy: str = option(
        "",
        "A parent proxy for all requests to other servers: http://[USER:PASSWORD@]HOST:PORT, socks5://…,"
        " socks5h://…, environment (http_proxy, https_proxy, all_proxy, no_proxy), or direct.",
        "Set it if machines can reach the Internet only through a proxy. feedproxy checks addresses before it"
        " contacts the parent proxy. Requests to this machine itself never use it. See"
        " docs/how-to/behind-a-companys-proxy.md.",
        per_feed=True,
    )
    contact_url: str = option(
        "",
        "The address of a page about this proxy. feedproxy states it in its User-Agent.",
        "Please set it: publishers look at this page before they block feedproxy. A name and a way to write to"
        " you are enough.",
    )
    feed_min_interval: int = option(
        60,
        "Minimum time between two fetches of one feed. 0 = none.",
        "This limit also applies if a client reloads the feed, and to pings and refreshes. Raise it for feeds"
        " that change daily.",
        per_feed=True,
        unit="s",
    )
    site_interval: int = option(
        1,
        "Minimum time between two fetches from one site (registrable domain). 0 = none.",
        "Raise it in a rule for sites that ask for a longer interval.",
        per_feed=True,
        unit="s",
    )
    reload_interval: int = option(
        900,
        "Time after a fetch in which a feed reader that sends no-cache gets the copy. 0 = none.",
        "Some feed readers send no-cache with every poll. In skipped hours they also get the copy. If a person"
        " reloads a feed in a browser, feedproxy always asks the origin, but at most once per"
        " feed_min_interval.",
        per_feed=True,
        unit="s",
    )
    fetch_timeout: int = option(
        60,
        "Maximum time of one request to an origin with its response.",
        "At most half of this time may pass before the first byte of the response.",
        unit="s",
        restart=True,
        minimum=1,
    )
    buffer_max: int = option(
        10_000_000,
        "Maximum size of a stored response as transferred. Larger responses are streamed and not stored.",
        "The largest known feeds are a few megabytes. The default keeps audio files of podcasts out of the"
        " store. After decoding, a response may be five times as large.",
        unit="B",
        restart=True,
        minimum=1024,
    )

    # -- refreshing ahead of readers
    polling: str = option(
        "balanced",
        "Price of a request to an origin: off, frugal (2h), balanced (30m), eager (5m), or a duration.",
        "feedproxy refreshes a feed shortly before its readers are expected to poll, if the refresh is worth the"
        " price: all readers together must get new items at least this much earlier. A lower price causes more"
        " requests. The price also decides how long a copy answers if neither HTTP nor the feed states a lifetime."
        " `off` disables refreshes ahead of polls. Copies then answer for as long as with `eager`.",
        per_feed=True,
    )
    stale_while_refreshing: int = option(
        0,
        "Time for which a stale copy still answers while it is refreshed, unless HTTP forbids it.",
        "The reader that gets the stale copy does not wait, and gets new items at its next poll. If the copy"
        " has probably been outdated for more than two hours, the reader waits for the refresh. The time that"
        " an origin itself permits (stale-while-revalidate) needs no option.",
        per_feed=True,
        unit="s",
    )

    # -- freshness
    feed_hints: str = option(
        "enforce",
        "Effect of a feed's ttl, skipHours, skipDays and sy:*: enforce, heuristic (only if HTTP states no"
        " lifetime), off.",
        "With `enforce`, a copy may also answer after HTTP's lifetime has ended, if these hints permit it."
        " Choose another value if readers need new items before the publisher's schedule permits it.",
        choices=("enforce", "heuristic", "off"),
        per_feed=True,
    )
    hint_max: int = option(
        86_400,
        "Maximum time for which a copy answers because of one hint of the feed, such as its ttl.",
        "A ttl of a month is usually a mistake. Skipped hours and days can extend this time by up to three days.",
        per_feed=True,
        unit="s",
    )
    default_lifetime: int = option(
        1_800,
        "Freshness lifetime of a feed if neither HTTP, the feed nor its history of changes gives one.",
        per_feed=True,
        unit="s",
    )
    targeted_fields: str = option(
        "reverse",
        "Where CDN-Cache-Control takes precedence over Cache-Control (RFC 9213): reverse (in reverse mode),"
        " always, off.",
        "CDN-Cache-Control is meant for caches that act for the origin. If this proxy acts for certain sites,"
        " set `always` for them in a rule.",
        choices=("reverse", "always", "off"),
        per_feed=True,
    )
    shared_fields: tuple[str, ...] = option(
        (),
        "Names of request fields that feedproxy forwards, although all clients share the response.",
        "feedproxy drops all other unusual fields, or stores the response only for requests with the same"
        " fields (docs/decisions/unusual-requests.md). Name a field only if the origin lists it in Vary"
        " whenever a response depends on it. Otherwise one client can change the response that all clients get."
        " With `authorization`, feedproxy also shares responses to requests with credentials, as far as RFC 9111,"
        " section 3.5, permits. Feeds are not shared in this way.",
        per_feed=True,
    )
    ignore_query: tuple[str, ...] = option(
        (),
        "Names of query parameters that do not change a feed, such as utm_*. `*` matches any text.",
        "feedproxy treats /feed?utm_source=x like /feed: it stores one copy, and sends one request to the"
        " origin. Usually set in a rule. A wildcard does not match a parameter whose name suggests a secret."
        " Responses list the ignored parameters in No-Vary-Search, for caches in front.",
        per_feed=True,
    )
    state_freshness: bool = option(
        False,
        "In reverse mode, send a max-age that follows the feed's own schedule (ttl, skipHours, skipDays, sy:*).",
        "CDNs and readers then keep a feed for as long as its schedule says, even if the origin's Cache-Control"
        " states a shorter time.",
    )

    # -- when origins fail, move or end
    on_bad_update: str = option(
        "keep",
        "What clients get if the origin sends a bad update and feedproxy has a good copy: the copy (keep) or the bad"
        " update (pass).",
        "Bad updates are error pages, challenges, and empty, broken or ill-formed content. With `keep`, clients"
        " get the good copy, and Cache-Status states why. With `pass`, they get the bad update.",
        choices=("keep", "pass"),
        per_feed=True,
    )
    stale_max: int = option(
        604_800,
        "Maximum time for which the last good copy answers while its origin fails.",
        "After a 403 or 404, this time is a day at most.",
        per_feed=True,
        unit="s",
    )
    relocation_confirmations: int = option(
        2,
        "Number of observations, at least an hour apart, that confirm a permanent redirect or a 410.",
        "Before a redirect is confirmed, clients get the feed from its new address, and no redirect. They get a"
        " 410 at once. Some permanent redirects are mistakes that last an hour, and a reader that adopts a"
        " wrong address does not come back.",
        per_feed=True,
        minimum=1,
    )
    moved_to: str = option(
        "",
        "In a rule: the new address of the feed. Clients get 301.",
        per_feed=True,
    )
    gone: bool = option(
        False, "In a rule: the feed has ended. Clients get 410, so that they stop polling.", per_feed=True
    )
    announce_as: str = option(
        "http",
        "In a rule: how moved_to and gone are announced: http (by 301 or 410) or xml (by a redirect document).",
        "The redirect document is for readers that ignore status codes.",
        choices=("http", "xml"),
        per_feed=True,
    )
    private: bool = option(False, "In a rule: do not name this feed in any public list.", per_feed=True)

    # -- access
    readers: tuple[str, ...] = option(
        (),
        "Users who may read, or `*` for all signed-in users. By default all clients may read.",
        "Usually set in a rule. Feeds with this option are never in public lists (feeds.opml, changes.xml), not"
        " even for signed-in clients.",
        per_feed=True,
    )
    users_file: str = option(
        "",
        "File of readers' passwords, as `htpasswd -B` writes it (bcrypt, Argon2).",
        "If the content of the file changes, feedproxy reads it within a second. Only a change of the option itself"
        " needs a restart."
        " docs/how-to/ask-readers-who-they-are.md describes this option and the next three.",
        restart=True,
    )
    wsse_file: str = option(
        "", "File of NAME:PASSWORD lines for readers that sign in by WSSE. Its mode should be 0600.", restart=True
    )
    tokens_file: str = option(
        "",
        "File of hashes of the tokens in readers' secret addresses. `feedproxy token` creates and revokes tokens.",
        restart=True,
    )
    wallet: str = option(
        "",
        "YAML file of credentials for origins, with the users for whom feedproxy sends them.",
        "Its mode should be 0600.",
        restart=True,
    )

    # -- editing of feeds
    feed_usm: bool = option(
        True,
        "Serve feeds with the media type of their format (application/rss+xml …), so that a click on a feed can"
        " open a feed reader.",
        per_feed=True,
    )
    self_link: str = option(
        "",
        "The feed's link to itself: add (if it is missing or relative), correct (also repair a wrong link), off.",
        "A feed reader that gets the feed as a file needs this link to subscribe. An empty value means `correct` in"
        " reverse mode with public_url, `off` in reverse mode without public_url, and `add` in all other cases. All"
        " other bytes of the feed stay unchanged.",
        choices=("", "add", "correct", "off"),
        per_feed=True,
    )
    deltas: bool = option(
        True,
        "Send only new and changed items (226) to readers that ask for them (A-IM: feed).",
        "Other readers are not affected. Switch deltas off in a rule if readers of a feed lose items.",
        per_feed=True,
    )
    compression_dictionaries: str = option(
        "secure",
        "Use a feed's last versions as dictionaries to compress its next version (RFC 9842): secure, always, off.",
        "An update then often takes less than a tenth of its size in gzip (Content-Encoding: dcz). Clients and"
        " origins have to support this. secure: only over TLS or on loopback, as the RFC requires."
        " always: also over plain HTTP. Before you choose `always`, make sure that no device on the way alters"
        " codings that it does not know.",
        choices=("secure", "always", "off"),
        per_feed=True,
    )
    cors: bool = option(
        False,
        "Permit scripts on pages of all sites to read feeds (Access-Control-Allow-Origin: *).",
        "For feed readers that run in a browser. Feeds that are private or require sign-in are excluded.",
        per_feed=True,
    )
    negotiate: bool = option(
        False,
        "Answer in another format of the feed if the request's Accept prefers it.",
        "With this option, browsers get an HTML page in place of the feed. Therefore it is usually set in a rule."
        " Without this option, every format is available at /-/as/FORMAT/ADDRESS.",
        per_feed=True,
    )
    lead_to_feeds: bool = option(
        True,
        "In the gateway, redirect clients from a page to its feed, if their Accept prefers feeds.",
        "Feed readers can then subscribe to the address of a page. Browsers still get the page.",
        per_feed=True,
    )
    codings: tuple[str, ...] = option(
        ("br", "zstd", "gzip"),
        "Content codings that clients may get: br, zstd, gzip.",
        "feedproxy makes each coding of a version once, when a client first requests it.",
    )

    # -- subscribers
    subscriber_window: int = option(
        86_400,
        "Time after its last request for which a reader counts as a subscriber.",
        "Publishers see the count in feedproxy's User-Agent.",
        unit="s",
        restart=True,
        minimum=60,
    )
    list_readers_min: int = option(
        3,
        "Number of readers (1 to 16) that have to request a feed within 30 days before feeds.opml and"
        " changes.xml contain it.",
        "An address that only one reader knows can be a secret. 1 suits an office whose members trust each"
        " other. Imported feeds are always listed, and changes.xml always contains the feeds of `upstream`."
        " feedproxy distinguishes readers by User-Agent, and by user name or address.",
        minimum=1,
        maximum=16,
    )

    # -- the store
    store: str = option(
        "",
        "Folder of the store (default: the platform's cache folder), `memory:` to store nothing on disk, or"
        " `redis://HOST/` for a store that several machines share.",
        "With `memory:`, which needs quotes in YAML, feedproxy asks every origin again after a restart. For `redis://`"
        " and `rediss://`, see docs/how-to/run-a-fleet.md.",
        restart=True,
    )
    memory_max: int = option(
        268_435_456,
        "Maximum size of the stored responses in memory. The default is smaller if the machine or container has less"
        " than 768 MiB for each worker.",
        "A feed with its codings takes about 1.5 times its size, so the default has space for several thousand"
        " feeds. All data made from stored responses (prepared answers, conversions, deltas, reader scores)"
        " takes at most the same amount again: docs/explanation/memory.md.",
        unit="B",
        restart=True,
        minimum=2**20,
    )
    store_max: int = option(
        4_294_967_296, "Maximum size of the stored responses on disk.", unit="B", restart=True, minimum=2**20
    )
    fleet_local: str = option("", "With `redis://`: folder of this machine's own store on disk.", restart=True)
    fleet_prefix: str = option(
        "feedproxy",
        "With `redis://`: beginning of all names in Redis.",
        "If two fleets use one Redis, they need different prefixes.",
        restart=True,
    )

    # -- notifications
    push_subscribe: bool = option(
        True,
        "Subscribe at the hubs and clouds of the feeds that clients read, to get notified of changes. Needs"
        " public_url.",
        per_feed=True,
    )
    cnws_subscribe: str = option(
        "",
        "In a rule: URL of the change notification service at which feedproxy subscribes for these feeds. Needs"
        " public_url.",
        per_feed=True,
    )
    ping_unknown: str = option(
        "note",
        "Effect of a ping of a site without stored feeds: note (show it to the operator), fetch (find and fetch"
        " its feed), ignore.",
        "With `fetch`, any client can make this proxy fetch feeds.",
        choices=("note", "fetch", "ignore"),
    )
    source_limit: int = option(
        60,
        "Maximum number of pings, and of subscription requests, a minute from one client address (IPv6: from"
        " one /64). 0 = unlimited.",
    )
    subscriptions_max: int = option(
        50_000,
        "Maximum number of clients' subscriptions in all protocols together. The same number separately limits"
        " feedproxy's own subscriptions.",
        "Callbacks at one site (registrable domain) may have at most a fiftieth of this number.",
        restart=True,
        minimum=1,
    )
    websub_hub: str = option(
        "own",
        "Feeds to which clients can subscribe at the WebSub hub (/-/hub): own (the upstream's), known (all"
        " stored public feeds), off.",
        "Needs public_url. With `known` a subscriber can find out which feeds are stored here.",
        choices=("own", "known", "off"),
    )
    rsscloud_hub: str = option(
        "known",
        "Feeds to which clients can subscribe by rssCloud: own (the upstream's), known (all stored public feeds), off.",
        choices=("own", "known", "off"),
    )
    cnws_publisher: str = option(
        "known",
        "Feeds to which clients can subscribe at the change notification service (/-/cnws): own (the"
        " upstream's), known (all stored public feeds), off.",
        choices=("own", "known", "off"),
    )
    announce: tuple[str, ...] = option(
        (),
        "Push services that feedproxy writes into the publisher's feeds in reverse mode: hub (WebSub, all"
        " formats), cloud (rssCloud, RSS 2.0).",
        "Readers can then subscribe there and are notified of changes. Needs public_url.",
        per_feed=True,
    )
    ping_sinks: tuple[str, ...] = option(
        (),
        "URLs that feedproxy pings when one of the upstream's feeds changes.",
        "For publishers, see docs/how-to/tell-others.md.",
    )
    purge_sinks: tuple[str, ...] = option(
        (),
        "Caches in front (a CDN, Varnish) from which feedproxy purges a feed of the upstream that changes,"
        " moves or ends.",
        "Needs upstream and state_freshness. For publishers, see docs/how-to/behind-a-cdn.md.",
    )
    purge_fields: tuple[str, ...] = option(
        (),
        "Request fields, each NAME: VALUE, that feedproxy sends with every purge.",
        "If a field is a secret, such as a CDN's key, let only feedproxy's user read the configuration file.",
        secret=True,
    )

    # -- operating
    workers: int = option(
        1,
        "Number of processes that answer clients, on one port with one store.",
        "One process uses one processor core and answers thousands of requests a second. Several processes need a"
        " store on disk: docs/how-to/run-more-workers.md.",
        restart=True,
        minimum=1,
        maximum=256,
    )
    admin: str = option(
        "127.0.0.1:8081",
        "HOST:PORT of the admin listener (status page, metrics, refresh, purge). An empty value switches it off.",
        "On addresses other than loopback it needs a token.",
        restart=True,
    )
    admin_token: str = option(
        "",
        "Token for the admin listener.",
        "If you set it here, let only feedproxy's user read the configuration file.",
        restart=True,
        secret=True,
    )
    admin_token_file: str = option(
        "",
        "File that contains the token for the admin listener, in place of admin_token.",
        "For secrets that Docker, Kubernetes or systemd provide as files.",
        restart=True,
    )
    admin_hosts: tuple[str, ...] = option(
        (),
        "Further host names at which the admin listener answers.",
        "It refuses requests with any other name in Host. This prevents DNS rebinding, by which a web page in"
        " the operator's browser could use the listener.",
        restart=True,
    )
    log_format: str = option(
        "text",
        "Format of the log's line for each request: text, json, combined (as Apache and nginx write it) or off.",
        "The log contains no addresses of readers. Only text and json contain the reason of an answer.",
        choices=("text", "json", "combined", "off"),
    )
    log_level: str = option(
        "info",
        "Lowest level of the lines in the log: debug (with mitmproxy's messages), info, warning or error.",
        "Lines about requests have the level info.",
        choices=("debug", "info", "warning", "error"),
    )
    reuse_port: bool = option(
        False,
        "Permit a second feedproxy of the same user to listen on the same ports.",
        "The second can then replace the first without a gap: docs/how-to/restart-without-a-gap.md. Both"
        " processes need the option.",
        restart=True,
    )
    record: str = option(
        "",
        "HAR file in which feedproxy records requests and responses.",
        "Use the file for replays and grades (docs/how-to/record-traffic.md). It contains no secrets, and"
        " pseudonyms in place of the addresses of readers. During a recording, hits take longer.",
        restart=True,
    )
    record_keep: tuple[str, ...] = option(
        (),
        "Data that feedproxy records unchanged: addresses (of readers), secrets (credentials, contents of"
        " private feeds).",
        "Before you add a value, consider to whom you will give the file.",
        restart=True,
    )

    # -- deprecated: limits that will be fixed from the next release on

    rdf_media_type: str = option(
        "application/rss+xml",
        "Media type of RSS 1.0 and 0.90.",
        "Desktop programs register for application/rss+xml. RDF tools expect application/rdf+xml.",
        choices=("application/rss+xml", "application/rdf+xml"),
        per_feed=True,
        deprecated=True,
    )
    self_link_text: bool = option(
        False,
        "Repeat the channel's link as the text of the self link.",
        "For readers that take the first link of the document for the channel's.",
        per_feed=True,
        deprecated=True,
    )
    changes_when: str = option(
        "minutes",
        "Unit of `when` in changes.xml: minutes (RSS Feed State) or seconds (weblogs.com).",
        choices=("minutes", "seconds"),
        deprecated=True,
    )
    drain_timeout: int = option(
        20, "Maximum time after SIGTERM in which requests in progress are completed.", unit="s", deprecated=True
    )
    push_interval: int = option(
        21_600,
        "Time for which a copy answers while its changes are pushed to this proxy, if HTTP permits. 0 = none.",
        per_feed=True,
        unit="s",
        deprecated=True,
    )
    answer_timeout: int = option(
        45,
        "Maximum time for which a client waits for an origin. Then the client gets the copy, or 504.",
        "It should be less than the timeout of readers, usually a minute. The fetch continues, for later clients.",
        unit="s",
        deprecated=True,
        minimum=1,
    )

    fast_path: bool = option(
        True,
        "Answer usual requests before they reach mitmproxy (docs/explanation/fast-path.md).",
        restart=True,
        deprecated=True,
    )
    lifetime_max: int = option(
        86_400,
        "Longest freshness lifetime that is estimated from the feed's history or from Last-Modified.",
        per_feed=True,
        unit="s",
        deprecated=True,
    )
    claim_max: int = option(
        1_000_000,
        "Maximum number of subscribers that one fetcher may claim for one feed.",
        restart=True,
        deprecated=True,
    )
    claim_jump: int = option(
        10,
        "Factor by which a fetcher's claim may grow at once. A larger claim counts when it is repeated an hour later.",
        restart=True,
        deprecated=True,
        minimum=1,
    )
    connect_timeout: int = option(
        10,
        "Maximum time to connect to an origin: name lookup, connection and TLS.",
        unit="s",
        deprecated=True,
        restart=True,
        minimum=1,
    )
    head_timeout: int = option(
        15,
        "Maximum time of a TLS handshake with a client, of receiving the head of a request, and of receiving each 64 "
        "KiB of content for an endpoint. 0 = unlimited.",
        unit="s",
        deprecated=True,
    )
    header_max: int = option(
        65_536,
        "Maximum size of the head of a message. Common servers accept less.",
        unit="B",
        deprecated=True,
        restart=True,
        minimum=1024,
    )
    redirects_max: int = option(
        5,
        "Maximum number of redirects that are followed for one request, as in early editions of the Fetch Standard.",
        deprecated=True,
    )
    skip_max: int = option(
        259_200,
        "Maximum time by which skipped hours and days extend the time for which a copy answers: a long weekend.",
        per_feed=True,
        unit="s",
        deprecated=True,
    )
    lifetime_min: int = option(
        300, "Shortest freshness lifetime that is estimated.", per_feed=True, unit="s", deprecated=True
    )
    relocation_spacing: int = option(
        3_600,
        "Minimum time between two observations of a move or an end that both count.",
        per_feed=True,
        unit="s",
        deprecated=True,
    )
    gone_recheck: int = option(
        604_800,
        "Interval at which feedproxy requests a feed that is gone.",
        per_feed=True,
        unit="s",
        deprecated=True,
    )
    realm: str = option(
        "feedproxy",
        "Realm (protection space) in which readers sign in (RFC 9110, section 11.5).",
        deprecated=True,
        restart=True,
    )
    deltas_not_for: tuple[str, ...] = option(
        ("feedparser/", "UniversalFeedParser/", "rss2email/"),
        "Prefixes of the User-Agents that never get a 226. These programs ask for a 226, but treat it as an error.",
        deprecated=True,
    )
    feed_process: bool = option(True, "Parse and compress feeds in helper processes.", deprecated=True, restart=True)
    fleet_timeout: int = option(
        250,
        "Maximum time for which a request waits for Redis. A Redis in the same building answers within 5 ms.",
        unit="ms",
        deprecated=True,
        restart=True,
        minimum=1,
    )
    fleet_lease: int = option(
        15,
        "Time after which another machine may fetch a feed if the machine with its lease is silent.",
        unit="s",
        deprecated=True,
        restart=True,
        minimum=1,
    )
    fleet_expiry: int = option(
        691_200,
        "Time after its last write for which a copy, or the record of a purge, stays in Redis: longer than stale_max.",
        unit="s",
        deprecated=True,
        restart=True,
        minimum=1,
    )
    fleet_exact_max: int = option(
        1_000,
        "Readers of a feed that a fleet counts exactly, at 200 bytes each. Above, HyperLogLog counts within 0.8 %.",
        deprecated=True,
        restart=True,
    )
    ping_interval: int = option(
        30, "Time within which all pings of one feed cause one fetch.", unit="s", deprecated=True
    )
    websub_lease: int = option(
        864_000,
        "Maximum time for which a subscription at the hub lasts: ten days, as WebSub recommends.",
        unit="s",
        deprecated=True,
        minimum=60,
    )
    websub_signature: str = option(
        "sha256",
        "Algorithm of the hub's signatures (WebSub, section 7.1). sha1 is broken, and subscribers support sha256.",
        choices=("sha1", "sha256", "sha384", "sha512"),
        deprecated=True,
    )
    record_max: int = option(
        1_073_741_824,
        "Size of a recording at which a new file is begun.",
        unit="B",
        deprecated=True,
        restart=True,
        minimum=1024,
    )
    score_readers: int = option(
        200, "Maximum number of readers that each worker grades.", deprecated=True, restart=True
    )
    connect_ports: tuple[str, ...] = option(
        ("443",),
        "Ports that CONNECT may reach. Clients can send anything through a tunnel (RFC 9110, section 9.3.6).",
        deprecated=True,
        restart=True,
    )
    keep_unchanged: bool = option(
        True,
        "Keep the copy and its tags if an update changes only build dates and the like.",
        per_feed=True,
        deprecated=True,
    )

    @property
    def first_byte_timeout(self) -> int:
        """Return the seconds within which an origin must begin its response: half of fetch_timeout."""
        return max(1, self.fetch_timeout // 2)

    @property
    def keepalive_timeout(self) -> int:
        """Return the seconds without data after which a client's connection is closed (mitmproxy's `tcp_timeout`).

        They must exceed the longest hook (answer_timeout), because mitmproxy has no other timeout for connections.
        """
        return max(75, self.answer_timeout + 30)

    @property
    def decoded_max(self) -> int:
        """Return the maximum size of a decoded response, in bytes. A larger response counts as a decompression bomb."""
        return 5 * self.buffer_max

    @property
    def unsent_max(self) -> int:
        """Return the maximum size of the responses that clients have not read yet, in bytes."""
        return max(self.memory_max // 2, self.decoded_max)

    @property
    def receiving_max(self) -> int:
        """Return the maximum size of the responses that origins have begun to send, in bytes."""
        return max(self.memory_max // 4, 4 * self.buffer_max)

    @property
    def memory(self) -> MemoryLimits:
        return MemoryLimits.of(self.memory_max)

    @property
    def subscriptions_per_site(self) -> int:
        """Return the maximum number of subscriptions with callbacks at one registrable domain."""
        return max(2, self.subscriptions_max // 50)

    @property
    def price(self) -> int:
        """Return the seconds of staleness that a request to an origin must save (`polling`)."""
        return price_of(self.polling) or PRICES["balanced"]

    @property
    def is_fleet(self) -> bool:
        """Return True if several machines share the store."""
        return self.store.startswith(("redis://", "rediss://", "unix://"))

    @property
    def local_store(self) -> str:
        """Return the location of this machine's own store."""
        return self.fleet_local if self.is_fleet else self.store

    @property
    def is_targeted(self) -> bool:
        """Return True if targeted cache-control fields apply to this proxy (RFC 9213, section 2.2)."""
        return self.targeted_fields == "always" or (self.targeted_fields == "reverse" and bool(self.upstream))


class Loader(Protocol):
    """The part of mitmproxy's loader that `declare` uses."""

    def add_option(self, name: str, typespec: Any, default: Any, help: str, choices: Any = None) -> None: ...


def declare(loader: Loader, *names: str) -> None:
    """Declare these options to mitmproxy. Raises LookupError for an unknown name."""
    if unknown := set(names) - Settings.__dataclass_fields__.keys():
        raise LookupError(f"no such option: {', '.join(sorted(unknown))}")
    for name in names:
        option_field = Settings.__dataclass_fields__[name]
        default = option_field.default
        kind: Any = type(default)
        if isinstance(default, tuple):
            kind, default = Sequence[str], list(default)
        metadata = option_field.metadata
        loader.add_option(name, kind, default, metadata["text"], metadata["choices"] or None)


def require(options: Any, **values: Any) -> None:
    """Set mitmproxy's options to `values`. Options that have their value already are skipped: each change is slow."""
    changed = {name: value for name, value in values.items() if name not in options or getattr(options, name) != value}
    if changed:
        options.update_defer(**changed)


def format_value(name: str, value: Any) -> Any:
    """Return an option's value in the form of a configuration, with its unit."""
    unit: Unit = next(
        (option_field.metadata["unit"] for option_field in fields(Settings) if option_field.name == name), ""
    )
    return format_quantity(value, unit) if unit and value else value


@cache
def option_names() -> tuple[str, ...]:
    """Return the names of all options except deprecated ones, in the order of this file."""
    return tuple(option_field.name for option_field in fields(Settings) if not option_field.metadata["deprecated"])


@cache
def deprecated_names() -> tuple[str, ...]:
    """Return the names of the options that will be fixed limits in the next release."""
    return tuple(option_field.name for option_field in fields(Settings) if option_field.metadata["deprecated"])


def restart_names() -> list[str]:
    """Return the names of the options that are read only at the start."""
    return [option_field.name for option_field in fields(Settings) if option_field.metadata["restart"]]


def secret_names() -> frozenset[str]:
    """Return the names of the options with values that appear on no page and in no error message."""
    return frozenset(option_field.name for option_field in fields(Settings) if option_field.metadata["secret"])


def defaults() -> dict[str, Any]:
    """Return the default of each option, including deprecated ones, in the form of a configuration."""
    default_by_name = {option_field.name: option_field.default for option_field in fields(Settings)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in default_by_name.items()}


def per_feed_names() -> list[str]:
    """Return the names of the options that a rule may override."""
    return [option_field.name for option_field in fields(Settings) if option_field.metadata["per_feed"]]


def from_options(values: Mapping[str, Any]) -> Settings:
    """Return Settings with these values. Missing options get their defaults, and unknown ones are ignored."""
    sequences = _sequence_names()
    known = ((name, values[name]) for name in (*option_names(), *deprecated_names()) if name in values)
    options: dict[str, Any] = {name: tuple(value) if name in sequences else value for name, value in known}
    return Settings(**options)


@cache
def _sequence_names() -> frozenset[str]:
    return frozenset(option_field.name for option_field in fields(Settings) if isinstance(option_field.default, tuple))


def listen_address(text: str, option_name: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`, `:PORT` (all addresses, host "") or `PORT` (loopback). Raises UsageError,
    with `option_name` in the message, for any other text."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or int(match["port"]) > 65535:
        default = getattr(Settings(), option_name)
        raise UsageError(f"{option_name}: {text}: expected HOST:PORT, such as {default}")
    host = match["six"] or match["host"]
    return "127.0.0.1" if host is None else host, int(match["port"])
