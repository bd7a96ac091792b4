"""Variants that a new response adds or replaces."""

from feedproxy.cache.stored_response import Bodies, Content, StoredResponse
from feedproxy.cache.vary import choose, request_fields_for, with_variant
from feedproxy.http.content_negotiation import vary_names
from feedproxy.http.message import Fields


def answer(language: str | None, *, vary: str = "Accept-Language", time: float = 0) -> StoredResponse:
    """Return the response to a request for this language."""
    fields = Fields([("Vary", vary)] if vary else [])
    return StoredResponse(
        "https://example.com/",
        200,
        fields,
        Content(Bodies({"identity": b""})),
        time,
        time,
        vary_request=request_fields_for(fields, asking(language)),
    )


def asking(language: str | None) -> Fields:
    return Fields() if language is None else Fields([("Accept-Language", language)])


def kept(*variants: StoredResponse, new: StoredResponse, language: str | None) -> tuple[StoredResponse, ...]:
    return with_variant(variants, new, asking(language), own_agent=False, limit=2)


def test_variant_of_another_request_is_added() -> None:
    german, french = answer("de"), answer("fr")

    assert kept(german, new=french, language="fr") == (german, french)


def test_variant_of_equal_request_is_replaced() -> None:
    old, new, french = answer("de, en"), answer("EN,de", time=1), answer("fr")

    assert kept(old, french, new=new, language="EN,de") == (french, new)


def test_variant_selected_before_is_replaced_by_response_without_vary() -> None:
    """Otherwise that variant, which comes first, would be chosen, and fetched in vain, for ever."""
    german, plain = answer("de"), answer("de", vary="", time=1)

    variants = kept(german, new=plain, language="de")

    assert choose(variants, asking("de"), own_agent=False) is plain


def test_variant_above_the_maximum_replaces_the_oldest() -> None:
    first, second, third = answer("de"), answer("fr"), answer("pl")

    assert kept(first, second, new=third, language="pl") == (second, third)


def test_vary_with_very_many_names_matches_no_request() -> None:
    """Each lookup would compare thousands of fields."""
    many = ", ".join(f"x-{number}" for number in range(65))

    assert vary_names(Fields([("Vary", many)])) == ("*",)
    assert len(vary_names(Fields([("Vary", many.removesuffix(", x-64"))]))) == 64
