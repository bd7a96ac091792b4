"""The admin addon, alone in a mitmproxy."""

import aiohttp
import pytest
from feedproxy.addons.admin import Admin
from mitmproxy import exceptions
from mitmproxy.test import taddons

from feedproxy.app import get_app


async def _running(addon: Admin, context: taddons.context, **options: object) -> None:
    get_app(context.master).configure({"store": "memory:"})
    context.configure(addon, **options)
    # What the addon does not declare keeps its default; a test wants nothing on the disk.
    app = get_app(context.master)
    app.configure({"admin": app.settings.admin, "store": "memory:"})
    await addon.running()


async def test_admin_addon_loaded_alone_shows_empty_proxy() -> None:
    with taddons.context(addon := Admin()) as context:
        await _running(addon, context, admin="127.0.0.1:0")
        assert addon.listener is not None

        async with aiohttp.ClientSession() as session:
            async with session.get(addon.listener.url) as answer:
                assert answer.status == 200
                assert "No feed has been requested yet" in await answer.text()
            async with session.get(addon.listener.url + "/readyz") as answer:
                assert answer.status == 503

        await addon.done()
        assert not get_app(context.master).is_open


async def test_admin_addon_with_empty_address_does_not_listen() -> None:
    with taddons.context(addon := Admin()) as context:
        await _running(addon, context, admin="")

        assert addon.listener is None
        await addon.done()


def test_admin_addon_rejects_nonloopback_address_without_token() -> None:
    with taddons.context(addon := Admin()) as context:
        with pytest.raises(exceptions.OptionsError, match="admin_token"):
            context.configure(addon, admin="0.0.0.0:8081")

        context.configure(addon, admin="0.0.0.0:8081", admin_token="secret")
