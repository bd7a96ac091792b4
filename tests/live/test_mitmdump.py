"""Stock mitmdump with the product's scripts: all of them, and each alone."""

import gzip
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from feedproxy.lab.record import har_format
from feedproxy.lab.record.exchange import Side
from tests.live.origin import Authority, Origin, a_feed
from tests.live.product import COMMAND, MITMDUMP, Process, Seen, ask, copy_authority, product_environment, run
from tests.waiting import PATIENCE

LISTENING = re.compile(r"listening at \S*?127\.0\.0\.1:(\d+)")

pytestmark = pytest.mark.skipif(not Path(*MITMDUMP).exists(), reason="not installed: mitmdump beside this Python")


@pytest.fixture(scope="module")
def scripts() -> Path:
    """Return the output of `feedproxy addons`."""
    done = subprocess.run(
        [*COMMAND, "addons"],
        env=product_environment(Path.home()),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return Path(done.stdout.strip())


_loaded: set[tuple[Path, ...]] = set()
"""Lists of scripts that were loaded into a mitmdump which had not imported feedproxy."""


class Mitmdump(Process):
    """Mitmdump on a free port with these scripts.

    The first mitmdump with the same scripts imports feedproxy by them. Later ones have imported it already, because the
    import takes most of a start's time.
    """

    def __init__(self, folder: Path, scripts: Sequence[Path], authority: Path, **options: object) -> None:
        settings = {
            "listen_host": "127.0.0.1",
            "listen_port": 0,
            "confdir": folder / "conf",
            "termlog_verbosity": "info",
            "ssl_verify_upstream_trusted_ca": authority,
            **options,
        }
        sets = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        loaded = [word for each in scripts for word in ("-s", str(each))]
        copy_authority(folder / "conf")
        # mitmdump does not flush its lines.
        environment = product_environment(folder) | {"PYTHONUNBUFFERED": "1"}
        super().__init__([*MITMDUMP, *sets, *loaded], folder, environment, has_product=tuple(scripts) in _loaded)
        _loaded.add(tuple(scripts))
        port = int(self.line(LISTENING)[1])
        self.address = ("127.0.0.1", port)
        self.base = f"http://127.0.0.1:{port}"

    def get(self, url: str, **fields: str) -> Seen:
        """Send a GET through the explicit proxy."""
        return ask(url, through=self.address, fields=fields)


type Dump = Callable[..., Mitmdump]


@pytest.fixture
def dump(scripts: Path, authority: Authority, tmp_path: Path) -> Iterator[Dump]:
    """Run mitmdump with scripts: `dump("cache.py", store="memory:")`. No log line may be an error."""
    started: list[Mitmdump] = []

    def begin(*names: str, **options: object) -> Mitmdump:
        folder = tmp_path / str(len(started))
        started.append(Mitmdump(folder, [scripts / each for each in names], authority.file, **options))
        return started[-1]

    yield begin
    for each in started:
        each.terminate()
        out = each.said + each.rest()
        assert not re.search(r"(?i)traceback|\berror\b(?! in )|crashed|exception", out), out


def test_every_script_exists_at_the_printed_path(scripts: Path) -> None:
    assert {each.name for each in scripts.glob("*.py")} >= {
        "all.py",
        "accesslog.py",
        "cache.py",
        "coding.py",
        "entrance.py",
        "finish.py",
        "moved.py",
        "origin.py",
        "subscribers.py",
        "usm.py",
    }


def test_all_scripts_loaded_together_cache_feeds_at_both_entrances(dump: Dump, origin: Origin) -> None:
    origin.publish("/all.rss", a_feed("one"))
    origin.publish("/all-by-proxy.rss", a_feed("one"))
    proxy = dump("all.py", store="memory:", allow_private="true", admin="")

    gateway = [ask(f"{proxy.base}/{origin.url('/all.rss')}") for _ in range(2)]
    explicit = [proxy.get(origin.url("/all-by-proxy.rss")) for _ in range(2)]

    for first, second in (gateway, explicit):
        assert (first.status, second.status) == (200, 200)
        assert "hit" in second.cache
        assert first.fields["Content-Type"].startswith("application/rss+xml")
    assert len(origin.asked("/all.rss")) == len(origin.asked("/all-by-proxy.rss")) == 1
    assert ask(proxy.base + "/").status == 200
    assert ask(origin.url("/all.rss"), "POST", body=b"x", through=proxy.address).status == 200


def test_mitmdump_options_accept_units(dump: Dump, origin: Origin) -> None:
    origin.publish("/units.rss", a_feed("one"))
    proxy = dump("all.py", store="memory:", allow_private="true", admin="", default_lifetime="40m", memory_max="64MiB")

    assert re.search(r"ttl=2(400|39\d)", proxy.get(origin.url("/units.rss")).cache)


@pytest.mark.parametrize("option", ["default_lifetime", "feed_hints"])
def test_invalid_value_of_an_option_ends_mitmdump(
    scripts: Path, authority: Authority, tmp_path: Path, option: str
) -> None:
    proxy = Mitmdump(tmp_path, [scripts / "all.py"], authority.file, store="memory:", admin="", **{option: "soon"})

    assert proxy.wait() == 1
    printed = proxy.rest() + "".join(proxy.printed) + proxy.said
    assert re.search(rf"{option}\b.* expected ", printed), printed


@pytest.mark.parametrize("names", [("all", "cache"), ("cache", "all")])
def test_addon_that_is_loaded_twice_ends_mitmdump_with_one_line(
    scripts: Path, tmp_path: Path, names: tuple[str, str]
) -> None:
    given = [text for name in names for text in ("-s", str(scripts / f"{name}.py"))]

    ended = run(
        [*MITMDUMP, "--listen-host", "127.0.0.1", "--listen-port", "0", "--set", "store=memory:", *given], tmp_path
    )

    assert ended.returncode == 1
    assert "the addon cache is loaded twice" in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("socks5", "expected regular, or reverse:URL together with the option upstream"),
        ("reverse:http://127.0.0.1:9", "expected regular, or reverse:URL together with the option upstream"),
        ("upstream:http://127.0.0.1:9", "expected the option upstream_proxy for a parent proxy"),
    ],
)
def test_mode_without_an_entrance_ends_mitmdump(
    scripts: Path, authority: Authority, tmp_path: Path, mode: str, expected: str
) -> None:
    proxy = Mitmdump(tmp_path, [scripts / "all.py"], authority.file, store="memory:", admin="", mode=mode)

    assert proxy.wait() == 1
    printed = proxy.rest() + "".join(proxy.printed) + proxy.said
    assert f"mode: {mode} is not supported: {expected}" in printed, printed


