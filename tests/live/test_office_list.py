"""The office's feed list in operation: imported by the command, shared by workers, used by a reader and a browser."""

import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from feedproxy.feed import opml
from tests.live.clients import Newsboat
from tests.live.conftest import needs
from tests.live.origin import Authority, Origin, a_feed, until
from tests.live.product import COMMAND, Feedproxy, ask, clean_environment, product_environment, run

type Start = Callable[..., Feedproxy]

ADMIN = re.compile(r"the admin listener is at (http://\S+)")


def admin_of(proxy: Feedproxy) -> str:
    until(lambda: ADMIN.search(proxy.said) is not None)
    found = ADMIN.search(proxy.said)
    assert found is not None
    return found[1]


def command(proxy: Feedproxy, *words: str) -> subprocess.CompletedProcess[str]:
    whole = [*COMMAND, "opml", *words, "--admin", admin_of(proxy)]
    return run(whole, proxy.folder / "command", product_environment(proxy.folder))


def a_file(folder: Path, *urls: str, title: str = "Office") -> str:
    path = folder / "list.opml"
    feeds = tuple(opml.Subscription(each, f"Feed {number}", folder=("News",)) for number, each in enumerate(urls))
    path.write_bytes(opml.write(opml.SubscriptionList(title, feeds)))
    return str(path)


def listed(proxy: Feedproxy, query: str = "?addresses=original") -> list[str]:
    found = opml.read(ask(f"{proxy.base}/-/feeds.opml{query}").body)
    assert found is not None
    return [each.address for each in found.feeds]


def test_imported_list_is_shared_by_workers_and_survives_a_restart(
    start: Start, origin: Origin, tmp_path: Path
) -> None:
    origin.publish("/one", a_feed("one"))
    store = tmp_path / "store"
    proxy = start("--workers", "2", store=store)

    done = command(proxy, "import", a_file(tmp_path, origin.url("/one"), "http://127.0.0.1:1/x?token=xyzzy"))

    assert (done.returncode, done.stdout) == (0, "2 feeds added, 0 known, 0 skipped; 2 in all\n"), done.stderr
    for _ in range(8):  # at any worker
        until(lambda: listed(proxy) == [origin.url("/one")])
    until(lambda: origin.asked("/one") != [])
    until(lambda: "hit" in proxy.get(origin.url("/one")).cache)
    assert len(origin.asked("/one")) == 1
    again = opml.read(command(proxy, "export").stdout.encode())
    assert again is not None
    assert (again.title, again.feeds[0].folder) == ("Office", ("News",))
    assert "xyzzy" not in proxy.said
    assert proxy.terminate() == 0
    assert listed(start(store=store)) == [origin.url("/one")]


def test_invalid_list_and_unreachable_proxy_are_reported_in_one_line(start: Start, tmp_path: Path) -> None:
    proxy = start()
    (tmp_path / "x.opml").write_text("<html>")

    for words, code in ((["import", str(tmp_path / "x.opml")], 1), (["import", str(tmp_path / "none")], 2), ([], 2)):
        done = command(proxy, *words)
        assert (done.returncode, done.stderr.count("\n")) == (code, 1), done.stderr
    elsewhere = [*COMMAND, "opml", "export", "--admin", "127.0.0.1:1"]
    done = run(elsewhere, tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_export_states_how_many_feeds_the_public_list_omits(start: Start, origin: Origin) -> None:
    origin.publish("/one", a_feed("one"))
    proxy = start(list_readers_min=2)
    proxy.get(origin.url("/one"))

    done = command(proxy, "export")

    assert (done.returncode, opml.read(done.stdout.encode()).feeds) == (0, ())  # type: ignore[union-attr]
    assert done.stderr.startswith("0 of 1 feeds exported: ")


def test_status_states_that_no_feed_has_the_text(start: Start, origin: Origin) -> None:
    origin.publish("/one", a_feed("one"))
    proxy = start()
    proxy.get(origin.url("/one"))

    done = run([*COMMAND, "status", "other", "--admin", admin_of(proxy)], proxy.folder / "command")

    assert done.stdout.endswith("\nno feed has 'other' in its title or address\n")


@needs("newsboat")
def test_newsboat_subscribes_to_the_list(start: Start, origin: Origin, authority: Authority, tmp_path: Path) -> None:
    origin.publish("/one", a_feed("first"))
    origin.publish("/two", a_feed("second"))
    proxy = start(list_readers_min=1)
    proxy.get(origin.url("/one"))
    reader = Newsboat(tmp_path / "reader", "", authority.file)
    folder = reader.home / ".newsboat"
    folder.mkdir()
    (folder / "config").write_text(f'urls-source "opml"\nopml-url "{proxy.base}/-/feeds.opml"\ndownload-retries 1\n')
    (folder / "urls").write_text("")

    def titles() -> list[str]:
        reader.run("newsboat", "-x", "reload")
        with sqlite3.connect(folder / "cache.db") as cache:
            return sorted(title for (title,) in cache.execute("select title from rss_item"))

    assert titles() == ["first"]
    proxy.get(origin.url("/two"))
    assert titles() == ["first", "second"]
    # Through the proxy: the origin was contacted only by it.
    assert all("newsboat" not in (each.fields.get("User-Agent") or "") for each in origin.asked("/one"))


@needs("newsboat")
def test_newsboat_imports_the_list_with_its_folders(
    start: Start, origin: Origin, authority: Authority, tmp_path: Path
) -> None:
    proxy = start()
    assert command(proxy, "import", a_file(tmp_path, origin.url("/a"), origin.url("/b"))).returncode == 0
    reader = Newsboat(tmp_path / "reader", "", authority.file)
    (reader.home / ".newsboat").mkdir()
    saved = tmp_path / "feeds.opml"
    saved.write_bytes(ask(f"{proxy.base}/-/feeds.opml").body)

    reader.run("newsboat", "-i", str(saved))

    urls = (reader.home / ".newsboat" / "urls").read_text().splitlines()
    assert [line.split()[0] for line in urls] == [proxy.gateway(origin.url(path)) for path in ("/a", "/b")]
    assert all("News" in line for line in urls)


@needs("chromium")
def test_chromium_uses_the_proxy_for_listed_hosts(start: Start, tmp_path: Path) -> None:
    proxy = start()
    assert command(proxy, "import", a_file(tmp_path, "http://known.test/a")).returncode == 0
    browser = shutil.which("chromium")
    assert browser is not None

    subprocess.run(
        [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--proxy-pac-url={proxy.base}/-/proxy.pac",
            "--dump-dom",
            "--timeout=10000",
            "http://known.test/page",
        ],
        env=clean_environment(HOME=str(tmp_path)),
        capture_output=True,
        timeout=100,
        check=False,
    )

    until(lambda: "http://known.test/page" in proxy.said)


@pytest.mark.parametrize("flag", [False, True])
def test_hosts_are_decrypted_with_the_operators_flag_only(
    start: Start, origin: Origin, tmp_path: Path, flag: bool
) -> None:
    proxy = start()
    words = ["import", a_file(tmp_path, "https://feeds.example/a"), *(["--intercept"] if flag else [])]

    done = command(proxy, *words)

    assert done.returncode == 0
    assert ("decrypted from now on: feeds.example" in done.stdout) is flag
