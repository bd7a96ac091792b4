"""Reduction of extracted statements to a channel or an item of the model."""

import re
from collections.abc import Iterable
from dataclasses import replace

from feedproxy.feed.channel import Kind, Schedule
from feedproxy.feed.convert import dates, markup, persons
from feedproxy.feed.convert.model import Category, Enclosure, Feed, Image, Item, Link, Node, Text
from feedproxy.feed.convert.namespaces import ATOM, DC, ITUNES, MEDIA
from feedproxy.feed.convert.read.extract import Extract, extract

_NAME_BASED_UUID = re.compile(r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""Matches a name-based UUID (RFC 9562, section 5.5)."""

_DISTINGUISHING_SUFFIX = re.compile(r"(?<!#)#+[0-9]{0,5}\Z")
"""Matches the suffix that distinguishes items with equal names in RSS 1.0 (to_rdf.py)."""

_DIGITS_MAX = 9
"""Maximum number of digits of the width or height of a picture in pixels."""


def item(found: Extract) -> Item:
    """Return the item that the statements describe."""
    extensions = apply_identifier(found, _with_fallbacks(found))
    if found.duration is not None and not found.enclosures:
        extensions = (Node(ITUNES, "duration", (), (str(found.duration),)), *extensions)
    content, summary = _bodies(found)
    identity = found.strings.get("id") or found.strings.get("atom:id") or found.about
    links = list(found.links)
    is_permalink = found.is_permalink and identity == found.strings.get("id")
    if is_permalink and not any(link.rel == "alternate" for link in links):
        links.insert(0, Link(identity))
    merged_links = merge_links(links)
    if "id" not in found.strings:
        is_permalink = bool(merged_links) and merged_links[0] == Link(identity)
    published, updated = _item_dates(found)
    return Item(
        id=identity,
        is_permalink=is_permalink,
        title=found.texts.get("title") or found.texts.get("atom:title"),
        summary=summary,
        content=content,
        links=merged_links,
        authors=persons.merge(found.persons.get("author", ())),
        contributors=persons.merge(found.persons.get("contributor", ())),
        categories=merge_categories(found.categories),
        rights=found.texts.get("rights") or found.texts.get("atom:rights"),
        published=published,
        updated=updated,
        language=found.language,
        direction=found.direction,
        extensions=extensions,
        enclosures=_enclosures(found),
        comments=found.strings.get("comments", ""),
        image=found.thumbnail,
        source=_source(found),
    )


def channel(found: Extract, kind: Kind, version: str, schedule: Schedule) -> Feed:
    """Return the channel that the statements describe, without items."""
    image, extensions = apply_image_size(found.image, _with_fallbacks(found))
    links = merge_links(found.links)
    title = found.texts.get("title") or found.texts.get("atom:title")
    link = next((link.href for link in links if link.rel == "alternate"), "")
    webmasters = persons.merge(found.persons.get("webmaster", ()))
    stated = found.dates
    generator = found.generator
    return Feed(
        kind=kind,
        version=version,
        id=found.strings.get("atom:id", ""),
        title=title,
        summary=found.texts.get("summary") or found.texts.get("atom:summary"),
        links=links,
        authors=persons.merge(found.persons.get("author", ())),
        contributors=persons.merge(found.persons.get("contributor", ())),
        categories=merge_categories(found.categories),
        rights=found.texts.get("rights") or found.texts.get("atom:rights"),
        published=_first(stated, "atom:published", "dcterms:issued", "pubdate", "dcterms:created"),
        updated=_first(stated, "atom:updated", "dcterms:modified", "lastbuilddate", "dc"),
        language=found.strings.get("language") or found.language,
        direction=found.direction,
        extensions=extensions,
        webmaster=webmasters[0] if webmasters else None,
        generator=generator if generator and (generator.name or generator.uri) else None,
        image=reduce_image(image, title, link),
        icon=found.strings.get("icon", ""),
        schedule=replace(schedule, notes=()),
        cloud=found.cloud,
        rating=found.strings.get("rating", ""),
        text_input=found.text_input,
    )


def merge_links(links: Iterable[Link]) -> tuple[Link, ...]:
    """Return each link once, with the page first. If there are several pages, an HTML page is first."""
    by_meaning: dict[tuple[str, str], Link] = {}
    for link in links:
        if by_meaning.get((link.href, link.rel), Link(link.href, link.rel)) == Link(link.href, link.rel):
            by_meaning[link.href, link.rel] = link
    known = list(by_meaning.values())
    own = {link.href for link in known if link.rel == "self"}
    known = [link for link in known if link.rel != "alternate" or link.href not in own]  # a feed is not its own page
    alternates = [link for link in known if link.rel == "alternate"]
    if alternates:
        page = next((link for link in alternates if not link.type), alternates[0])
        known.remove(page)
        known.insert(0, page)
    return tuple(known)


def merge_categories(categories: Iterable[Category]) -> tuple[Category, ...]:
    """Return each category once."""
    known: dict[tuple[str, str], Category] = {}
    for category in categories:
        key = category.term, category.scheme
        if key not in known or not known[key].label:
            known[key] = category
    return tuple(known.values())


def reduce_image(image: Image | None, title: Text | None, link: str) -> Image | None:
    """Return the picture without a title and link that equal the channel's. Return None if there is none."""
    if image is None:
        return None
    return replace(
        image,
        title="" if image.title == markup.to_line(title) else image.title,
        link="" if image.link == link else image.link,
    )


def apply_image_size(image: Image | None, extensions: tuple[Node, ...]) -> tuple[Image | None, tuple[Node, ...]]:
    """Return the channel's picture with the size of a Media RSS thumbnail, and the remaining extensions."""
    if image is None or image.width or image.height:
        return image, extensions
    for at, node in enumerate(extensions):
        given = dict(node.attributes)
        if (node.namespace, node.name, node.content) != (MEDIA, "thumbnail", ()) or given.pop("url", "") != image.url:
            continue
        if given and given.keys() <= {"width", "height"} and all(_is_size(side) for side in given.values()):
            width, height = (int(given[side]) if side in given else None for side in ("width", "height"))
            return replace(image, width=width, height=height), extensions[:at] + extensions[at + 1 :]
    return image, extensions


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX and int(text) > 0


def apply_identifier(found: Extract, extensions: tuple[Node, ...]) -> tuple[Node, ...]:
    """Use Dublin Core's identifier as the item's id if its IRI is equal or was generated.

    Return the remaining extensions. A generated IRI is a name-based UUID (RFC 9562, section 5.5). Other identifiers may
    be those of a book or an article.
    """
    iri = _DISTINGUISHING_SUFFIX.sub("", found.strings.get("atom:id") or found.about)
    if "id" in found.strings or not iri:
        return extensions
    for at, node in enumerate(extensions):
        if (node.namespace, node.name) != (DC, "identifier"):
            continue
        if node.text and (_DISTINGUISHING_SUFFIX.sub("", node.text) == iri or _NAME_BASED_UUID.fullmatch(iri)):
            found.strings["id"] = node.text
            return extensions[:at] + extensions[at + 1 :]
        break
    return extensions


def drop_inherited(item: Item, channel: Feed) -> Item:
    """Return the item without a language and direction that equal the channel's."""
    same_language = item.language and item.language.lower() == channel.language.lower()
    same_direction = item.direction and item.direction == channel.direction
    if not same_language and not same_direction:
        return item
    return replace(
        item,
        language="" if same_language else item.language,
        direction="" if same_direction else item.direction,
    )


def _bodies(found: Extract) -> tuple[Text | None, Text | None]:
    """Return content and summary. RSS's description is the content of an item without other texts."""
    content = found.texts.get("content") or found.texts.get("atom:content")
    summary = found.texts.get("atom:summary")
    description = found.texts.get("summary")
    if content is None and summary is None:
        return description, None
    return content, summary or description


def _item_dates(found: Extract) -> tuple[int | None, int | None]:
    """Return the dates of publication and of the update.

    RSS's single date counts as publication, unless it equals the update.
    """
    stated = found.dates
    updated = _first(stated, "atom:updated", "dcterms:modified", "lastbuilddate")
    explicit = _first(stated, "atom:published", "dcterms:issued", "atom:created", "dcterms:created")
    if explicit is not None:
        return explicit, updated
    published = _first(stated, "pubdate", "dc")
    return (None if published == updated else published), updated


def _first(stated: dict[str, int], *places: str) -> int | None:
    return next((stated[place] for place in places if place in stated), None)


def _with_fallbacks(found: Extract) -> tuple[Node, ...]:
    """Apply Dublin Core's elements if others are missing. Return all other extensions unchanged."""
    extensions = list(found.extensions)
    own = {
        "title": {"title", "atom:title"},
        "description": {"summary", "atom:summary", "content", "atom:content"},
        "rights": {"rights", "atom:rights"},
    }
    for local, node in found.fallbacks:
        value = node.text
        language = found.strings.get("language") or found.language
        if local == "language" and not language:
            found.language = value
        elif local == "language" and value.lower() == language.lower():
            continue
        elif local == "date" and "dc" not in found.dates and (instant := dates.parse(value)) is not None:
            found.dates["dc"] = instant
        elif local in own and not own[local] & found.texts.keys() and (text := markup.make_text(value, is_html=True)):
            found.texts[{"description": "summary"}.get(local, local)] = text
        elif value:
            extensions.append(node)
    return tuple(extensions)


def _enclosures(found: Extract) -> tuple[Enclosure, ...]:
    enclosures = list(found.enclosures.values())
    if found.duration is not None and enclosures:
        enclosures[0] = replace(enclosures[0], duration=found.duration)
    return tuple(enclosures)


def _source(found: Extract) -> Feed | None:
    if found.atom_source is not None:
        element, base = found.atom_source
        inner = extract(element, core=ATOM, is_atom=True, base=base, is_item=False)
        source = channel(inner, Kind.ATOM, "", Schedule())
        return source if source != Feed() else None
    address, title = found.rss_source
    if not address and not title:
        return None
    links = (Link(address, "self"),) if address else ()
    return Feed(title=markup.make_text(title, is_html=True), links=links)
