"""Universal Subscription Mechanism 1.7, for its clients: the subscription URL of a feed.

One test per sentence; the sentence is its docstring.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from feedproxy.cli import main
from feedproxy.clock import ManualClock
from tests.stages.origin import Origin, on_loopback

ATOM = "http://www.w3.org/2005/Atom"
ATOM_03 = "http://purl.org/atom/ns#"

type Run = Callable[..., Awaitable[tuple[int, list[str], str]]]


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    made = Origin(ManualClock(1_780_000_000.0))
    runner = await on_loopback(made)
    yield made
    await runner.cleanup()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit code, lines of standard output, standard error of a command."""

    async def ran(*words: str) -> tuple[int, list[str], str]:
        code = await asyncio.to_thread(main, [*words, "--allow-private"])
        said = capsys.readouterr()
        return code, said.out.splitlines(), said.err

    return ran


def a_feed(link: str = "", extra: str = "", *, inside: str = "") -> bytes:
    return (
        f'<?xml version="1.0"?><rss version="2.0"><channel><title>x</title><link>{link}</link>{extra}'
        f"<item><title>one</title>{inside}</item></channel></rss>"
    ).encode()


def self_link(href: str, rel: str = "self", namespace: str = ATOM, kind: str = "application/rss+xml") -> str:
    return f'<a:link rel="{rel}" type="{kind}" href="{href}" xmlns:a="{namespace}"/>'


def a_page(*feeds: str) -> bytes:
    links = "".join(f'<link rel="alternate" type="application/rss+xml" href="{each}">' for each in feeds)
    return f"<!doctype html><html><head>{links}</head><body>x</body></html>".encode()


def saved(tmp_path: Path, body: bytes) -> str:
    path = tmp_path / "feed.rss"
    path.write_bytes(body)
    return str(path)


async def test_discover_reads_the_self_link_of_a_saved_file_without_a_request(
    run: Run, tmp_path: Path, origin: Origin
) -> None:
    """If you can discover the feed URL in the feed, then you've accomplished USM with one HTTP GET."""
    file = saved(tmp_path, a_feed(origin.url("/"), self_link("https://e.example/rss.xml")))

    assert await run("discover", file) == (0, ["https://e.example/rss.xml"], "")
    assert origin.requests == 0


@pytest.mark.parametrize("namespace", [ATOM, ATOM_03])
async def test_discover_recognises_both_atom_namespaces(run: Run, tmp_path: Path, namespace: str) -> None:
    """USM clients may want to check for the current and legacy Atom namespaces."""
    file = saved(tmp_path, a_feed(extra=self_link("https://e.example/rss.xml", namespace=namespace)))

    assert (await run("discover", file))[1] == ["https://e.example/rss.xml"]


async def test_discover_ignores_self_links_of_items(run: Run, tmp_path: Path) -> None:
    """The Atom link construct element must be a child of the RSS channel element."""
    file = saved(tmp_path, a_feed(inside=self_link("https://e.example/item.xml")))

    code, lines, error = await run("discover", file)

    assert (code, lines) == (1, [])
    assert error.count("\n") == 1


async def test_discover_prefers_self_to_start(run: Run, tmp_path: Path) -> None:
    """The value "self" is preferred … The value "start" is also acceptable."""
    start, own = self_link("https://e.example/start", "start"), self_link("https://e.example/self")

    assert (await run("discover", saved(tmp_path, a_feed(extra=start + own))))[1] == ["https://e.example/self"]
    assert (await run("discover", saved(tmp_path, a_feed(extra=start))))[1] == ["https://e.example/start"]


async def test_discover_accepts_start_in_atom_03(run: Run, tmp_path: Path) -> None:
    """Use rel='self' in Atom 1.0 and later and rel='start' in Atom 0.3. … you should look for all alternatives."""
    body = (
        f'<feed version="0.3" xmlns="{ATOM_03}"><title>x</title><link rel="start" href="https://e.example/a"/></feed>'
    )

    assert (await run("discover", saved(tmp_path, body.encode())))[1] == ["https://e.example/a"]


async def test_discover_accepts_the_discouraged_type_application_rdf_xml(run: Run, tmp_path: Path) -> None:
    """RSS readers should expect that some … set the type in the link module element to "application/rdf+xml"."""
    file = saved(tmp_path, a_feed(extra=self_link("https://e.example/r", kind="application/rdf+xml")))

    assert (await run("discover", file))[1] == ["https://e.example/r"]


