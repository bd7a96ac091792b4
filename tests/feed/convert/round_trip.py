"""A feed written in a format, and read again."""

from feedproxy.feed.convert.formats import FORMATS
from feedproxy.feed.convert.model import Feed
from feedproxy.feed.convert.read.from_document import read


def written_and_read(feed: Feed, name: str) -> tuple[str, Feed]:
    document = FORMATS[name].render(feed)
    again = read(document)
    assert again is not None
    return document.decode(), again
