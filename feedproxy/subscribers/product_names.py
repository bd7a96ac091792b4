"""Product names by number, so that a reader's costs one byte."""

from collections.abc import Iterator, Sequence

NAMES_MAX = 256
OTHER = "other"


class ProductNames:
    """Up to 255 names in use at a time, each with a number; number 0 stands for all further ones."""

    def __init__(self, names: Sequence[str] = (OTHER,)) -> None:
        self._names = list(names[:NAMES_MAX]) or [OTHER]
        self._uses = [0] * len(self._names)
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self.edition = 0
        """Another number after every change of what a number stands for."""

    def __getitem__(self, number: int) -> str:
        return self._names[number]

    def all(self) -> list[str]:
        """Every name, by number."""
        return list(self._names)

    def uses(self) -> Iterator[tuple[str, int]]:
        """Every name in use, and by how many."""
        return ((name, count) for name, count in zip(self._names, self._uses, strict=True) if count)

    def number(self, name: str) -> int:
        """The number of a name, which from now on has one; 0 where all are in use."""
        number = self._numbers.get(name)
        if number is not None:
            return number
        if len(self._names) < NAMES_MAX:
            self._names.append(name)
            self._uses.append(0)
            number = len(self._names) - 1
        else:
            number = next((each for each in range(1, NAMES_MAX) if not self._uses[each]), 0)
            if number == 0:
                return 0
            del self._numbers[self._names[number]]
            self._names[number] = name
        self._numbers[name] = number
        self.edition += 1
        return number

    def use(self, number: int, count: int = 1) -> None:
        """So many more readers have it."""
        self._uses[number] += count

    def leave(self, number: int) -> None:
        """One reader less has it; with the last its number is free for another name."""
        self._uses[number] -= 1
