"""Short answers of the endpoints that hear and tell: never stored, and nothing but what they say they are."""

from feedproxy.http.message import Fields, Response

XML = "text/xml; charset=utf-8"


def generated_response(status: int, media_type: str, body: bytes) -> Response:
    """An answer with this content."""
    lines = [
        ("Content-Type", media_type),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        ("Content-Length", str(len(body))),
    ]
    return Response(status, Fields(lines), body)


def plain_text(status: int, text: str) -> Response:
    """A text, such as a challenge that is given back: no browser takes it for a page."""
    return generated_response(status, "text/plain; charset=utf-8", text.encode())
