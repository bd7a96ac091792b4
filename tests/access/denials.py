"""Results of authorizations as values, for tests."""

from collections.abc import Awaitable

import pytest

from feedproxy.errors import AccessDenied
from feedproxy.http.message import Fields


async def denial(authorization: Awaitable[tuple[str, Fields]]) -> AccessDenied:
    """Return the error with which an authorization ends. The test fails if the client is authorized."""
    with pytest.raises(AccessDenied) as raised:
        await authorization
    return raised.value


async def user_of(authorization: Awaitable[tuple[str, Fields]]) -> str:
    """Return the user that an authorization has authenticated."""
    user, _ = await authorization
    return user
