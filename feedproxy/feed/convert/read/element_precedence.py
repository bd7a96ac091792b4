"""Choice between repeated or contradictory statements of a document, which from_rss_and_atom.py extracts."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from msgspec import structs

from feedproxy.feed import feed_dates
from feedproxy.feed.channel import NO_HINTS, Kind, Schedule
from feedproxy.feed.convert import markup, persons
from feedproxy.feed.convert.model import Category, Enclosure, Feed, Image, Item, Link, Node, Person, Text
from feedproxy.feed.convert.namespaces import ATOM, DC, ITUNES, MEDIA
from feedproxy.feed.convert.read.from_rss_and_atom import STATEMENTS_MAX, Extract, extract

ITEMS_MAX = 10_000
"""Maximum number of items of one feed. Further items are left out; known feeds have a few hundred."""

_NAME_BASED_UUID = re.compile(r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""Pattern of a name-based UUID (RFC 9562, section 5.5)."""

_DISTINGUISHING_SUFFIX = re.compile(r"(?<!#)#+[0-9]{0,5}\Z")
"""Pattern of the suffix by which to_rdf.py makes each rdf:about unique."""

_DIGITS_MAX = 9
"""A picture's width or height of more than this many digits is ignored."""


def item(statements: Extract) -> Item:
    """Return the item that `statements` describe."""
    extensions = apply_identifier(statements, _with_fallbacks(statements))
    if statements.duration is not None and not statements.enclosures:
        extensions = (Node(ITUNES, "duration", (), (str(statements.duration),)), *extensions)
    content, summary = _bodies(statements)
    identity = statements.strings.get("id") or statements.strings.get("atom:id") or statements.about
    links = list(statements.links)
    is_permalink = statements.is_permalink and identity == statements.strings.get("id")
    if is_permalink and not any(link.rel == "alternate" for link in links):
        links.insert(0, Link(identity))
    merged_links = merge_links(links)
    if "id" not in statements.strings:
        is_permalink = bool(merged_links) and merged_links[0] == Link(identity)
    published, updated = _item_dates(statements)
    return Item(
        id=identity,
        is_permalink=is_permalink,
        title=statements.texts.get("title")
        or statements.texts.get("atom:title")
        or _itunes_title(statements)
        or _text_of_media(extensions, "title"),
        summary=summary,
        content=content,
        links=merged_links,
        authors=_authors(statements),
        contributors=persons.merge(statements.persons.get("contributor", ())),
        categories=_categories(statements),
        rights=statements.texts.get("rights") or statements.texts.get("atom:rights"),
        published=published,
        updated=updated,
        language=statements.language,
        direction=statements.direction,
        extensions=extensions,
        enclosures=_enclosures(statements),
        comments=statements.strings.get("comments", ""),
        image=statements.thumbnail,
        source=_source(statements),
    )


def channel(statements: Extract, kind: Kind, version: str, schedule: Schedule) -> Feed:
    """Return the channel that `statements` describe, without items."""
    extensions = _with_fallbacks(statements)
    image, extensions = apply_image_size(statements.image or _itunes_image(statements), extensions)
    links = merge_links(statements.links)
    title = statements.texts.get("title") or statements.texts.get("atom:title") or _itunes_title(statements)
    link = next((link.href for link in links if link.rel == "alternate"), "")
    webmasters = persons.merge(statements.persons.get("webmaster", ()))
    instants = statements.dates
    generator = statements.generator
    return Feed(
        kind=kind,
        version=version,
        id=statements.strings.get("atom:id", ""),
        title=title,
        summary=statements.texts.get("summary") or statements.texts.get("atom:summary") or _itunes_summary(statements),
        links=links,
        authors=_authors(statements),
        contributors=persons.merge(statements.persons.get("contributor", ())),
        categories=_categories(statements),
        rights=statements.texts.get("rights") or statements.texts.get("atom:rights"),
        published=_first(instants, "atom:published", "dcterms:issued", "pubdate", "dcterms:created"),
        updated=_first(instants, "atom:updated", "dcterms:modified", "lastbuilddate", "dc"),
        language=statements.strings.get("language") or statements.language,
        direction=statements.direction,
        extensions=extensions,
        webmaster=webmasters[0] if webmasters else None,
        generator=generator if generator and (generator.name or generator.uri) else None,
        image=reduce_image(image, title, link),
        icon=statements.strings.get("icon", ""),
        schedule=structs.replace(schedule, notes=()),
        cloud=statements.cloud,
        rating=statements.strings.get("rating", ""),
        text_input=statements.text_input,
    )


