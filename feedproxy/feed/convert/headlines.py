"""Titles for channels and items that have none, and the headlines of a channel.

The landing page and change notifications show the headlines.
"""

import sys

from msgspec import Struct
from msgspec.structs import replace

from feedproxy.feed.convert import markup
from feedproxy.feed.convert.model import Feed, Item

TEXT_MAX = 64 * 1024
"""Maximum number of characters in each text of `Headlines`."""

ENTRIES_MAX = 5
"""Maximum number of items in `Headlines.entries`, which the landing page shows."""

TITLE_MAX = 200
"""Maximum number of characters in a title of `Headlines.entries`."""

HEADLINE_MAX = 80
"""Maximum number of characters in a title that feedproxy generates for an item."""


def heading(feed: Feed) -> str:
    """Return the channel's title in one line, for formats that require one. If it is missing, return the address of the
    channel's page, the feed's address, or `Untitled`."""
    return markup.to_line(feed.title) or feed.link or feed.address or "Untitled"


def headline(item: Item) -> str:
    """Return a title made from the beginning of the item's text, or else its link, its id, or `Untitled`.

    The item's own title is not used.
    """
    body = item.content or item.summary
    first = " ".join(markup.to_plain(body).partition("\n")[0].split())
    if len(first) > HEADLINE_MAX:
        first = f"{first[:HEADLINE_MAX].rpartition(' ')[0] or first[:HEADLINE_MAX]} …"
    return first or item.link or item.id or "Untitled"


class Headlines(Struct, frozen=True):
    """Title and summary of a channel, and title and text of its newest item, as plain text. `entries` are the titles
    and dates of the newest items, newest first."""

    title: str = ""
    summary: str = ""
    newest_title: str = ""
    newest_text: str = ""
    entries: tuple[tuple[str, int | None], ...] = ()

    @property
    def size(self) -> int:
        """Return the memory that all texts take, in bytes."""
        titles = [title for title, _ in self.entries]
        return sum(map(sys.getsizeof, (self.title, self.summary, self.newest_title, self.newest_text, *titles)))


def headlines_of(feed: Feed) -> Headlines:
    """Return the headlines of a feed. If no item has a date, the first item counts as the newest."""
    items = sorted(feed.items, key=lambda item: -(item.published or item.updated or 0))[:ENTRIES_MAX]
    headlines = Headlines(markup.to_line(feed.title)[:TEXT_MAX], markup.to_plain(feed.summary)[:TEXT_MAX])
    if not items:
        return headlines
    return replace(
        headlines,
        newest_title=markup.to_line(items[0].title)[:TEXT_MAX],
        newest_text=markup.to_plain(items[0].summary or items[0].content)[:TEXT_MAX],
        entries=tuple((_item_title(item), item.published or item.updated) for item in items),
    )


def _item_title(item: Item) -> str:
    title = markup.to_line(item.title) or " ".join(markup.to_plain(item.summary or item.content).split())
    return title[:TITLE_MAX]
