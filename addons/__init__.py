"""The product's table of contents, in the order in which a request meets it."""

from collections.abc import Sequence

from feedproxy.addons import (
    accesslog,
    admin,
    cache,
    coding,
    entrance,
    finish,
    moved,
    origin,
    subscribers,
    usm,
)


def default_addons() -> Sequence[object]:
    """Everything feedproxy adds to mitmproxy."""
    return [
        entrance.Entrance(),  # which of the three ways in, and to what target?
        subscribers.Subscribers(),  # who reads, and for how many?
        moved.Moved(),  # 301 and 410, remembered
        usm.Usm(),  # one click subscribes
        coding.Coding(),  # gzip, br, zstd
        cache.Cache(),  # store, reuse, validate
        origin.Origin(),  # the one path to the origin, and its limits
        admin.Admin(),  # the operator's view
        finish.Finish(),  # every answer leaves well-framed
        accesslog.AccessLog(),  # and is told of
    ]
