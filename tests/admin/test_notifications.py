"""The operator's view of subscriptions and deliveries."""

from feedproxy.notify.delivery.delivery_worker import FAILED_REQUESTS_MAX
from feedproxy.notify.notification_protocol import DeliveryRequest
from feedproxy.notify.subscription_table import Role, State, Subscription
from tests.stages.admin import NOW, TARGET, Proxy

EVIL = "<script>alert(1)</script>"


async def subscribed(proxy: Proxy, **more: object) -> Subscription:
    values = {"state": State.ACTIVE, "since": NOW, "secret": "hush-hush", **more}
    new = Subscription(Role.SUBSCRIBER, "websub", TARGET, "http://me.example/call?token=hunter2", NOW + 60, **values)  # type: ignore[arg-type]
    return await proxy.app.notifications.subscriptions.put(new)


async def test_page_without_subscriptions_says_so(proxy: Proxy) -> None:
    status, text = await proxy.get("/notifications")

    assert status == 200
    assert "There are no subscriptions" in text


async def test_subscriptions_are_shown_without_their_secrets(proxy: Proxy) -> None:
    await subscribed(proxy)

    _, text = await proxy.get("/notifications")
    (view,) = (await proxy.json("/notifications"))["subscriptions"]

    assert "hush-hush" not in text + str(view)
    assert "hunter2" not in text + str(view)
    assert (view["signed"], view["state"], view["target"]) == (True, "active", TARGET)


async def test_subscription_is_paused_resumed_and_removed(proxy: Proxy) -> None:
    made = await subscribed(proxy)

    async def act(action: str) -> tuple[int, object]:
        status, view, _ = await proxy.post("/subscription", {"id": str(made.id), "action": action})
        return status, view["ok"]

    async def state() -> str | None:
        found = await proxy.app.notifications.subscriptions.get(made.id)
        return str(found.state) if found else None

    assert await act("pause") == (200, True)
    assert await state() == "paused"
    assert await act("resume") == (200, True)
    assert await state() == "active"
    assert await act("remove") == (200, True)
    assert await state() is None
    assert await act("remove") == (200, False)


async def test_unverified_subscription_is_not_resumed(proxy: Proxy) -> None:
    made = await subscribed(proxy, state=State.PENDING)

    for action in ("pause", "resume"):
        _, view, _ = await proxy.post("/subscription", {"id": str(made.id), "action": action})
        assert view["ok"] is False


async def test_subscription_form_redirects_to_a_page_with_the_result(proxy: Proxy) -> None:
    made = await subscribed(proxy)

    status, _, where = await proxy.post("/subscription", {"id": str(made.id), "action": "pause"}, Accept="text/html")
    _, text = await proxy.get(where)

    assert status == 303
    assert "The subscription is paused." in text


async def test_subscription_action_is_accepted_under_its_former_parameter_name(proxy: Proxy) -> None:
    made = await subscribed(proxy)

    _, view, _ = await proxy.post("/subscription", {"id": str(made.id), "deed": "pause"})

    assert (view["ok"], view["action"], view["deed"]) == (True, "pause", "pause")


async def test_unknown_action_is_refused(proxy: Proxy) -> None:
    assert (await proxy.post("/subscription", {"id": "1", "action": "explode"}))[0] == 400
    assert (await proxy.post("/subscription", {"id": "x", "action": "pause"}))[0] == 400


async def test_text_from_other_hosts_is_escaped(proxy: Proxy) -> None:
    await proxy.app.notifications.refresh_requests.record_unknown_site(f"http://a.example/{EVIL}", EVIL)
    await proxy.app.notifications.queue.add(
        DeliveryRequest("websub", EVIL, TARGET, f"http://b.example/{EVIL}"), now=NOW
    )

    status, text = await proxy.get("/notifications")

    assert status == 200
    assert "<script>" not in text
    assert "alert(1)" in text


async def test_failed_subscription_requests_are_shown_newest_first(proxy: Proxy) -> None:
    worker = proxy.app.notifications.delivery_worker
    for callback in ("http://old.example/call", f"http://me.example/{EVIL}?token=hunter2"):
        request = DeliveryRequest("websub", "verify", TARGET, callback)
        worker.record_failure(request, "the callback did not repeat the challenge")

    status, text = await proxy.get("/notifications")
    newest, oldest = (await proxy.json("/notifications"))["failed_requests"]

    assert status == 200
    assert "Failed subscription requests" in text
    assert "the callback did not repeat the challenge" in text
    assert "<script>alert" not in text
    assert "hunter2" not in text + str(newest)
    assert (newest["what"], newest["target"]) == ("verify", TARGET)
    assert oldest["callback"] == "http://old.example/call"


async def test_failed_subscription_requests_are_bounded(proxy: Proxy) -> None:
    for number in range(2 * FAILED_REQUESTS_MAX):
        request = DeliveryRequest("websub", "verify", TARGET, f"http://{number}/")
        proxy.app.notifications.delivery_worker.record_failure(request, "")

    assert len((await proxy.json("/notifications"))["failed_requests"]) == FAILED_REQUESTS_MAX


async def test_ping_sinks_are_pinged_for_the_command_line(proxy: Proxy) -> None:
    status, view, _ = await proxy.post("/ping", {"url": "http://example.com/"})

    assert (status, view["words"]) == (400, "No ping sinks are configured (ping_sinks).")
