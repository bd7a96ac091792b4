"""Certificates for intercepted connections are renewed before they expire."""

import datetime
from pathlib import Path

import pytest
from mitmproxy import certs
from mitmproxy.proxy.context import Context
from mitmproxy.test import taddons, tflow

from feedproxy.server.mitm.interception_certificates import TlsConfig


@pytest.mark.parametrize(("days", "is_renewed"), [(1, True), (29, True), (60, False)])
def test_certificate_is_made_again_before_it_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int, is_renewed: bool
) -> None:
    addon = TlsConfig()
    with taddons.context(addon) as master:
        master.configure(addon, confdir=str(tmp_path))
        context = Context(tflow.tclient_conn(), master.options)
        context.client.sni = "feeds.example"
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
    addon = TlsConfig()
    with taddons.context(addon) as master:
        master.configure(addon, confdir=str(tmp_path))
        context = Context(tflow.tclient_conn(), master.options)
        context.client.sni = "feeds.example"
        with monkeypatch.context() as clock_ahead:
            clock_ahead.setattr(certs, "CERT_VALIDITY_OFFSET", datetime.timedelta(days=30))
            first = addon.get_cert(context)

        second = addon.get_cert(context)

        assert second is not first
        assert addon.get_cert(context) is second
