"""Commands that use the admin listener."""

import asyncio
import json

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec.structs import replace

from feedproxy.admin import admin_client
from feedproxy.cli import main
from feedproxy.commands.status import summary
from feedproxy.request.feed_id import feed_id
from feedproxy.store.resource import Relocation, RelocationKind
from feedproxy.subscribers.reader_pseudonyms import Pseudonym
from tests.stages.admin import NOW, TARGET, Proxy, a_resource


async def _run(proxy: Proxy, *words: str) -> int:
    """Run a command beside the proxy and return its exit code."""
    return await asyncio.to_thread(main, [*words, "--admin", proxy.admin.url.removeprefix("http://")])


async def test_status_prints_totals_and_a_line_for_each_feed(proxy: Proxy, capsys: pytest.CaptureFixture[str]) -> None:
    await proxy.keep(a_resource(title="Morgen\x1b[31mblatt"))

    assert await _run(proxy, "status") == 0

    printed = capsys.readouterr().out
    assert "1 fresh" in printed
    assert "health:      Running normally" in printed
    assert "NEXT FETCH (UTC)" in printed
    assert TARGET in printed
    assert "\x1b" not in printed


@pytest.mark.parametrize(("saved", "words"), [(0, "0 origin requests"), (1, "1 origin request")])
async def test_status_states_since_when_requests_are_counted(
    proxy: Proxy, capsys: pytest.CaptureFixture[str], saved: int, words: str
) -> None:
    totals = await proxy.json("/status")
    totals["requests"]["saved"] = saved

    assert f"requests:    0; {words} saved (since the start)" in list(summary(totals))
    totals["requests"] |= {"answered": 9, "hits": 1, "forwarded": 3, "hit_share": 0.25}
    line = f"requests:    4, 25.0 % from the cache; {words} saved (since the start); 5 more were pages"
    assert any(printed.startswith(line) for printed in summary(totals))
    assert await _run(proxy, "status") == 0
    assert "(since the start)" in capsys.readouterr().out