async def test_discover_prefers_the_self_link_to_the_fetched_url(run: Run, origin: Origin) -> None:
    """The href attribute is the subscription URL. It may be different than the originating URL."""
    origin.publish("/here", a_feed(extra=self_link("https://e.example/there")))

    assert (await run("discover", origin.url("/here")))[1] == ["https://e.example/there"]


async def test_discover_ignores_text_in_the_self_link(run: Run, tmp_path: Path) -> None:
    """the RSS publisher may place the <channel/link> text within the <channel/atom:link> element"""
    link = f'<a:link rel="self" href="https://e.example/r" xmlns:a="{ATOM}">https://e.example/</a:link>'

    assert (await run("discover", saved(tmp_path, a_feed("https://e.example/", link))))[1] == ["https://e.example/r"]


async def test_discover_finds_the_feed_through_the_page_of_a_saved_file(
    run: Run, tmp_path: Path, origin: Origin
) -> None:
    """If your RSS feed's channel/link points to an HTML Webpage that has RSS feed discovery, then this second method
    can be used in place of the Atom Link Construct."""
    origin.publish("/blog", a_page("/rss.xml"), content_type="text/html")

    found = await run("discover", saved(tmp_path, a_feed(origin.url("/blog"))))

    assert found == (0, [origin.url("/rss.xml")], "")
    assert origin.requests == 1  # "It's one HTTP GET versus two HTTP GETs."


async def test_discover_verify_requires_the_page_to_name_the_feed(run: Run, origin: Origin) -> None:
    """This can also serve as verification that the feed content actually belongs to the blog specified in its
    channel/link."""
    origin.publish("/blog", a_page("/rss.xml"), content_type="text/html")
    origin.publish("/rss.xml", a_feed(origin.url("/blog")))
    origin.publish("/stolen.xml", a_feed(origin.url("/blog"), self_link(origin.url("/stolen.xml"))))

    assert await run("discover", "--verify", origin.url("/blog")) == (0, [origin.url("/rss.xml")], "")
    code, lines, error = await run("discover", "--verify", origin.url("/stolen.xml"))
    assert (code, lines) == (1, [])
    assert "does not name it" in error


async def test_discover_lists_every_feed_of_a_page(run: Run, origin: Origin) -> None:
    """Seed 11.1.5: "We can specify as many as we want for each page"."""
    origin.publish("/", a_page("/a", "/b"), content_type="text/html")

    assert (await run("discover", origin.url("/")))[1] == [origin.url("/a"), origin.url("/b")]


async def test_discover_resolves_relative_links_against_the_redirect_target(run: Run, origin: Origin) -> None:
    origin.publish("/old", b"", status=301, location="/new/")
    origin.publish("/new/", a_page("rss.xml"), content_type="text/html")

    assert (await run("discover", origin.url("/old")))[1] == [origin.url("/new/rss.xml")]


async def test_discover_reads_link_header_fields(run: Run, origin: Origin) -> None:
    field = '</rss.xml>; rel="alternate"; type="application/rss+xml"'
    origin.publish("/", a_page(), content_type="text/html", link=field)

    assert (await run("discover", origin.url("/")))[1] == [origin.url("/rss.xml")]


@pytest.mark.parametrize("page", ["/gone", "/plain"])
async def test_discover_returns_the_url_of_a_feed_without_a_page_that_names_it(
    run: Run, origin: Origin, page: str
) -> None:
    origin.publish("/plain", a_page(), content_type="text/html")
    origin.publish("/rss.xml", a_feed(origin.url(page)))

    assert await run("discover", origin.url("/rss.xml")) == (0, [origin.url("/rss.xml")], "")


async def test_discover_prefers_the_requested_feed_among_those_of_its_page(run: Run, origin: Origin) -> None:
    origin.publish("/", a_page("/a", "/rss.xml"), content_type="text/html")
    origin.publish("/rss.xml", a_feed(origin.url("/")))

    assert (await run("discover", origin.url("/rss.xml")))[1] == [origin.url("/rss.xml")]


