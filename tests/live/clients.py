"""Real feed readers, each run as its users run it: `read(url)` returns the titles that the reader has.

A reader keeps its state (cache, validators, known entries) between two runs.
"""

import os
import shutil
import sqlite3
import subprocess
import urllib.request
from pathlib import Path
from typing import ClassVar

import pytest

from tests.live.product import clean_environment
from tests.waiting import PATIENCE


class Reader:
    """One installed reader with its own home. `proxy` is an explicit proxy, or empty."""

    programs: ClassVar[tuple[str, ...]] = ()
    agent: ClassVar[str] = ""
    """A pattern for the User-Agent that it sends; empty where it sends none."""

    def __init__(self, home: Path, proxy: str, trusted: Path) -> None:
        missing = [each for each in self.programs if shutil.which(each) is None]
        if missing:
            pytest.skip(f"not installed: {', '.join(missing)}")
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.proxy = proxy
        self.trusted = trusted

    def read(self, url: str) -> list[str]:
        """Poll the feed once and return the titles that the reader now has, sorted."""
        raise NotImplementedError

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        trust = {"SSL_CERT_FILE": str(self.trusted), "CURL_CA_BUNDLE": str(self.trusted)}
        done = subprocess.run(
            command,
            env=clean_environment(HOME=str(self.home), **trust, **environment),
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, (command, done.returncode, done.stdout, done.stderr)
        return done


class Newsboat(Reader):
    programs = ("newsboat",)
    agent = "newsboat"

    def read(self, url: str) -> list[str]:
        folder = self.home / ".newsboat"
        folder.mkdir(exist_ok=True)
        lines = ["auto-reload no", "download-retries 1", "download-timeout 15"]
        if self.proxy:
            lines += ["use-proxy yes", f"proxy {self.proxy.removeprefix('http://')}", "proxy-type http"]
        (folder / "config").write_text("\n".join(lines) + "\n")
        (folder / "urls").write_text(url + "\n")
        self.run("newsboat", "-x", "reload")
        with sqlite3.connect(folder / "cache.db") as cache:
            return sorted(title for (title,) in cache.execute("select title from rss_item"))


class Rss2Email(Reader):
    programs = ("r2e",)
    agent = "rss2email|feedparser"  # some distributions omit the name of its library

    def read(self, url: str) -> list[str]:
        config, data = self.home / "rss2email.cfg", self.home / "rss2email.json"
        if not config.exists():
            config.write_text(
                "[DEFAULT]\nfrom = reader@example.com\nto = reader@example.com\nemail-protocol = maildir\n"
                f"maildir-path = {self.home}/Maildir\nmaildir-mailbox = INBOX\n"
                f"feed-timeout = 15\nproxy = {self.proxy}\n"
            )
            self._r2e("add", "news", url)
        self._r2e("run")
        assert data.exists()
        # `Maildir` creates its folders, but not their parent.
        subjects = []
        for mail in (self.home / "Maildir" / "INBOX" / "new").glob("*"):
            text = mail.read_text(errors="replace")
            subjects += [line.removeprefix("Subject: ") for line in text.splitlines() if line.startswith("Subject: ")]
        return sorted(subjects)

    def _r2e(self, *words: str) -> None:
        (self.home / "Maildir").mkdir(exist_ok=True)
        self.run("r2e", "-c", str(self.home / "rss2email.cfg"), "-d", str(self.home / "rss2email.json"), *words)


class Sfeed(Reader):
    programs = ("sfeed_update", "curl")

    def read(self, url: str) -> list[str]:
        folder = self.home / "feeds"
        folder.mkdir(exist_ok=True)
        config = self.home / "sfeedrc"
        config.write_text(f"sfeedpath={folder}\nfeeds() {{\n\tfeed news '{url}'\n}}\n")
        proxies = {"http_proxy": self.proxy, "https_proxy": self.proxy} if self.proxy else {}
        self.run("sfeed_update", str(config), **proxies)
        return sorted(line.split("\t")[1] for line in (folder / "news").read_text().splitlines())


class Feedparser(Reader):
    agent = "feedparser"

    def __init__(self, home: Path, proxy: str, trusted: Path) -> None:
        super().__init__(home, proxy, trusted)
        self._feedparser = pytest.importorskip("feedparser", reason="not installed: feedparser")
        self._etag = self._modified = None
        self._titles: list[str] = []

    def read(self, url: str) -> list[str]:
        found = self._feedparser.parse(
            url, etag=self._etag, modified=self._modified, handlers=_handlers(self.proxy, self.trusted)
        )
        assert not found.get("bozo"), found.get("bozo_exception")
        assert found.status in (200, 304), found.status
        self._etag, self._modified = found.get("etag"), found.get("modified")
        if found.status == 200:
            self._titles = sorted(each.title for each in found.entries)
        return self._titles


class Urllib(Reader):
    agent = "Python-urllib"

    def read(self, url: str) -> list[str]:
        opener = urllib.request.build_opener(*_handlers(self.proxy, self.trusted))
        with opener.open(url, timeout=PATIENCE) as answer:
            text = answer.read().decode()
        return sorted(item.split("</title>")[0].split("<title>")[1] for item in text.split("<item>")[1:])


def _handlers(proxy: str, trusted: Path) -> list[urllib.request.BaseHandler]:
    import ssl

    context = ssl.create_default_context(cafile=os.fspath(trusted))
    proxies = {"http": proxy, "https": proxy} if proxy else {}
    return [urllib.request.ProxyHandler(proxies), urllib.request.HTTPSHandler(context=context)]


READERS = (Newsboat, Rss2Email, Sfeed, Feedparser, Urllib)
