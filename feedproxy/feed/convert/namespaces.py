"""Namespaces of feeds, and the prefixes with which they are written."""

from feedproxy.feed.xml_parser import ATOM, ATOM03, RDF, RSS11, SY

__all__ = ["ATOM", "ATOM03", "RDF", "RSS11", "SY"]

DC = "http://purl.org/dc/elements/1.1/"
DCTERMS = "http://purl.org/dc/terms/"
CONTENT = "http://purl.org/rss/1.0/modules/content/"
ITUNES = "http://www.itunes.com/dtds/podcast-1.0.dtd"
MEDIA = "http://search.yahoo.com/mrss/"
RSS1 = "http://purl.org/rss/1.0/"
RSS2 = "http://backend.userland.com/rss2"
"""The namespace for elements of RSS 2.0 in documents of other formats."""
ADMIN = "http://webns.net/mvcb/"
ENC = "http://purl.oclc.org/net/rss_2.0/enc#"
XHTML = "http://www.w3.org/1999/xhtml"
XML = "http://www.w3.org/XML/1998/namespace"
ITS = "http://www.w3.org/2005/11/its"
WFW = "http://wellformedweb.org/CommentAPI/"

PREFIXES = {
    ATOM: "atom",
    ATOM03: "atom03",
    RDF: "rdf",
    SY: "sy",
    DC: "dc",
    DCTERMS: "dcterms",
    CONTENT: "content",
    ITUNES: "itunes",
    MEDIA: "media",
    RSS1: "rss1",
    RSS2: "rss",
    ADMIN: "admin",
    ENC: "enc",
    XHTML: "xhtml",
    ITS: "its",
    WFW: "wfw",
    "http://purl.org/rss/1.0/modules/slash/": "slash",
    "http://purl.org/syndication/thread/1.0": "thr",
    "http://www.georss.org/georss": "georss",
    "http://www.opengis.net/gml": "gml",
    "http://www.w3.org/2003/01/geo/wgs84_pos#": "geo",
    "http://rssnamespace.org/feedburner/ext/1.0": "feedburner",
    "http://www.google.com/schemas/play-podcasts/1.0": "googleplay",
    "https://podcastindex.org/namespace/1.0": "podcast",
    "http://a9.com/-/spec/opensearch/1.1/": "opensearch",
    "http://backend.userland.com/creativeCommonsRssModule": "creativeCommons",
    "http://www.youtube.com/xml/schemas/2015": "yt",
    "http://www.w3.org/2000/svg": "svg",
    "http://www.w3.org/1998/Math/MathML": "math",
    "http://schemas.google.com/g/2005": "gd",
}

ALIASES = {
    # Misspelt, alternative or older names of the same namespace.
    "http://search.yahoo.com/mrss": MEDIA,
    "http://purl.org/dc/elements/1.0/": DC,
    "http://www.itunes.com/DTDs/Podcast-1.0.dtd": ITUNES,
    "http://www.itunes.com/DTDs/PodCast-1.0.dtd": ITUNES,
    "http://www.itunes.com/dtds/Podcast-1.0.dtd": ITUNES,
    "https://www.itunes.com/dtds/podcast-1.0.dtd": ITUNES,
    "http://purl.org/atom/ns": ATOM03,
    # An undeclared prefix ends in a colon (feed/xml_parser.py) and stands for its customary namespace.
    **{f"{prefix}:": namespace for namespace, prefix in PREFIXES.items()},
}
