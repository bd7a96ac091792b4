"""Denials of access as values, for tests."""

from collections.abc import Awaitable

import pytest

from feedproxy.errors import AccessDenied


async def denial(authorization: Awaitable[str]) -> AccessDenied:
    """Return the error with which an authorization ends. The test fails if the client is authorized."""
    with pytest.raises(AccessDenied) as raised:
        await authorization
    return raised.value
