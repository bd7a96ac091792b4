"""Parameters of a request to the admin listener, from its query and its form."""

from collections.abc import Mapping
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from feedproxy.errors import FeedproxyError


class InvalidForm(FeedproxyError, status=400, detail="bad-target"):
    """Error for a missing or invalid parameter."""


UNREADABLE = (HttpProcessingError, web.RequestPayloadError)
"""Errors of aiohttp for content that is malformed or cannot be decoded."""


async def read_content(request: web.Request) -> bytes:
    """Return the content. Raises InvalidForm if it cannot be decoded."""
    try:
        return await request.read()
    except UNREADABLE as error:
        raise InvalidForm("The content cannot be decoded as Content-Encoding states.") from error


async def read_form(request: web.Request) -> Mapping[str, Any]:
    """Return the fields of the form. Raises InvalidForm if they cannot be parsed."""
    try:
        return await request.post()
    except (ValueError, LookupError, RuntimeError, AssertionError, *UNREADABLE) as error:
        raise InvalidForm(f"The form cannot be read: {type(error).__name__}.") from error


async def read_parameters(request: web.Request) -> dict[str, str]:
    """Return the parameters of query and form. Raises InvalidForm if they cannot be parsed."""
    form = await read_form(request)
    return {**request.query, **{name: str(value) for name, value in form.items()}}