@pytest.mark.parametrize(
    ("body", "kind"), [(a_page(), "text/html"), (b"hello", "text/plain"), (b"", "text/html"), (b"{}", "text/json")]
)
async def test_discover_without_a_feed_reports_one_line(run: Run, origin: Origin, body: bytes, kind: str) -> None:
    origin.publish("/", body, content_type=kind)

    code, lines, error = await run("discover", origin.url("/"))

    assert (code, lines, error.count("\n")) == (1, [], 1)


async def test_discover_of_an_unreadable_source_reports_one_line(run: Run, tmp_path: Path, origin: Origin) -> None:
    for source in (origin.url("/404"), "http://127.0.0.1:1/"):
        code, lines, error = await run("discover", source)
        assert (code, lines, error.count("\n")) == (1, [], 1), source
    for file in (str(tmp_path / "none"), str(tmp_path), "feed:x", "a\0b"):
        code, lines, error = await run("discover", file)
        assert (code, lines, error.count("\n")) == (2, [], 1), file


async def test_discover_does_not_follow_links_to_private_networks(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, origin: Origin
) -> None:
    origin.publish("/blog", a_page("/rss.xml"), content_type="text/html")
    file = saved(tmp_path, a_feed(origin.url("/blog")))

    assert await asyncio.to_thread(main, ["discover", file]) == 1
    assert origin.requests == 0


# -- subscribe


def a_reader(tmp_path: Path, code: int = 0) -> tuple[str, Path]:
    """Return a reader command that records its arguments, and the file of the record."""
    told, script = tmp_path / "told.txt", tmp_path / "my reader"
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{told}"\nexit {code}\n')
    script.chmod(0o755)
    return f'"{script}"', told


async def test_subscribe_passes_the_subscription_url_to_the_reader(run: Run, tmp_path: Path) -> None:
    """The mechanism then allows RSS readers to … initiate the RSS feed subscription using a small native
    application."""
    file = saved(tmp_path, a_feed(extra=self_link("https://e.example/rss.xml?a=1&amp;b=$(touch x)")))
    reader, told = a_reader(tmp_path)

    assert (await run("subscribe", file, "--reader", f"{reader} --add %u now"))[0] == 0
    assert told.read_text().splitlines() == ["--add", "https://e.example/rss.xml?a=1&b=$(touch%20x)", "now"]
    assert (await run("subscribe", Path(file).as_uri(), "--reader", reader))[0] == 0
    assert told.read_text().startswith("https://e.example/rss.xml")


async def test_subscribe_accepts_the_feed_scheme(run: Run, tmp_path: Path, origin: Origin) -> None:
    origin.publish("/", a_page("/rss.xml"), content_type="text/html")
    reader, told = a_reader(tmp_path)

    assert (await run("subscribe", origin.url("/").replace("http:", "feed:"), "--reader", reader))[0] == 0
    assert told.read_text() == origin.url("/rss.xml") + "\n"


async def test_subscribe_through_a_gateway_prefixes_the_url(run: Run, tmp_path: Path) -> None:
    file = saved(tmp_path, a_feed(extra=self_link("https://e.example/rss.xml")))
    reader, told = a_reader(tmp_path)

    assert (await run("subscribe", file, "--reader", reader, "--through", "http://proxy.example:8080/"))[0] == 0
    assert told.read_text() == "http://proxy.example:8080/https://e.example/rss.xml\n"


async def test_subscribe_with_a_failing_or_missing_reader_reports_an_error(run: Run, tmp_path: Path) -> None:
    file = saved(tmp_path, a_feed(extra=self_link("https://e.example/rss.xml")))

    assert (await run("subscribe", file, "--reader", a_reader(tmp_path, code=3)[0]))[0] == 1
    assert (await run("subscribe", file, "--reader", str(tmp_path / "none")))[0] == 2
    assert (await run("subscribe", file, "--reader", "'"))[0] == 2
    assert (await run("subscribe"))[0] == 2
    assert (await run("subscribe", file, "--install"))[0] == 2
    assert (await run("subscribe", file, "--through", "ftp://x"))[0] == 2


async def test_subscribe_without_a_reader_prints_the_url(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_DIRS"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    file = saved(tmp_path, a_feed(extra=self_link("https://e.example/rss.xml")))

    code, lines, error = await run("subscribe", file)

    assert (code, lines) == (1, ["https://e.example/rss.xml"])
    assert "--reader" in error
