"""Numbers for the product names in User-Agents, so that a reader's product takes one byte."""

from collections.abc import Iterator, Sequence

NAMES_MAX = 256
OTHER = "other"


class ProductNames:
    """Up to 255 names in use, each with a number. 0 stands for all further names."""

    def __init__(self, names: Sequence[str] = (OTHER,)) -> None:
        self._names = list(names[:NAMES_MAX]) or [OTHER]
        self._uses = [0] * len(self._names)
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self.generation = 0
        """Number of names added so far. It changes when a number gets another name."""

    def __getitem__(self, number: int) -> str:
        return self._names[number]

    def all(self) -> list[str]:
        return list(self._names)

    def uses(self) -> Iterator[tuple[str, int]]:
        return ((name, count) for name, count in zip(self._names, self._uses, strict=True) if count)

    def number(self, name: str) -> int:
        """Return the number of a name. A new name gets a free number, or 0 if all numbers are in use."""
        number = self._numbers.get(name)
        if number is not None:
            return number
        if len(self._names) < NAMES_MAX:
            self._names.append(name)
            self._uses.append(0)
            number = len(self._names) - 1
        else:
            number = next((number for number in range(1, NAMES_MAX) if not self._uses[number]), 0)
            if number == 0:
                return 0
            del self._numbers[self._names[number]]
            self._names[number] = name
        self._numbers[name] = number
        self.generation += 1
        return number

    def add_readers(self, number: int, count: int = 1) -> None:
        self._uses[number] += count

    def remove_reader(self, number: int) -> None:
        self._uses[number] -= 1
