"""Parameters of a request to the admin listener, from its query and its form."""

from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from feedproxy.errors import FeedproxyError


class InvalidForm(FeedproxyError):
    """Error for a missing or invalid parameter."""

    status_hint = 400
    detail = "bad-target"


@contextmanager
def translate_form_errors() -> Iterator[None]:
    try:
        yield
    except (ValueError, LookupError, RuntimeError, AssertionError) as error:
        raise InvalidForm(f"The form cannot be read: {type(error).__name__}.") from error


async def read_parameters(request: web.Request) -> dict[str, str]:
    """Return the parameters of query and form. Raises InvalidForm if they cannot be parsed."""
    with translate_form_errors():
        form = await request.post()
    return {**request.query, **{name: str(value) for name, value in form.items()}}
