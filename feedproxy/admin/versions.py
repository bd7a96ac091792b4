"""A feed's versions for the operator: when each was first seen, how large it was, and what was new in it."""

from feedproxy.feed.delta.entries import unpack
from feedproxy.refresh.ingest.ingest import make_delta_base
from feedproxy.store.resource import Resource
from feedproxy.web.templates import iso

type View = dict[str, str | int | None]


def version_list(resource: Resource) -> list[View]:
    """The versions that are remembered, the newest first. Reads the current one: not for the event loop.

    `new` counts entries that the version before did not have, `changed` those that said something else, and `gone`
    those that it had; None where the entries of one of the two are not known any more.
    """
    entries = {each.tag: each.entries for each in resource.delta_bases}
    for variant in resource.variants:
        if variant.content.tag and variant.content.tag not in entries and (version := make_delta_base(variant)):
            entries[version.tag] = version.entries
    found: list[View] = []
    before: dict[str, str] | None = None
    for each in resource.version_records:
        packed = entries.get(each.tag) if each.tag else None
        now = dict(unpack(packed)) if packed is not None else None
        view: View = {"at": iso(each.at), "size": each.size, "items": each.items}
        if now is None or before is None:
            view |= {"new": None, "changed": None, "gone": None}
        else:
            both = now.keys() & before.keys()
            view |= {
                "new": len(now.keys() - before.keys()),
                "changed": sum(now[name] != before[name] for name in both),
                "gone": len(before.keys() - now.keys()),
            }
        found.append(view)
        before = now
    found.reverse()
    return found
