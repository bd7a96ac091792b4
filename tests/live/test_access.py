"""Access control as readers see it: files written by htpasswd, curl, one or two workers, with and without fast path."""

import base64
import hashlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import argon2
import pytest

from tests.live.conftest import needs
from tests.live.origin import Origin, a_feed, until
from tests.live.product import COMMAND, Feedproxy, Seen, ask, product_environment, run

pytestmark = needs("htpasswd", "curl")

type Start = Callable[..., Feedproxy]

WAYS = {"plain": ((), False), "fast": ((), True), "two workers": (("--workers", "2"), True)}


@pytest.fixture(params=list(WAYS))
def guarded(request: pytest.FixtureRequest, start: Start, origin: Origin, tmp_path: Path) -> Iterator[Feedproxy]:
    """Run a proxy where bob has a password by htpasswd and carol one by Argon2.

    Both may read /team, and bob may read /bob.
    """
    arguments, fast = WAYS[request.param]
    users = tmp_path / "users"
    subprocess.run(["htpasswd", "-cbB", str(users), "bob", "bob's"], check=True, capture_output=True, timeout=60)
    with users.open("a") as file:
        file.write(f"carol:{argon2.PasswordHasher(time_cost=1, memory_cost=8192).hash('carol' + chr(39) + 's')}\n")
    (tmp_path / "wsse").write_text("bob:for wsse\n")
    (tmp_path / "wsse").chmod(0o600)
    (tmp_path / "tokens").touch()
    (tmp_path / "wallet").write_text(
        f'- {{match: "{origin.url("/team/paid.rss")}", user: bob, query: {{key: bobs}}}}\n'
    )
    (tmp_path / "wallet").chmod(0o600)
    (tmp_path / "feedproxy.yaml").write_text(
        f"users_file: {users}\nwsse_file: {tmp_path / 'wsse'}\ntokens_file: {tmp_path / 'tokens'}\n"
        f"wallet: {tmp_path / 'wallet'}\n"
        f"feeds:\n  - match: {origin.url('/team')}*\n    readers: ['*']\n"
        f"  - match: {origin.url('/bob')}*\n    readers: [bob]\n"
    )
    origin.publish("/team/feed.rss", a_feed("team"), Cache_Control="public, max-age=600")
    origin.publish("/bob/feed.rss", a_feed("bobs"), Cache_Control="public, max-age=600")
    made = start(*arguments, "--config", str(tmp_path / "feedproxy.yaml"), fast_path=fast)
    yield made
    assert "Traceback" not in made.said
    assert "bob's" not in made.said


def basic(name: str, password: str = "") -> str:
    return "Basic " + base64.b64encode(f"{name}:{password or name + chr(39) + 's'}".encode()).decode()