def merge_links(links: Iterable[Link]) -> tuple[Link, ...]:
    """Return each link once. The link to the feed's page is the first.

    The page is the first link with rel="alternate" and no type, or else the first with rel="alternate". A link with
    rel="alternate" to the feed itself (rel="self") is omitted: a feed is not its own page.
    """
    by_meaning: dict[tuple[str, str], Link] = {}
    for link in links:
        if by_meaning.get((link.href, link.rel), Link(link.href, link.rel)) == Link(link.href, link.rel):
            by_meaning[link.href, link.rel] = link
    unique = list(by_meaning.values())
    own = {link.href for link in unique if link.rel == "self"}
    unique = [link for link in unique if link.rel != "alternate" or link.href not in own]
    alternates = [link for link in unique if link.rel == "alternate"]
    if alternates:
        page = next((link for link in alternates if not link.type), alternates[0])
        unique.remove(page)
        unique.insert(0, page)
    return tuple(unique)


def merge_categories(categories: Iterable[Category]) -> tuple[Category, ...]:
    """Return the categories without duplicates. Of duplicates, the first with a label is kept."""
    unique: dict[tuple[str, str], Category] = {}
    for category in categories:
        key = category.term, category.scheme
        if key not in unique or not unique[key].label:
            unique[key] = category
    return tuple(unique.values())


def reduce_image(image: Image | None, title: Text | None, link: str) -> Image | None:
    """Return the picture without a title or link that repeats the channel's. Return None if `image` is None."""
    if image is None:
        return None
    return replace(
        image,
        title="" if image.title == markup.to_line(title) else image.title,
        link="" if image.link == link else image.link,
    )


def apply_image_size(image: Image | None, extensions: tuple[Node, ...]) -> tuple[Image | None, tuple[Node, ...]]:
    """Return the channel's picture (or None) and the extensions. If the picture has no size, it gets that of a Media
    RSS thumbnail with its address, and the thumbnail is removed."""
    if image is None or image.width or image.height:
        return image, extensions
    for at, node in enumerate(extensions):
        attributes = dict(node.attributes)
        if (node.namespace, node.name, node.content) != (MEDIA, "thumbnail", ()) or attributes.pop(
            "url", ""
        ) != image.url:
            continue
        if (
            attributes
            and attributes.keys() <= {"width", "height"}
            and all(_is_size(side) for side in attributes.values())
        ):
            width, height = (int(attributes[side]) if side in attributes else None for side in ("width", "height"))
            return replace(image, width=width, height=height), extensions[:at] + extensions[at + 1 :]
    return image, extensions


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX and int(text) > 0


def apply_identifier(statements: Extract, extensions: tuple[Node, ...]) -> tuple[Node, ...]:
    """Take the item's id from its dc:identifier, if a conversion has written the id there. Return the other extensions.

    After a conversion, the item's IRI (atom:id or rdf:about) equals the dc:identifier, or is a name-based UUID (RFC
    9562, section 5.5). In other items, the dc:identifier can identify something else, such as a book.
    """
    iri = _DISTINGUISHING_SUFFIX.sub("", statements.strings.get("atom:id") or statements.about)
    if "id" in statements.strings or not iri:
        return extensions
    for at, node in enumerate(extensions):
        if (node.namespace, node.name) != (DC, "identifier"):
            continue
        if node.text and (_DISTINGUISHING_SUFFIX.sub("", node.text) == iri or _NAME_BASED_UUID.fullmatch(iri)):
            statements.strings["id"] = node.text
            return extensions[:at] + extensions[at + 1 :]
        break
    return extensions


def drop_inherited(item: Item, channel: Feed) -> Item:
    """Return the item without a language or text direction that equals the channel's."""
    if item.language and item.language.lower() == channel.language.lower():
        item = replace(item, language="")
    if item.direction and item.direction == channel.direction:
        item = replace(item, direction="")
    return item


def _authors(statements: Extract) -> tuple[Person, ...]:
    authors = persons.merge(statements.persons.get("author", ()))
    return authors or persons.merge([persons.parse(_itunes_text(statements, "author"))]) or _itunes_owner(statements)


def _itunes_owner(statements: Extract) -> tuple[Person, ...]:
    for node in statements.extensions:
        if (node.namespace, node.name) == (ITUNES, "owner"):
            parts = {child.name: child.text for child in node.children if child.namespace == ITUNES}
            return persons.merge([Person(" ".join(parts.get("name", "").split()), parts.get("email", ""))])
    return ()


def _categories(statements: Extract) -> tuple[Category, ...]:
    """Return the format's own categories, or else the categories and keywords of iTunes and Media RSS."""
    return merge_categories(statements.categories) or merge_categories(
        Category(term) for term in islice(_category_terms(statements.extensions), STATEMENTS_MAX) if term
    )


