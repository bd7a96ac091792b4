"""The formats to which a feed can be converted: name, media type and renderer."""

from collections.abc import Callable

from msgspec import Struct

from feedproxy.feed.convert.model import Feed
from feedproxy.feed.convert.write import to_atom, to_html, to_json, to_opml, to_rdf, to_rss, to_script, to_table


class Format(Struct, frozen=True):
    """A format to which feeds are converted. `name` is its name on the command line and in addresses."""

    name: str
    media_type: str
    title: str
    render: Callable[[Feed], bytes]
    policy: str = ""
    """Content-Security-Policy of a format that browsers show as a page. "" for other formats."""


FORMATS: dict[str, Format] = {
    entry.name: entry
    for entry in (
        Format("rss", "application/rss+xml; charset=utf-8", "RSS 2.0", to_rss.render),
        Format("rdf", "application/rdf+xml; charset=utf-8", "RSS 1.0", to_rdf.render),
        Format("atom", "application/atom+xml; charset=utf-8", "Atom 1.0", to_atom.render),
        Format("json", "application/feed+json", "JSON Feed 1.1", to_json.render),
        Format("csv", "text/csv; charset=utf-8; header=present", "comma-separated values", to_table.csv_of),
        Format("tsv", "text/tab-separated-values; charset=utf-8", "tab-separated values", to_table.tsv_of),
        Format("html", "text/html; charset=utf-8", "a page for people", to_html.render, to_html.POLICY),
        Format("opml", "text/x-opml; charset=utf-8", "OPML 2.0: a subscription list", to_opml.render),
        Format("php", "application/vnd.php.serialized", "PHP's serialize()", to_script.php),
        Format("js", "application/json", "JSON that is a JavaScript expression", to_script.javascript),
        Format("python", "text/x-python; charset=us-ascii", "a Python literal", to_script.python),
        Format("ruby", "text/x-ruby; charset=us-ascii", "a Ruby literal", to_script.ruby),
        Format("perl", "text/x-perl; charset=us-ascii", "a Perl literal", to_script.perl),
    )
}
"""All formats by name, in the order of the documentation."""
