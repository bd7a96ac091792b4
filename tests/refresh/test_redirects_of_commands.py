"""Commands that contact the upstream follow its redirects to public addresses at the upstream, as the proxy does."""

import pytest

from feedproxy.admin import admin_client
from feedproxy.commands.check import check
from feedproxy.refresh.standalone_fetch import fetch_document
from feedproxy.settings import Settings
from tests.check.publisher import Answer, Fault, Publisher, PublisherRequest, publishing

PUBLIC = "https://www.feeds.example/"


def moves_in_public(request: PublisherRequest, answer: Answer) -> Answer:
    """Redirect to the public address."""
    if request.path != "/old.xml":
        return answer
    return Answer(301, {"Location": PUBLIC + "feed.xml"})


def is_an_xml_redirect(request: PublisherRequest, answer: Answer) -> Answer:
    """Redirect to the public address by an XML document."""
    if request.path != "/old.xml":
        return answer
    body = f"<redirect><newLocation>{PUBLIC}feed.xml</newLocation></redirect>"
    return Answer(200, {"Content-Type": "text/xml"}, body.encode())


def told_of(publisher: Publisher) -> Settings:
    return Settings(allow_private=True, upstream=publisher.base, public_url=PUBLIC)


async def test_check_of_the_upstream_follows_redirects_to_the_public_address_there() -> None:
    async with publishing() as publisher:
        publisher.fault = moves_in_public

        done = await check(publisher.base + "/old.xml", told_of(publisher), pause=0)

    found = {each.id() for each in done.notes}
    assert "permanent-redirect" in found
    assert not found & {"redirect-failed", "fetch-failed"}


@pytest.mark.parametrize("how", [moves_in_public, is_an_xml_redirect])
async def test_inspection_of_the_upstream_follows_redirects_to_the_public_address_there(how: Fault) -> None:
    async with publishing() as publisher:
        publisher.fault = how

        got = await fetch_document(publisher.base + "/old.xml", told_of(publisher))

    assert got.final_address == publisher.base + "/feed.xml"


def test_commands_read_both_addresses_from_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEEDPROXY_UPSTREAM", "http://127.0.0.1:8000")
    monkeypatch.setenv("FEEDPROXY_PUBLIC_URL", PUBLIC)

    asking = admin_client.request_settings(allow_private=True)

    assert (asking.upstream, asking.public_url) == ("http://127.0.0.1:8000", PUBLIC)
