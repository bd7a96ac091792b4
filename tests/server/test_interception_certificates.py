"""Certificates for intercepted connections are renewed before they expire."""

import contextlib
import datetime
from collections.abc import Iterator
from pathlib import Path

import pytest
from mitmproxy import certs
from mitmproxy.proxy.context import Context
from mitmproxy.test import taddons, tflow

from feedproxy.server.mitm.interception_certificates import TlsConfig


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
