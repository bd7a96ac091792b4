"""Conversion of JSON Feed 1 and 1.1 to the model. feedproxy's own custom objects are read, too."""

import dataclasses
import json
from typing import Any

from feedproxy.feed import feed_dates
from feedproxy.feed.channel import Kind
from feedproxy.feed.convert import markup, persons
from feedproxy.feed.convert.model import Category, Enclosure, Feed, Image, Item, Link, Person, Text
from feedproxy.feed.convert.model_as_dict import from_data
from feedproxy.feed.convert.read.element_precedence import ITEMS_MAX, drop_inherited, merge_categories, merge_links
from feedproxy.feed.convert.xml_nodes import is_writable
from feedproxy.feed.parse import jsonfeed
from feedproxy.feed.xml_well_formedness import valid_text

CUSTOM_OBJECT = "_feedproxy"
"""Name of the custom object, which has the fields of the model that JSON Feed lacks (model_as_dict.py)."""

_FEED = frozenset(
    (
        "version", "title", "home_page_url", "feed_url", "description", "user_comment", "next_url", "icon", "favicon",
        "authors", "author", "language", "hubs", "expired", "items"
    )
)  # fmt: skip
_ITEM = frozenset(
    (
        "id", "url", "external_url", "title", "content_html", "content_text", "summary", "image", "banner_image",
        "date_published", "date_modified", "authors", "author", "tags", "language", "attachments"
    )
)  # fmt: skip


def read(data: bytes, version: str, *, address: str) -> Feed:
    """Return the model of a JSON Feed in UTF-8. `version` is its version, and `address` its address."""
    document, _ = jsonfeed.decode(data)
    feed = channel(document, version, address)
    base = address or feed.address or feed.link
    read_items = (item(entry, base) for entry in _objects(document, "items")[:ITEMS_MAX])
    return dataclasses.replace(feed, items=tuple(drop_inherited(item, feed) for item in read_items))


def channel(document: dict[str, Any], version: str, address: str) -> Feed:
    base = address or _text(document, "feed_url") or _text(document, "home_page_url")
    links = [
        Link(markup.resolve(base, _text(document, "home_page_url"))),
        Link(markup.resolve(base, _text(document, "feed_url")), "self"),
        Link(markup.resolve(base, _text(document, "next_url")), "next"),
        *(Link(markup.resolve(base, hub), "hub") for hub in jsonfeed.websub_hubs(document.get("hubs"))),
    ]
    icon = _text(document, "icon")
    feed = Feed(
        kind=Kind.JSON,
        version=version,
        title=markup.make_text(_text(document, "title"), is_html=False),
        summary=markup.make_text(_text(document, "description"), is_html=False),
        links=merge_links(link for link in links if link.href),
        authors=_authors(document, base),
        language=_text(document, "language"),
        image=Image(markup.resolve(base, icon)) if icon else None,
        icon=markup.resolve(base, _text(document, "favicon")),
        schedule=jsonfeed.schedule(document),
        cloud=jsonfeed.rsscloud(document.get("hubs")),
        members=_members(document, _FEED),
    )
    return _merge_custom(feed, document)


def item(document: dict[str, Any], base: str) -> Item:
    """Return the model of an item. Relative links are resolved against `base`.

    A number as id becomes text (JSON Feed 1.1, items).
    """
    html = _text(document, "content_html")
    content = markup.make_text(markup.resolve_html(base, html), is_html=True) if html else None
    plain = markup.make_text(_text(document, "content_text"), is_html=False)
    summary = markup.make_text(_text(document, "summary"), is_html=False)
    if content is not None and summary is None and plain is not None and not _repeats(plain, content):
        summary = plain
    links = [Link(markup.resolve(base, _text(document, "url")))]
    if _text(document, "external_url"):
        links.append(Link(markup.resolve(base, _text(document, "external_url")), "related"))
    merged_links = merge_links(link for link in links if link.href)
    number_or_text = document.get("id")
    identity = valid_text(str(number_or_text)).strip() if isinstance(number_or_text, str | int | float) else ""
    read_item = Item(
        id=identity,
        is_permalink=bool(merged_links) and merged_links[0] == Link(identity),
        title=markup.make_text(_text(document, "title"), is_html=False),
        content=content or plain,
        summary=summary,
        links=merged_links,
        authors=_authors(document, base),
        categories=merge_categories(Category(tag) for tag in _strings(document, "tags")),
        published=feed_dates.parse(_text(document, "date_published")),
        updated=feed_dates.parse(_text(document, "date_modified")),
        language=_text(document, "language"),
        enclosures=_attachments(document, base),
        image=markup.resolve(base, _text(document, "image")),
        banner=markup.resolve(base, _text(document, "banner_image")),
        members=_members(document, _ITEM),
    )
    return _merge_custom(read_item, document)


