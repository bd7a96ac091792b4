"""The metrics of a running proxy are those that the dashboard and the alerts use."""

import json
import re
from collections.abc import Callable

from tests.live.origin import Origin, a_feed, until
from tests.live.product import ROOT, Feedproxy, ask
from tests.live.test_clouds import ADMIN

type Start = Callable[..., Feedproxy]

ONLY_IN_A_FLEET = {"feedproxy_fleet_up", "feedproxy_fleet_waiting", "feedproxy_fleet_events_total"}


def test_every_used_metric_has_a_value_after_some_traffic(start: Start, origin: Origin) -> None:
    origin.publish("/news.rss", a_feed("one"))
    origin.publish("/broken.rss", b"", 500)
    proxy = start()
    admin = until(lambda: ADMIN.search(proxy.said))[1]
    for path in ("/news.rss", "/news.rss", "/broken.rss"):
        proxy.get(origin.url(path))
    told = ask(f"{admin}/metrics").body.decode()

    dashboard = json.loads((ROOT / "conf" / "grafana.json").read_text(encoding="utf-8"))
    asked = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    asked += (ROOT / "conf" / "alerts.yaml").read_text(encoding="utf-8")
    names = set(re.findall(r"\bfeedproxy_\w+", asked)) - ONLY_IN_A_FLEET
    valued = {found[1] for found in re.finditer(r"^(feedproxy_\w+)(?:\{[^}]*\})? [0-9.eE+-]+$", told, re.MULTILINE)}

    assert names
    # A counter of failures may have no value yet; its name is sufficient.
    named = {found[1] for found in re.finditer(r"^# TYPE (feedproxy_\w+)", told, re.MULTILINE)}
    assert names - valued <= {"feedproxy_store_failures_total"} & named, names - valued
