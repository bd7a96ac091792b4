"""Entity tags of pages. The time that a page displays does not affect its tag."""

import hashlib
import re

_AS_OF = re.compile(rb'<p id="as-of".*?</p>', re.DOTALL)
"""Pattern of the part of a page that states when the page was made (frame.html)."""


def page_entity_tag(body: bytes) -> str:
    """Return the weak entity tag of a page. The time when the page was made does not affect the tag."""
    return f'W/"{hashlib.sha256(_AS_OF.sub(b"", body)).hexdigest()[:32]}"'