def _repeats(plain: Text, content: Text) -> bool:
    return "".join(plain.value.split()) == "".join(markup.to_plain(content).split())


def _merge_custom[T: (Feed, Item)](model: T, document: dict[str, Any]) -> T:
    custom = document.get(CUSTOM_OBJECT)
    if not isinstance(custom, dict):
        return model
    none = custom.get("none")
    empty = [name for name in none if isinstance(name, str)] if isinstance(none, list) else []
    names = {field.name for field in dataclasses.fields(model)} - {"items", "kind", "members"}
    try:
        values = from_data(type(model), {key: item for key, item in custom.items() if key in names})
    except ValueError:
        return model
    if not _is_writable(values):
        return model
    blank = type(model)()
    changes = {key: getattr(values, key) for key in custom if key in names}
    changes |= {key: getattr(blank, key) for key in empty if key in names}
    return dataclasses.replace(model, **changes)


def _is_writable(model: Feed | Item) -> bool:
    """Return True if XML can contain the values of a custom object."""
    if isinstance(model, Item):
        base, is_valid = None, model.source is None or _is_writable(model.source)
    else:
        base, schedule = model.schedule.base, model.schedule
        is_valid = schedule.skip_hours <= frozenset(range(24)) and schedule.skip_days <= frozenset(range(7))
    owners = (model, *model.authors, *model.contributors)
    return (
        is_valid
        and all(instant is None or feed_dates.is_valid(instant) for instant in (model.published, model.updated, base))
        and all(is_writable(node) for owner in owners for node in owner.extensions)
    )


def _authors(document: dict[str, Any], base: str) -> tuple[Person, ...]:
    authors = _objects(document, "authors")
    single = document.get("author")
    if not authors and isinstance(single, dict):
        authors = [single]
    return persons.merge(_person(person, base) for person in authors)


def _person(author: dict[str, Any], base: str) -> Person:
    uri = markup.resolve(base, _text(author, "url"))
    email = uri.removeprefix("mailto:") if uri.startswith("mailto:") else ""
    avatar = markup.resolve(base, _text(author, "avatar"))
    return Person(" ".join(_text(author, "name").split()), email, "" if email else uri, avatar)


def _attachments(document: dict[str, Any], base: str) -> tuple[Enclosure, ...]:
    enclosures: dict[str, Enclosure] = {}
    for attachment in _objects(document, "attachments"):
        url = markup.resolve(base, _text(attachment, "url"))
        if url and url not in enclosures:
            size, seconds = _number(attachment.get("size_in_bytes")), _number(attachment.get("duration_in_seconds"))
            enclosures[url] = Enclosure(
                url, _text(attachment, "mime_type"), size, _text(attachment, "title"), "", seconds
            )
    return tuple(enclosures.values())


def _members(document: dict[str, Any], defined: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """Return the names and JSON texts of the members that are not in `defined`, such as custom objects."""
    members = {valid_text(key): value for key, value in document.items() if value is not None}
    return tuple(
        (key, valid_text(json.dumps(value, ensure_ascii=True, sort_keys=True)))
        for key, value in members.items()
        if key not in defined and key != CUSTOM_OBJECT
    )


def _objects(document: dict[str, Any], key: str) -> list[dict[str, Any]]:
    values = document.get(key)
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _strings(document: dict[str, Any], key: str) -> list[str]:
    values = document.get(key)
    entries = values if isinstance(values, list) else []
    return [text for value in entries if isinstance(value, str) and (text := valid_text(value).strip())]


def _text(document: dict[str, Any], key: str) -> str:
    value = document.get(key)
    return valid_text(value).strip() if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 10**15:
        return None
    return int(value)
