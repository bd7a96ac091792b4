"""The budget for the content of requests."""

from feedproxy.server.mitm.content_budget import ContentBudget


def test_client_network_has_twice_the_limit_of_one_content() -> None:
    budget = ContentBudget()

    assert budget.reserve("a", "2001:db8::1", 100, 100)
    assert budget.reserve("b", "2001:db8::2", 100, 100)
    assert not budget.reserve("c", "2001:db8::3", 1, 100)
    assert budget.reserve("c", "192.0.2.1", 1, 100)


def test_all_clients_have_eight_times_the_limit_of_one_content() -> None:
    budget = ContentBudget()

    assert all(budget.reserve(str(number), f"192.0.2.{number}", 100, 100) for number in range(8))
    assert not budget.reserve("8", "192.0.2.8", 1, 100)


def test_reservation_grows_until_the_budget_is_exhausted() -> None:
    budget = ContentBudget()

    assert budget.reserve("a", "192.0.2.1", 100, 100)
    assert budget.reserve("b", "192.0.2.1", 50, 100)
    assert budget.reserve("b", "192.0.2.1", 100, 100)
    assert budget.reserve("b", "192.0.2.1", 60, 100)
    assert not budget.reserve("c", "192.0.2.1", 1, 100)

    budget.release("b")

    assert budget.reserve("c", "192.0.2.1", 100, 100)


def test_released_bytes_can_be_reserved_again() -> None:
    budget = ContentBudget()
    budget.reserve("a", "192.0.2.1", 200, 100)

    budget.release("a")
    budget.release("a")

    assert budget.reserve("b", "192.0.2.1", 200, 100)
