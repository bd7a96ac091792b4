"""Writer of JSON Feed 1.1, with a custom object for parts that the format lacks."""

import dataclasses
import json
from typing import Any

from feedproxy.feed.channel_addresses import cloud_address
from feedproxy.feed.convert import markup, model_as_dict
from feedproxy.feed.convert.model import Feed, Item, Person, Text
from feedproxy.feed.convert.read import from_json
from feedproxy.feed.convert.write import pictures_and_files
from feedproxy.feed.convert.write.to_atom import item_id
from feedproxy.http.date import format_rfc3339

VERSION = "https://jsonfeed.org/version/1.1"


def render(feed: Feed) -> bytes:
    return json.dumps(document(feed), ensure_ascii=False, indent=1).encode("utf-8", "replace") + b"\n"


def document(feed: Feed) -> dict[str, Any]:
    """Return the feed as a JSON Feed of dictionaries and lists, which `render` writes as JSON."""
    members = _nonempty(
        version=VERSION,
        title=markup.to_line(feed.title),
        home_page_url=feed.link,
        feed_url=feed.address,
        description=markup.to_plain(feed.summary),
        next_url=feed.first_href("next"),
        icon=pictures_and_files.cover(feed),
        favicon=feed.icon,
        authors=_authors(feed.authors),
        language=feed.language,
        hubs=_hubs(feed),
        expired=feed.schedule.finished or None,
        **_members(feed),
    )
    members.setdefault("title", "")  # JSON Feed requires a title
    parsed = from_json.channel(members, "1.1", "")
    _add_beyond(members, feed, parsed)
    return {**members, "items": [_item(item, feed) for item in feed.items]}


def _item(item: Item, feed: Feed) -> dict[str, Any]:
    members = _nonempty(
        id=item.id or item_id(item, feed),
        url=item.link,
        external_url=item.first_href("related"),
        title=markup.to_line(item.title),
        **_content(item),
        summary=markup.to_plain(item.summary) if item.content is not None else "",
        image=pictures_and_files.picture(item),
        banner_image=item.banner,
        date_published=format_rfc3339(item.published) if item.published is not None else "",
        date_modified=format_rfc3339(item.updated) if item.updated is not None else "",
        authors=_authors(item.authors),
        tags=[category.label or category.term for category in item.categories],
        language=item.language,
        attachments=[
            _nonempty(
                url=file.url,
                mime_type=file.type or "application/octet-stream",
                title=file.title,
                size_in_bytes=file.length,
                duration_in_seconds=file.duration,
            )
            for file in pictures_and_files.files(item)
        ],
        **_members(item),
    )
    _add_beyond(members, item, from_json.item(members, ""))
    return members


def _add_beyond(members: dict[str, Any], model: Feed | Item, parsed: Feed | Item) -> None:
    """Add a custom object with the fields of `model` that JSON Feed cannot express.

    `parsed` is the model that results from reading `members`. The fields in which it differs from `model` are added.
    """
    names = [field.name for field in dataclasses.fields(model) if field.compare and field.name != "items"]
    differing = [name for name in names if getattr(model, name) != getattr(parsed, name)]
    custom: dict[str, Any] = dict(model_as_dict.nonempty_fields(model, differing))
    if empty := [name for name in differing if name not in custom]:
        custom["none"] = empty
    if custom:
        members[from_json.CUSTOM_OBJECT] = custom


def _content(item: Item) -> dict[str, str]:
    body = item.content or item.summary or Text("")
    if body.type == "html":
        return {"content_html": body.value}
    if body.type == "text" and body.value:
        return {"content_text": body.value}
    return {"content_text": markup.to_plain(item.summary) or markup.to_line(item.title) or item.link or " "}


def _authors(persons: tuple[Person, ...]) -> list[dict[str, Any]]:
    """Return the persons as authors of JSON Feed. For a person without a URI, the email address becomes the URL.

    JSON Feed 1.1 says about this URL: "It could be … a mailto: link".
    """
    return [
        _nonempty(
            name=person.name, url=person.uri or (f"mailto:{person.email}" if person.email else ""), avatar=person.avatar
        )
        for person in persons
    ]


def _hubs(feed: Feed) -> list[dict[str, str]]:
    hubs = [{"type": "WebSub", "url": link.href} for link in feed.links if link.rel == "hub"]
    if feed.cloud is not None and (address := cloud_address(feed.cloud)):
        hubs.append({"type": "rssCloud", "url": address})
    return hubs


def _members(model: Feed | Item) -> dict[str, Any]:
    return {key: json.loads(value) for key, value in model.members}


def _nonempty(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value not in (None, "", [], ())}
