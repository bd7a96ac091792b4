"""What a POST to the admin listener says: the parameters of its query and of a form."""

from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from feedproxy.errors import FeedproxyError


class InvalidForm(FeedproxyError):
    """A parameter is missing or wrong."""

    status_hint = 400
    detail = "bad-target"


@contextmanager
def translate_form_errors() -> Iterator[None]:
    """Raise WrongRequest where a form cannot be read: aiohttp raises what its parsers and Python's codecs raise."""
    try:
        yield
    except (ValueError, LookupError, RuntimeError, AssertionError) as error:
        raise InvalidForm(f"The form cannot be read: {type(error).__name__}.") from error


async def read_parameters(request: web.Request) -> dict[str, str]:
    """The parameters, of the query and of a form. Raises WrongRequest."""
    with translate_form_errors():
        form = await request.post()
    return {**request.query, **{name: str(value) for name, value in form.items()}}