def wsse(nonce: str, *, decoded: bool, hexadecimal: bool, off: float = 0, password: str = "for wsse") -> str:
    """Return X-WSSE by the specification's formula, in each variant that clients use."""
    created = datetime.fromtimestamp(time.time() + off, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    sent = base64.b64encode(nonce.encode()).decode()
    summed = hashlib.sha1(
        (nonce if decoded else sent).encode() + created.encode() + password.encode(), usedforsecurity=False
    )
    digest = base64.b64encode(summed.hexdigest().encode() if hexadecimal else summed.digest()).decode()
    return f'UsernameToken Username="bob", PasswordDigest="{digest}", Nonce="{sent}", Created="{created}"'


def test_basic_password_grants_access_and_the_response_is_not_shared(guarded: Feedproxy, origin: Origin) -> None:
    feed, bobs = origin.url("/team/feed.rss"), origin.url("/bob/feed.rss")
    before = len(origin.asked("/team/feed.rss"))

    def status(url: str, **fields: str) -> int:
        return guarded.get(url, **fields).status

    for _ in range(2):
        assert status(feed) == 401
        assert status(feed, authorization=basic("bob")) == 200
        assert status(feed, authorization=basic("carol")) == 200
        assert status(feed, authorization=basic("bob", "wrong")) == 401
        assert status(feed, authorization=basic("nobody")) == 401
        assert status(bobs, authorization=basic("bob")) == 200
        assert status(bobs, authorization=basic("carol")) == 403
    assert "private" in guarded.get(feed, authorization=basic("bob")).fields["Cache-Control"]
    assert len(origin.asked("/team/feed.rss")) == before + 1
    assert all("Authorization" not in each.fields for each in origin.asked("/team/feed.rss"))
    asked = guarded.get(feed).fields.get_all("WWW-Authenticate")
    assert [each.split()[0] for each in asked or ()] == ["Basic", "WSSE"]


def test_wsse_token_is_accepted_once_by_all_workers_together(guarded: Feedproxy, origin: Origin) -> None:
    feed = origin.url("/bob/feed.rss")
    for decoded, hexadecimal in product([True, False], repeat=2):
        proof = wsse(f"nonce-{decoded}-{hexadecimal}", decoded=decoded, hexadecimal=hexadecimal)
        fields = {"authorization": 'WSSE profile="UsernameToken"', "x_wsse": proof}

        # Five connections, which the system distributes over the workers.
        assert [guarded.get(feed, **fields).status for _ in range(5)] == [200, 401, 401, 401, 401]


def test_wsse_token_with_old_time_or_wrong_password_is_refused(guarded: Feedproxy, origin: Origin) -> None:
    feed = origin.url("/bob/feed.rss")
    for proof in (
        wsse("old", decoded=False, hexadecimal=False, off=-400),
        wsse("early", decoded=False, hexadecimal=False, off=400),
        wsse("wrong", decoded=False, hexadecimal=False, password="guessed"),
        "UsernameToken nonsense",
    ):
        assert guarded.get(feed, x_wsse=proof).status in (401, 429)  # 429 after too many guesses


@pytest.mark.parametrize("guarded", ["fast"], indirect=True)
def test_curl_authenticates_at_the_explicit_proxy_by_407(guarded: Feedproxy, origin: Origin, tmp_path: Path) -> None:
    def curl(*arguments: str) -> str:
        command = ["curl", "-s", "-o", str(tmp_path / "out"), "-w", "%{http_code}", "--noproxy", "", "--max-time", "60"]
        command += ["--proxy", guarded.base, *arguments, origin.url("/team/feed.rss")]
        return subprocess.run(
            command, env=product_environment(tmp_path), capture_output=True, text=True, timeout=90, check=True
        ).stdout

    assert curl() == "407"
    assert curl("--proxy-user", "bob:bob's") == "200"
    assert curl("--proxy-user", "bob:wrong") == "407"
    assert curl("--user", "bob:bob's") == "407"


def test_response_to_credentials_is_not_served_to_another_user(guarded: Feedproxy, origin: Origin) -> None:
    origin.publish("/team/paid.rss?key=bobs", a_feed("for bob"), Cache_Control="max-age=600")
    origin.publish("/team/paid.rss", a_feed("for all"), Cache_Control="max-age=600")
    url = origin.url("/team/paid.rss")
    converted = f"{guarded.base}/-/as/json/{url}"

    for _ in range(3):
        assert b"for bob" in guarded.get(url, authorization=basic("bob")).body
        assert b"for bob" in ask(converted, fields={"authorization": basic("bob")}).body
        assert b"for all" in guarded.get(url, authorization=basic("carol")).body
        assert b"for all" in ask(converted, fields={"authorization": basic("carol")}).body
        assert guarded.get(url).status == ask(converted).status == 401
    for path in ("feeds.opml", "changes.xml", "proxy.pac"):
        assert b"paid" not in ask(f"{guarded.base}/-/{path}").body


@pytest.mark.parametrize("guarded", ["two workers"], indirect=True)
def test_secret_address_works_in_every_format_until_it_is_revoked(
    guarded: Feedproxy, origin: Origin, tmp_path: Path
) -> None:
    feed = origin.url("/bob/feed.rss")

    def token(*arguments: str) -> str:
        command = [*COMMAND, "token", *arguments, "--config", str(tmp_path / "feedproxy.yaml")]
        done = run(command, tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    secret = token("add", "bob", feed).split("/-/with/")[1].split("/")[0]

    def seen(path: str) -> Seen:
        return ask(f"{guarded.base}/-/with/{secret}/{path}", deadline=60)

    def becomes(path: str, status: int) -> Seen:
        """Wait for a value: each worker checks the file about once a second."""
        return until(lambda: found if (found := seen(path)).status == status else None)

    becomes(feed, 200)
    for name in ("json", "html", "rss"):
        got = becomes(f"-/as/{name}/{feed}", 200)
        assert secret.encode() not in got.body
        assert "private" in got.fields["Cache-Control"]
    assert seen(feed.replace("feed", "other")).status == 404
    token("revoke", "bob")
    becomes(feed, 404)
    becomes(f"-/as/json/{feed}", 404)
    assert secret not in guarded.said


def test_used_wsse_token_is_refused_after_a_restart(start: Start, origin: Origin, tmp_path: Path) -> None:
    (tmp_path / "wsse").write_text("bob:for wsse\n")
    origin.publish("/restart.rss", a_feed("one"), Cache_Control="max-age=600")
    options = {"wsse_file": tmp_path / "wsse", "readers": "bob", "store": tmp_path / "store"}
    proof = wsse("once", decoded=False, hexadecimal=False)
    first = start(**options)
    assert first.get(origin.url("/restart.rss"), x_wsse=proof).status == 200
    assert first.terminate() == 0

    assert start(**options).get(origin.url("/restart.rss"), x_wsse=proof).status == 401
    shutil.rmtree(tmp_path / "store" / "nonces")