def test_all_scripts_work_in_mitmdumps_reverse_mode(dump: Dump, origin: Origin) -> None:
    origin.publish("/front.rss", a_feed("one"))
    upstream = origin.url("")
    proxy = dump("all.py", store="memory:", admin="", mode=f"reverse:{upstream}", upstream=upstream)

    first, second = ask(proxy.base + "/front.rss"), ask(proxy.base + "/front.rss")

    assert (first.status, second.status) == (200, 200)
    assert "hit" in second.cache


def test_cache_script_alone_answers_the_second_request(dump: Dump, origin: Origin) -> None:
    origin.publish("/cache.rss", a_feed("one"))
    proxy = dump("cache.py", store="memory:", allow_private="true")

    first, second = (proxy.get(origin.url("/cache.rss")) for _ in range(2))
    gateway = ask(f"{proxy.base}/{origin.url('/cache.rss')}")

    assert (first.status, second.status, gateway.status) == (200, 200, 200)
    assert "hit" in second.cache
    assert "hit" in gateway.cache
    assert len(origin.asked("/cache.rss")) == 1
    assert ask(origin.url("/cache.rss"), "POST", body=b"x", through=proxy.address).status == 200


def test_cache_script_alone_refuses_private_addresses_by_default(dump: Dump, origin: Origin) -> None:
    origin.publish("/private.rss", a_feed("one"))

    assert dump("cache.py", store="memory:").get(origin.url("/private.rss")).status == 403
    assert origin.asked("/private.rss") == []


def test_media_type_script_alone_corrects_the_media_type(dump: Dump, origin: Origin) -> None:
    origin.publish("/usm.rss", a_feed("one"), Content_Type="text/xml; charset=utf-8")
    origin.publish("/page.html", b"<html>hello</html>", Content_Type="text/html")
    proxy = dump("usm.py")

    feed, page = proxy.get(origin.url("/usm.rss")), proxy.get(origin.url("/page.html"))

    assert feed.fields["Content-Type"] == "application/rss+xml; charset=utf-8"
    assert b'rel="self"' in feed.body.replace(b"'", b'"')
    assert (page.fields["Content-Type"], page.body) == ("text/html", b"<html>hello</html>")


def test_media_type_script_alone_labels_decoded_content_as_such(dump: Dump, origin: Origin) -> None:
    feed = a_feed("one")
    proxy = dump("usm.py")
    coded = gzip.compress(feed)
    origin.publish("/usm.rss", coded, Content_Encoding="gzip", Content_Digest="sha-256=:AAAA:", ETag='"v1"')

    seen = proxy.get(origin.url("/usm.rss"), accept_encoding="gzip")

    assert seen.body.endswith(b"</rss>\n")
    assert not {"Content-Encoding", "Content-Digest"} & set(seen.fields)
    assert seen.fields["ETag"] == 'W/"v1"'