def _category_terms(nodes: Iterable[Node]) -> Iterator[str]:
    for node in nodes:
        match node.namespace, node.name:
            case (i, "category") if i == ITUNES:
                yield node.attribute("text")
                yield from _category_terms(node.children)
            case (m, "category") if m == MEDIA:
                yield node.attribute("label") or node.text
            case (n, "keywords") if n in (ITUNES, MEDIA):
                yield from (" ".join(word.split()) for word in node.text.split(","))
            case (m, "group" | "content") if m == MEDIA:
                yield from _category_terms(node.children)
            case _:
                pass


def _itunes_title(statements: Extract) -> Text | None:
    return markup.make_text(_itunes_text(statements, "title"), is_html=False)


def _itunes_summary(statements: Extract) -> Text | None:
    return markup.make_text(_itunes_text(statements, "summary"), is_html=True)


def _itunes_image(statements: Extract) -> Image | None:
    own = (node for node in statements.extensions if (node.namespace, node.name) == (ITUNES, "image"))
    address = next((node.attribute("href") for node in own), "")
    return Image(markup.resolve(statements.base, address)) if address else None


def _itunes_text(statements: Extract, name: str) -> str:
    own = (node.text for node in statements.extensions if (node.namespace, node.name) == (ITUNES, name))
    return next(own, "")


def _text_of_media(extensions: Iterable[Node], name: str) -> Text | None:
    """Return the first non-empty text of a Media RSS element, or None. `name` is `title` or `description`.

    Items of video sites have no other text.
    """
    for node in extensions:
        if node.namespace != MEDIA:
            continue
        for part in (node, *node.children) if node.name in ("group", "content") else (node,):
            if (part.namespace, part.name) == (MEDIA, name) and part.text:
                return markup.make_text(part.text, is_html=part.attribute("type") == "html")
    return None


def _bodies(statements: Extract) -> tuple[Text | None, Text | None]:
    """Return the content and the summary of an item. Each can be None.

    If there is only a description (RSS), it is the content. If there is no text at all, the content is the description
    of Media RSS or the summary of iTunes.
    """
    content = statements.texts.get("content") or statements.texts.get("atom:content")
    summary = statements.texts.get("atom:summary")
    description = statements.texts.get("summary")
    if content is None and summary is None:
        return description or _text_of_media(statements.extensions, "description") or _itunes_summary(statements), None
    return content, summary or description


def _item_dates(statements: Extract) -> tuple[int | None, int | None]:
    """Return the dates of publication and of the last update. Each is None if it is unknown.

    RSS's pubDate is the date of publication, unless it equals the date of the update.
    """
    instants = statements.dates
    updated = _first(instants, "atom:updated", "dcterms:modified", "lastbuilddate")
    explicit = _first(instants, "atom:published", "dcterms:issued", "atom:created", "dcterms:created")
    if explicit is not None:
        return explicit, updated
    published = _first(instants, "pubdate", "dc")
    return (None if published == updated else published), updated


def _first(instants: dict[str, int], *keys: str) -> int | None:
    return next((instants[key] for key in keys if key in instants), None)


def _with_fallbacks(statements: Extract) -> tuple[Node, ...]:
    """Use Dublin Core for missing statements. Return the extensions, and the unused elements of Dublin Core."""
    extensions = list(statements.extensions)
    for local, node in statements.fallbacks:
        if not _use_fallback(statements, local, node.text) and node.text:
            extensions.append(node)
    return tuple(extensions)


def _use_fallback(statements: Extract, local: str, value: str) -> bool:
    """Use the value of a Dublin Core element if the document's own statement is missing.

    Return True if the value was used, or if it repeats the document's language. Otherwise return False.
    """
    match local:
        case "language":
            language = statements.strings.get("language") or statements.language
            if not language:
                statements.language = value
            return not language or value.lower() == language.lower()
        case "date" if "dc" not in statements.dates and (instant := feed_dates.parse(value)) is not None:
            statements.dates["dc"] = instant
            return True
        case "title" | "description" | "rights":
            name = "summary" if local == "description" else local
            own = {name, f"atom:{name}", *(("content", "atom:content") if local == "description" else ())}
            if not own & statements.texts.keys() and (text := markup.make_text(value, is_html=True)):
                statements.texts[name] = text
                return True
    return False


def _enclosures(statements: Extract) -> tuple[Enclosure, ...]:
    enclosures = list(statements.enclosures.values())
    if statements.duration is not None and enclosures:
        enclosures[0] = replace(enclosures[0], duration=statements.duration)
    return tuple(enclosures)


def _source(statements: Extract) -> Feed | None:
    if statements.atom_source is not None:
        element, base = statements.atom_source
        inner = extract(element, core=ATOM, is_atom=True, base=base, is_item=False)
        source = channel(inner, Kind.ATOM, "", NO_HINTS)
        return source if source != Feed() else None
    address, title = statements.rss_source
    if not address and not title:
        return None
    links = (Link(address, "self"),) if address else ()
    return Feed(title=markup.make_text(title, is_html=True), links=links)
