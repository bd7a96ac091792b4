"""Fixtures: proxies without sockets for clients, and their admin listeners."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest

from feedproxy.admin.routes import start_admin_listener
from feedproxy.app import App
from feedproxy.clock import ManualClock
from tests.stages.admin import NOW, Proxy


@pytest.fixture
async def make_proxy() -> AsyncIterator[Callable[..., Any]]:
    """Return a function that makes proxies with these options. They are closed at the end."""
    made: list[Proxy] = []

    async def make(**options: Any) -> Proxy:
        app = App(ManualClock(NOW))
        given = {"admin": "127.0.0.1:0", "store": "memory:", "allow_private": True, "allow_ports": ["1-65535"]}
        app.configure({**given, **options})
        app.ready = True
        admin = await start_admin_listener(app)
        made.append(proxy := Proxy(app, admin, aiohttp.ClientSession()))
        return proxy

    yield make
    for proxy in made:
        await proxy.session.close()
        await proxy.admin.stop()
        await proxy.app.close()


@pytest.fixture
async def proxy(make_proxy: Callable[..., Any]) -> Proxy:
    made: Proxy = await make_proxy()
    return made
