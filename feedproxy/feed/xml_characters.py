"""The characters that XML 1.0 allows (section 2.2)."""

import re

_NOT_ALLOWED = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Pattern of characters that XML does not allow, not even as references. Lone surrogates are among them."""


def valid_text(text: str) -> str:
    """Return the text without characters that XML does not allow."""
    return _NOT_ALLOWED.sub("", text)
