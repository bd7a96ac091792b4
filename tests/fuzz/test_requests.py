"""A short run of the differential fuzzing of requests; `make fuzz` runs it at length."""

from tests.fuzz.requests import run


async def test_the_fast_path_and_mitmproxys_path_answer_the_same() -> None:
    count, difference = await run(seed=1, seconds=4, cases=150)

    assert difference is None, str(difference)
    assert count
