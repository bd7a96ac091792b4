"""The order in which the addons handle a request."""

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
    return [
        entrance.Entrance(),  # finds the target: gateway, explicit proxy or reverse mode
        access.Access(),  # authorizes clients
        subscribers.Subscribers(),  # counts subscribers
        pings.Pings(),  # pings, received and sent
        purges.Purges(),  # purges caches in front
        hub.Hub(),  # WebSub, both ways
        rsscloud.RssClouds(),  # rssCloud, both ways
        cnws.ChangeNotification(),  # change notification by web service, both ways
        changes.Changes(),  # change lists (changes.xml)
        lists.Lists(),  # lists of feeds (OPML, proxy.pac)
        moved.Moved(),  # moves (301) and ends (410) of feeds
        usm.Usm(),  # media type and self link of feeds
        formats.Formats(),  # conversions to other formats
        discovery.Discovery(),  # redirects from a page to its feed
        coding.Coding(),  # gzip, br, zstd
        cache.Cache(),  # stores, reuses and validates responses
        origin.Origin(),  # limits of requests to origins
        admin.Admin(),  # the admin listener
        finish.Finish(),  # corrects the framing of responses
        record.Record(),  # records exchanges for the lab
        accesslog.AccessLog(),  # the access log
    ]
