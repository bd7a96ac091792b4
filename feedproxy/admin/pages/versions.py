"""Views of a feed's versions: for each, the time of its first fetch, its size, and its new items."""

from feedproxy.feed.delta.entry_identities import unpack
from feedproxy.refresh.ingest.ingest import make_delta_base
from feedproxy.store.resource import Resource
from feedproxy.web.display_formats import iso

type View = dict[str, str | int | None]


def version_list(resource: Resource) -> list[View]:
    """Return the stored versions, the newest first. The call parses a feed, so it must not run in the event loop.

    `new`, `changed` and `gone` are numbers of items compared with the previous version. They are None if the items of
    one of the two versions are not stored.
    """
    entries = {base.tag: base.entries for base in resource.delta_bases}
    for variant in resource.variants:
        if variant.content.tag and variant.content.tag not in entries and (version := make_delta_base(variant)):
            entries[version.tag] = version.entries
    views: list[View] = []
    before: dict[str, str] | None = None
    for record in resource.version_records:
        packed = entries.get(record.tag) if record.tag else None
        now = dict(unpack(packed)) if packed is not None else None
        view: View = {"at": iso(record.at), "size": record.size, "items": record.items}
        if now is None or before is None:
            view |= {"new": None, "changed": None, "gone": None}
        else:
            common = now.keys() & before.keys()
            view |= {
                "new": len(now.keys() - before.keys()),
                "changed": sum(now[name] != before[name] for name in common),
                "gone": len(before.keys() - now.keys()),
            }
        views.append(view)
        before = now
    views.reverse()
    return views
