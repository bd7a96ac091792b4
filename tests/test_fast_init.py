"""The faster `__init__` of frozen dataclasses."""

import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from feedproxy.fast_init import fast_init


@dataclass(frozen=True, slots=True)
class Plain:
    """A dataclass with required and optional fields."""

    name: str
    size: int = 1
    note: str = ""


@fast_init
@dataclass(frozen=True, slots=True)
class Checked:
    """The same fields, and a check."""

    name: str
    size: int = 1
    note: str = ""

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError(f"negative size: {self.size}")


def test_fast_init_has_the_parameters_of_the_generated_init() -> None:
    parameters = inspect.signature(Checked).parameters.values()

    assert [(parameter.name, parameter.default) for parameter in parameters] == [
        (parameter.name, parameter.default) for parameter in inspect.signature(Plain).parameters.values()
    ]


def test_fast_init_keeps_module_name_and_annotations() -> None:
    assert Checked.__init__.__module__ == __name__
    assert Checked.__init__.__qualname__ == "Checked.__init__"
    assert Checked.__init__.__annotations__ == Plain.__init__.__annotations__


def test_fast_init_refuses_fields_that_it_would_change() -> None:
    @dataclass(frozen=True, slots=True)
    class WithFactory:
        names: list[str] = field(default_factory=list)

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ByKeyword:
        name: str

    for kind in (WithFactory, ByKeyword):
        with pytest.raises(AssertionError):
            fast_init(kind)


def test_fast_init_sets_all_fields() -> None:
    made = Checked("a", note="b")

    assert (made.name, made.size, made.note) == ("a", 1, "b")
    assert replace(made, size=2) == Checked("a", 2, "b")
    assert pickle.loads(pickle.dumps(made)) == made


def test_fast_init_calls_post_init() -> None:
    with pytest.raises(ValueError, match="negative size"):
        Checked("a", -1)


def test_fast_init_leaves_the_class_frozen() -> None:
    made = Checked("a")

    with pytest.raises(FrozenInstanceError):
        made.size = 2  # type: ignore[misc] # the test of this error


def test_fast_init_refuses_missing_arguments_by_name() -> None:
    with pytest.raises(TypeError, match=r"Checked\.__init__\(\) missing 1 required positional argument: 'name'"):
        Checked()  # type: ignore[call-arg] # the test of this error
