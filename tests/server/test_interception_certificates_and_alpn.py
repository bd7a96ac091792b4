"""Certificates for intercepted connections are renewed before they expire. HTTP/2 is offered only in tunnels."""

import asyncio
import contextlib
import datetime
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from mitmproxy import certs
from mitmproxy.proxy.context import Context
from mitmproxy.test import taddons, tflow

from feedproxy.clock import ManualClock
from feedproxy.server.mitm.interception_certificates_and_alpn import TlsConfig
from tests.stages.play import UPSTREAM, OnProxy


@contextlib.contextmanager
def intercepting(confdir: Path) -> Iterator[tuple[TlsConfig, Context]]:
    """Yield the addon with a CA of its own, and the context of a connection to feeds.example."""
    addon = TlsConfig()
    with taddons.context(addon) as master:
        master.configure(addon, confdir=str(confdir))
        context = Context(tflow.tclient_conn(), master.options)
        context.client.sni = "feeds.example"
        yield addon, context


@pytest.mark.parametrize(("days", "is_renewed"), [(1, True), (29, True), (60, False)])
def test_certificate_is_made_again_before_it_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int, is_renewed: bool
) -> None:
    with intercepting(tmp_path) as (addon, context):
        with monkeypatch.context() as long_ago:
            long_ago.setattr(certs, "CERT_EXPIRY", datetime.timedelta(days=days) - certs.CERT_VALIDITY_OFFSET)
            first = addon.get_cert(context)

        second = addon.get_cert(context)

        assert (second is not first) == is_renewed
        assert addon.get_cert(context) is second
        assert (second.cert.cn, len(addon.certstore.expire_queue)) == ("feeds.example", 1)


def test_certificate_is_made_again_after_the_clock_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with intercepting(tmp_path) as (addon, context):
        with monkeypatch.context() as clock_ahead:
            clock_ahead.setattr(certs, "CERT_VALIDITY_OFFSET", datetime.timedelta(days=30))
            first = addon.get_cert(context)

        second = addon.get_cert(context)

        assert second is not first
        assert addon.get_cert(context) is second


@pytest.mark.parametrize("settings", [{}, {"upstream": UPSTREAM}], ids=["gateway", "reverse mode"])
@pytest.mark.parametrize(("offered", "chosen"), [(["h2", "http/1.1"], "http/1.1"), (["h2"], None)])
async def test_http2_is_not_offered_outside_of_tunnels(
    tmp_path: Path, settings: dict[str, str], offered: list[str], chosen: str | None
) -> None:
    """A hundred streams per connection would multiply the content that one client can keep in memory."""
    stage = OnProxy(ManualClock(1_800_000_000.0), {"confdir": str(tmp_path), **settings})
    await stage.open()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(offered)
    port = int(stage.base.rpartition(":")[2])

    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="feeds.example")

    assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == chosen
    writer.close()
    await stage.close()
