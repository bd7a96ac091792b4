"""The product's table of contents, in the order in which a request meets it."""

from collections.abc import Sequence

from feedproxy.addons import (
    access,
    accesslog,
    admin,
    cache,
    changes,
    cnws,
    coding,
    discovery,
    entrance,
    finish,
    formats,
    hub,
    lists,
    moved,
    origin,
    pings,
    purges,
    record,
    rsscloud,
    subscribers,
    usm,
)


def default_addons() -> Sequence[object]:
    """Everything feedproxy adds to mitmproxy."""
    return [
        entrance.Entrance(),  # which of the three ways in, and to what target?
        access.Access(),  # may this reader have this feed?
        subscribers.Subscribers(),  # who reads, and for how many?
        pings.Pings(),  # "this feed changed": heard, and told
        purges.Purges(),  # and told to caches in front
        hub.Hub(),  # WebSub, both ways
        rsscloud.RssClouds(),  # rssCloud, both ways
        cnws.ChangeNotification(),  # the service of 2003, both ways
        changes.Changes(),  # what changed lately
        lists.Lists(),  # what is read here
        moved.Moved(),  # 301 and 410, remembered
        usm.Usm(),  # one click subscribes
        formats.Formats(),  # the same feed in other formats
        discovery.Discovery(),  # from a page to its feed
        coding.Coding(),  # gzip, br, zstd
        cache.Cache(),  # store, reuse, validate
        origin.Origin(),  # the one path to the origin, and its limits
        admin.Admin(),  # the operator's view
        finish.Finish(),  # every answer leaves well-framed
        record.Record(),  # is written down for the lab, if the operator wants it
        accesslog.AccessLog(),  # and is told of
    ]
