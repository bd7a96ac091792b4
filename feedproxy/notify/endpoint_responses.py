"""Responses of the notification endpoints. No cache may store them."""

from feedproxy.http.message import Fields, Response

XML = "text/xml; charset=utf-8"


def generated_response(status: int, media_type: str, body: bytes, *extra_fields: tuple[str, str]) -> Response:
    """Return a response with this content, which no cache may store."""
    lines = [
        ("Content-Type", media_type),
        ("Cache-Control", "no-store"),
        *extra_fields,
        ("X-Content-Type-Options", "nosniff"),
        ("Content-Length", str(len(body))),
    ]
    return Response(status, Fields(lines), body)


def plain_text(status: int, text: str = "", *extra_fields: tuple[str, str]) -> Response:
    """Return a response of plain text, such as a repeated challenge."""
    return generated_response(status, "text/plain; charset=utf-8", text.encode(), *extra_fields)
