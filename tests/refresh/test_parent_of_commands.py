"""Requests of commands go through the parent proxy (`upstream_proxy`) of the configuration or the environment."""

import asyncio
from pathlib import Path

import pytest

from feedproxy.admin import admin_client
from feedproxy.check.probe import probe_feed
from feedproxy.cli import main
from feedproxy.errors import UsageError
from feedproxy.refresh.standalone_fetch import fetch_document
from feedproxy.settings import Settings
from feedproxy.upstream import resolver
from feedproxy.upstream.resolver import Resolver
from feedproxy.upstream.upstream_errors import ParentFailed
from tests.stages.origin import a_feed
from tests.upstream.parents import a_parent
from tests.upstream.raw import origin

FEED = a_feed("one")
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/rss+xml\r\nContent-Length: %d\r\n\r\n%b" % (len(FEED), FEED)
HOST = "feeds.example.com"


@pytest.fixture
async def _names() -> None:
    """Resolve every name to loopback."""
    resolver._RESOLVERS[asyncio.get_running_loop()] = Resolver(lambda host: ["127.0.0.1"])


@pytest.mark.usefixtures("_names")
@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_document_is_fetched_through_the_parent(scheme: str) -> None:
    async with origin(ANSWER) as raw, a_parent(scheme) as played:
        settings = Settings(allow_private=True, upstream_proxy=f"{scheme}://127.0.0.1:{played.port}")
        assert (await fetch_document(raw.url("/feed", HOST), settings)).body == FEED
        assert len(played.asked) == 1


@pytest.mark.usefixtures("_names")
async def test_document_is_not_fetched_directly_if_the_parent_is_down() -> None:
    async with origin(ANSWER) as raw:
        async with a_parent() as played:
            pass
        settings = Settings(allow_private=True, upstream_proxy=f"http://127.0.0.1:{played.port}")
        with pytest.raises(ParentFailed, match="upstream_proxy"):
            await fetch_document(raw.url("/feed", HOST), settings)
        assert raw.connections == 0


@pytest.mark.usefixtures("_names")
async def test_feed_is_inspected_through_the_parent() -> None:
    async with origin(ANSWER) as raw, a_parent() as played:
        settings = Settings(allow_private=True, upstream_proxy=f"http://127.0.0.1:{played.port}")
        seen = await probe_feed(raw.url("/feed", HOST), settings, pause=0)
        assert seen.last.status == 200
        assert len(raw.heads) == len([each for each in played.asked if f":{raw.port}/" in each]) > 0


@pytest.mark.parametrize(
    "words",
    [
        ("opml", "import", "http://10.0.0.1/list", "--allow-private"),
        ("ping", "http://x.example.com/", "--sink", "http://10.0.0.1/"),
    ],
)
async def test_commands_with_a_config_option_use_its_parent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    async with a_parent() as played:
        pass
    (file := tmp_path / "feedproxy.yaml").write_text(f"upstream_proxy: http://127.0.0.1:{played.port}\n")

    code = await asyncio.to_thread(main, [*words, "--config", str(file)])

    told = capsys.readouterr()
    assert code == 1
    assert "upstream_proxy" in told.out + told.err


def test_commands_use_the_parent_of_the_environment_and_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file := tmp_path / "feedproxy.yaml").write_text("upstream_proxy: http://of-the-file.example.com:3128\n")
    assert admin_client.request_settings(False) == Settings()
    monkeypatch.setenv("FEEDPROXY_CONFIG", str(file))
    assert admin_client.request_settings(True) == Settings(
        allow_private=True, upstream_proxy="http://of-the-file.example.com:3128"
    )
    monkeypatch.setenv("FEEDPROXY_UPSTREAM_PROXY", "socks5://10.0.0.1:1080")
    assert admin_client.request_settings(False).upstream_proxy == "socks5://10.0.0.1:1080"
    monkeypatch.setenv("FEEDPROXY_UPSTREAM_PROXY", "somewhere")
    with pytest.raises(UsageError, match="FEEDPROXY_UPSTREAM_PROXY: upstream_proxy: invalid proxy address"):
        admin_client.request_settings(False)