async def test_status_and_page_say_when_a_feed_is_refreshed_next_and_why(
    proxy: Proxy, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    rhythms = proxy.app.service.counts.rhythms
    for number in range(3):
        for hour in (3, 2, 1, 0):
            rhythms.record(TARGET, Pseudonym(number + 1, 0), NOW - hour * 3600)
    await proxy.keep(a_resource(minutes_ago=10, max_age=3000))

    assert await _run(proxy, "status") == 0

    why = "3 readers expected by 21:26, changes about every"
    assert why in capsys.readouterr().out
    assert why in (await proxy.get(f"/feeds/{feed_id(TARGET)}", Accept="text/html"))[1]


async def test_status_prints_findings_with_advice(proxy: Proxy, capsys: pytest.CaptureFixture[str]) -> None:
    proxy.app.ready = False

    assert await _run(proxy, "status") == 0

    printed = capsys.readouterr().out
    assert "health:      Something is wrong" in printed
    assert "The listener for readers is not open: this proxy serves no feed. The log says why" in printed


async def test_status_as_json_can_be_parsed(proxy: Proxy, capsys: pytest.CaptureFixture[str]) -> None:
    await proxy.keep(a_resource())

    assert await _run(proxy, "status", "--format", "json") == 0

    assert json.loads(capsys.readouterr().out)["list"][0]["target"] == TARGET


@pytest.mark.parametrize("form", ["text", "json"])
async def test_status_escapes_control_characters_of_an_answer(
    proxy: Proxy, capsys: pytest.CaptureFixture[str], form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = {**await proxy.json("/status"), "headline": "a\u009bb", "feeds": [], "total": 0}
    monkeypatch.setattr(admin_client, "ask", lambda *_: answer)

    assert await _run(proxy, "status", "--format", form) == 0

    assert "\u009b" not in capsys.readouterr().out


async def test_purge_accepts_an_address_or_a_pattern(proxy: Proxy, capsys: pytest.CaptureFixture[str]) -> None:
    await proxy.keep(a_resource(), a_resource("https://a.example/1"), a_resource("https://a.example/2"))

    assert await _run(proxy, "purge", TARGET) == 0
    assert await _run(proxy, "purge", "https://a.example/*") == 0
    assert await _run(proxy, "purge", "https://a.example/*") == 0

    assert list(proxy.app.service.store.targets()) == []
    assert capsys.readouterr().out.endswith("not in cache\n")


async def test_failed_refresh_is_exit_code_1(proxy: Proxy, capsys: pytest.CaptureFixture[str]) -> None:
    assert await _run(proxy, "refresh", "http://127.0.0.1:1/feed") == 1

    assert "http://127.0.0.1:1/feed  failed" in capsys.readouterr().out


@pytest.mark.parametrize("path", ["/", "/nonsense", "/-/feeds.opml"])
async def test_address_of_the_proxy_without_a_feed_is_refused(
    proxy: Proxy, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy.app.listeners.add(8080, for_readers=True)

    assert await _run(proxy, "refresh", f"http://127.0.0.1:8080{path}") == 2

    assert capsys.readouterr().err == "feedproxy: an address of this proxy is not the address of a feed\n"


async def test_gateway_address_names_its_feed(proxy: Proxy, capsys: pytest.CaptureFixture[str]) -> None:
    proxy.app.listeners.add(8080, for_readers=True)
    await proxy.keep(a_resource(), a_resource("https://a.example/1"))

    assert await _run(proxy, "purge", f"http://127.0.0.1:8080/{TARGET}") == 0
    assert await _run(proxy, "purge", "http://127.0.0.1:8080/-/as/json/https://a.example/1") == 0

    assert list(proxy.app.service.store.targets()) == []


@pytest.mark.parametrize("base", ["", "/blog"])
async def test_address_at_a_reverse_proxy_names_its_feed(make_proxy, base: str) -> None:
    proxy = await make_proxy(upstream=f"http://127.0.0.1:8000{base}")
    proxy.app.listeners.add(8080, for_readers=True)
    await proxy.keep(a_resource(f"http://127.0.0.1:8000{base}/feed.xml"))

    assert await _run(proxy, "purge", "http://127.0.0.1:8080/feed.xml") == 0

    assert list(proxy.app.service.store.targets()) == []


async def test_undo_without_a_remembered_move_is_exit_code_1(proxy: Proxy) -> None:
    moved = Relocation(RelocationKind.MOVED, "https://example.org/", NOW, NOW, 2, confirmed=True)
    await proxy.keep(replace(a_resource(), relocation=moved))

    assert await _run(proxy, "undo", TARGET) == 0
    assert await _run(proxy, "undo", TARGET) == 1


async def test_invalid_address_is_exit_code_2_and_one_line(proxy: Proxy, capsys: pytest.CaptureFixture[str]) -> None:
    assert await _run(proxy, "refresh", "ftp://example.com/") == 2

    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("admin", ["127.0.0.1:1", "1", "nonsense:x", "file:///etc/passwd"])
def test_unreachable_proxy_is_exit_code_2_and_one_line(admin: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--admin", admin]) == 2

    assert capsys.readouterr().err.count("\n") == 1


async def test_server_that_is_no_admin_listener_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    async with TestServer(web.Application()) as server:
        admin = f"127.0.0.1:{server.port}"
        assert await asyncio.to_thread(main, ["status", "--admin", admin]) == 2

    assert f"the server at {admin} answered 404: it is no admin listener" in capsys.readouterr().err


async def test_token_is_read_from_an_option_or_from_the_environment(
    make_proxy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy = await make_proxy(admin_token="secret")

    assert await _run(proxy, "status") == 2
    assert "(--token or FEEDPROXY_ADMIN_TOKEN)" in capsys.readouterr().err
    assert await _run(proxy, "status", "--token", "secret") == 0
    monkeypatch.setenv("FEEDPROXY_ADMIN_TOKEN", "secret")
    assert await _run(proxy, "status") == 0


async def test_http_proxy_in_the_environment_is_ignored(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")

    assert await _run(proxy, "status") == 0
