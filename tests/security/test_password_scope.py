"""A browser that knows the password for one site does not send it to another site through the gateway.

"A client SHOULD assume that all paths at or deeper than the depth of the last symbolic element in the path field of the
Request-URI also are within the protection space" -- RFC 7617, section 2.2. A challenge therefore names its site before
the last slash of its path.
"""

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from feedproxy.clock import ManualClock
from tests.security.conftest import NOON
from tests.security.wire import RawOrigin, exchange, head_of, port_of, raw_origin, status_of
from tests.stages.front import OnFront

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNAUTHORIZED = b'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm="r"\r\nContent-Length: 2\r\n\r\nno'

FORMS = {
    "host alone": "/http://{site}",
    "host alone, with a query": "/http://{site}?page=/",
    "folded slashes": "/http:/{site}",
    "upper case": "/HTTP://{site}",
    "conversion of a host alone": "/-/as/html/http://{site}",
    "conversion of a host alone, with a query": "/-/as/html/http:/{site}?page=/",
    "conversion with feed:": "/-/as/html/feed:http://{site}/private",
    "conversion, percent-encoded": "/-/as/html/http%3A%2F%2F{site}%2Fprivate",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def origin() -> AsyncIterator[RawOrigin]:
    async with raw_origin(UNAUTHORIZED) as made:
        yield made


async def ask(stage: OnFront, path: str, method: str = "GET") -> bytes:
    lines = f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{port_of(stage.base)}", "Connection: close"
    return await exchange(stage.base, "\r\n".join([*lines, "", ""]).encode())


def protection_space(path: str) -> str:
    return path.partition("?")[0].rpartition("/")[0] + "/"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("form", FORMS)
async def test_challenge_is_sent_only_below_the_path_of_its_site(
    stage: OnFront, origin: RawOrigin, form: str, method: str
) -> None:
    site = origin.base.removeprefix("http://")

    path = FORMS[form].format(site=site)
    said = await ask(stage, path, method)
    if redirect := re.search(rb"\r\nLocation: (\S+)", said):
        assert status_of(said) == 301
        assert b"www-authenticate" not in head_of(said).lower()
        path = redirect[1].decode().removeprefix(stage.base)
        said = await ask(stage, path, method)

    assert status_of(said) == 401
    assert b"www-authenticate" in head_of(said).lower()
    assert site in protection_space(path)


async def test_challenge_of_the_proxy_itself_is_sent_only_below_the_path_of_its_site(origin: RawOrigin) -> None:
    stage = OnFront(ManualClock(NOON), {"readers": ["*"], "users_file": ""})
    await stage.open()
    try:
        for form in FORMS.values():
            said = await ask(stage, path := form.format(site="feeds.example"))
            if redirect := re.search(rb"\r\nLocation: (\S+)", said):
                path = redirect[1].decode().removeprefix(stage.base)
                said = await ask(stage, path)
            assert status_of(said) == 401
            assert "feeds.example" in protection_space(path)
    finally:
        await stage.close()


async def test_post_to_address_without_path_gets_no_www_authenticate(stage: OnFront, origin: RawOrigin) -> None:
    said = await ask(stage, f"/{origin.base}", "POST")

    assert b"www-authenticate" not in head_of(said).lower()
