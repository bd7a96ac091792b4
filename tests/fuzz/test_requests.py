"""A short run of the differential fuzzing of requests. `make fuzz` runs it longer."""

from tests.fuzz.requests import run


async def test_fast_path_and_mitmproxy_give_equal_responses() -> None:
    count, difference = await run(seed=1, seconds=4, cases=150)

    assert difference is None, str(difference)
    assert count