def test_media_type_script_alone_removes_a_wrong_label_and_an_invalid_tag(dump: Dump, origin: Origin) -> None:
    proxy = dump("usm.py", self_link="off")
    origin.publish("/label.rss", a_feed("one"), Content_Encoding="gzip")
    origin.publish("/tag.rss", gzip.compress(a_feed("one")), Content_Encoding="gzip", ETag='"a"b"')

    label, tag = proxy.get(origin.url("/label.rss")), proxy.get(origin.url("/tag.rss"))

    assert (label.body, label.fields["Content-Encoding"]) == (a_feed("one"), None)
    assert tag.fields["ETag"] is None


def test_coding_script_alone_encodes_for_the_reader(dump: Dump, origin: Origin) -> None:
    origin.publish("/coding.rss", a_feed(*map(str, range(50))))
    proxy = dump("coding.py")

    coded = proxy.get(origin.url("/coding.rss"), accept_encoding="gzip")
    plain = proxy.get(origin.url("/coding.rss"))

    assert coded.fields["Content-Encoding"] == "gzip"
    assert len(coded.body) < len(plain.body) / 2
    assert "Content-Encoding" not in plain.fields
    assert "ccept-" in coded.fields["Vary"]
    assert "ccept-" in plain.fields["Vary"]


def test_moves_script_alone_converts_documents_to_redirects(dump: Dump, origin: Origin) -> None:
    document = b"<?xml version='1.0'?><redirect><newLocation>/new.rss</newLocation></redirect>"
    origin.publish("/moved.rss", document, Content_Type="text/xml")
    proxy = dump("moved.py")

    seen = proxy.get(origin.url("/moved.rss"))

    assert (seen.status, seen.fields["Location"]) == (301, origin.url("/new.rss"))


def test_origin_script_alone_refuses_private_addresses(dump: Dump, origin: Origin) -> None:
    origin.publish("/origin.rss", a_feed("one"))
    careful, trusting = dump("origin.py"), dump("origin.py", allow_private="true")

    assert careful.get(origin.url("/origin.rss")).status == 502
    assert origin.asked("/origin.rss") == []
    assert trusting.get(origin.url("/origin.rss")).body == a_feed("one")


def test_entrance_script_alone_finds_targets_and_refuses_other_requests(dump: Dump, origin: Origin) -> None:
    origin.publish("/entrance.rss", a_feed("one"))
    proxy = dump("entrance.py")

    assert ask(proxy.base + "/").status == 200
    assert ask(proxy.base + "/-/nothing").status == 404
    for through in (None, proxy.address):
        for method in ("GET", "POST"):
            url = origin.url("/entrance.rss")
            seen = ask(url if through else f"{proxy.base}/{url}", method, through=through, body=b"")
            assert seen.status in (403, 508), seen.body
    assert origin.asked("/entrance.rss") == []


def test_subscribers_script_alone_reports_readers_to_the_origin(dump: Dump, origin: Origin) -> None:
    origin.publish("/subscribers.rss", a_feed("one"))
    proxy = dump("subscribers.py", contact_url="https://proxy.example/")

    for agent in ("Amethyst/1", "Beryl/2"):
        proxy.get(origin.url("/subscribers.rss"), user_agent=agent)

    said = origin.asked("/subscribers.rss")[-1].agent
    assert re.fullmatch(r"feedproxy/\S+ \(\+https://proxy\.example/; 2 subscribers; feed-id=[0-9a-f]+\)", said), said


@pytest.mark.parametrize("name", ["accesslog.py", "finish.py", "admin.py"])
def test_script_without_effect_alone_changes_no_response(dump: Dump, origin: Origin, name: str) -> None:
    path = f"/{name}.rss"
    origin.publish(path, a_feed("one"))
    proxy = dump(name, **({"admin": "127.0.0.1:0"} if name == "admin.py" else {}))

    assert proxy.get(origin.url(path)).body == a_feed("one")
    head = ask(origin.url(path), "HEAD", through=proxy.address)
    assert (head.status, head.fields["Content-Length"]) == (200, str(len(a_feed("one"))))


def test_recorder_script_alone_records_mitmproxys_exchanges(dump: Dump, origin: Origin, tmp_path: Path) -> None:
    origin.publish("/recorded.rss", a_feed("one"))
    proxy = dump("record.py", record=tmp_path / "week.har")

    ask(origin.url("/recorded.rss"), through=proxy.address)

    found = har_format.read(tmp_path / "week.har")
    sides = [(each.side, bool(each.reader), found.content(each)) for each in found.exchanges]
    assert sides == [(Side.READER, True, a_feed("one")), (Side.ORIGIN, False, a_feed("one"))]


def test_scripts_origin_and_cache_together_answer_the_second_request_from_the_copy(dump: Dump, origin: Origin) -> None:
    origin.publish("/two.rss", a_feed("one"), Content_Type="text/xml")
    proxy = dump("origin.py", "cache.py", store="memory:", allow_private="true")

    first, second = proxy.get(origin.url("/two.rss")), proxy.get(origin.url("/two.rss"))

    assert (first.status, second.status) == (200, 200)
    assert "hit" in second.cache
    assert len(origin.asked("/two.rss")) == 1
