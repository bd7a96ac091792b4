"""The history of one feed: the document at its publisher's server at each instant. The bytes are the same on every
machine.
"""

import bisect
import gzip
import hashlib
from datetime import UTC, datetime
from random import Random

from benchmarks.week.model import Feed
from feedproxy.http.date import format_http_date

WORDS = [
    "river",
    "lantern",
    "orbit",
    "walnut",
    "copper",
    "meadow",
    "signal",
    "harbour",
    "quartz",
    "violet",
    "engine",
    "saddle",
    "thunder",
    "pepper",
]


class History:
    """The documents of one feed, which are made when they are requested."""

    def __init__(self, feed: Feed, seed: int, start: float) -> None:
        self.feed = feed
        self._start = start
        self._seed = f"{seed}/{feed.number}"
        self.moments = [feed.first, *(update.at for update in feed.updates)]
        self.revisions: list[int] = []
        """For each document, the revision of its content. An update of the kind `churn` makes no new revision."""
        self.revised: list[float] = [feed.first]
        """The instant at which each revision was published."""
        self._items: list[tuple[tuple[int, int, float], ...]] = []
        self._play()
        self._texts: dict[tuple[int, int], bytes] = {}
        self._zipped: dict[int, bytes] = {}
        self._plain: tuple[int, bytes] = -1, b""

    def _play(self) -> None:
        """Compute the items of each document, the newest first. An item is its serial number, its revision, and the
        instant of its publication.
        """
        random = Random(f"{self._seed}/history")
        at, items = self.feed.first, []
        for serial in range(self.feed.items):
            items.append((-serial, 0, at))
            at -= random.expovariate(1 / self.feed.usual_gap)
        serial = 1
        self._items.append(tuple(items))
        self.revisions.append(0)
        for update in self.feed.updates:
            revision = self.revisions[-1]
            if update.kind != "churn":
                revision += 1
                self.revised.append(update.at)
            if update.kind == "edit":
                index = min(len(items) - 1, int(random.expovariate(0.7)))
                items[index] = (items[index][0], revision, items[index][2])
            elif update.kind == "all":
                items = [(number, revision, published) for number, _, published in items]
            elif update.kind in ("item", "burst"):
                for _ in range(1 if update.kind == "item" else random.randint(2, 5)):
                    items.insert(0, (serial, revision, update.at))
                    serial += 1
                del items[self.feed.items :]
            self._items.append(tuple(items))
            self.revisions.append(revision)

    def index(self, at: float) -> int:
        """Return the number of the document that is current at this instant."""
        return max(0, bisect.bisect_right(self.moments, at) - 1)

    def revision(self, at: float) -> int:
        """Return the revision that is current at this instant."""
        return self.revisions[self.index(at)]

    def tag(self, index: int) -> str:
        """Return the entity tag of a document, in the form that its publisher uses."""
        return self.feed.tag_form % hashlib.md5(f"{self._seed}/{index}".encode()).hexdigest()[:16]

    def body(self, index: int, zipped: bool) -> bytes:
        """Return a document, compressed with gzip or not. The compressed form is cached, because every run requests
        it.
        """
        found = self._zipped.get(index)
        if found is None:
            found = self._zipped[index] = gzip.compress(self._document(index), 4, mtime=0)
        if zipped:
            return found
        if self._plain[0] != index:
            self._plain = index, gzip.decompress(found)
        return self._plain[1]

    def _document(self, index: int) -> bytes:
        feed = self.feed
        built = format_http_date(self._start + self.moments[index])
        items = b"".join(self._item(*each) for each in self._items[index])
        if feed.atom:
            head = (
                f'<feed xmlns="http://www.w3.org/2005/Atom"><id>tag:origin.test,2026:{feed.number}</id>'
                f"<title>Feed {feed.number}</title><updated>{_iso(self._start + self.moments[index])}</updated>"
                "<author><name>x</name></author>\n"
            )
            return b'<?xml version="1.0" encoding="utf-8"?>\n' + head.encode() + items + b"</feed>\n"
        hints = ""
        if feed.ttl is not None:
            hints += f"<ttl>{feed.ttl}</ttl>\n"
        if feed.skip_hours:
            hints += f"<skipHours>{''.join(f'<hour>{hour}</hour>' for hour in sorted(feed.skip_hours))}</skipHours>\n"
        if feed.skip_days:
            names = "".join(f"<day>{('Saturday', 'Sunday')[day - 5]}</day>" for day in sorted(feed.skip_days))
            hints += f"<skipDays>{names}</skipDays>\n"
        if feed.syndication:
            period, frequency = feed.syndication
            hints += (
                f"<sy:updatePeriod>{period}</sy:updatePeriod><sy:updateFrequency>{frequency}</sy:updateFrequency>\n"
            )
        head = (
            '<?xml version="1.0" encoding="utf-8"?>\n'
            '<rss version="2.0" xmlns:sy="http://purl.org/rss/1.0/modules/syndication/"><channel>\n'
            f"<title>Feed {feed.number}</title><link>http://origin.test/f/{feed.number}</link>\n"
            f"<description>synthetic</description><lastBuildDate>{built}</lastBuildDate>\n{hints}"
        )
        return head.encode() + items + b"</channel></rss>\n"

    def _item(self, serial: int, revision: int, published: float) -> bytes:
        known = self._texts.get((serial, revision))
        if known is not None:
            return known
        feed, size = self.feed, max(40, self.feed.size // self.feed.items - 200)
        random = Random(f"{self._seed}/item/{serial}")
        # Two thirds of the text are words, the rest is noise that does not compress.
        text = random.choices(WORDS, k=size // 7)
        noise = random.randbytes(4 * len(text[::3])).hex()
        text[::3] = [noise[at : at + 8] for at in range(0, len(noise), 8)]
        at, link = self._start + published, f"http://origin.test/f/{feed.number}/{serial}"
        said = f"[r{revision}] {' '.join(text)}"
        if feed.atom:
            made = (
                f'<entry><id>{link}</id><title>{" ".join(text[:5])}</title><link href="{link}"/>'
                f"<updated>{_iso(at)}</updated><summary>{said}</summary></entry>\n"
            )
        else:
            date = f"<pubDate>{format_http_date(at)}</pubDate>" if feed.dated else ""
            made = (
                f"<item><title>{' '.join(text[:5])}</title><link>{link}</link><guid>{link}</guid>{date}"
                f"<description>{said}</description></item>\n"
            )
        self._texts[serial, revision] = made.encode()
        return self._texts[serial, revision]


def _iso(at: float) -> str:
    return datetime.fromtimestamp(int(at), UTC).isoformat().replace("+00:00", "Z")
