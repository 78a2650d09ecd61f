"""A part of a learner's state."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

from hedgerow.core.arrays import Array


class Part(MutableMapping[str, Array]):
    """The arrays of a learner's state whose names start with a prefix, under their short names."""

    def __init__(self, state: dict[str, Array], prefix: str) -> None:
        self.state, self.prefix = state, prefix

    def __getitem__(self, name: str) -> Array:
        return self.state[self.prefix + name]

    def __setitem__(self, name: str, array: Array) -> None:
        self.state[self.prefix + name] = array

    def __delitem__(self, name: str) -> None:
        del self.state[self.prefix + name]

    def __iter__(self) -> Iterator[str]:
        return (name[len(self.prefix) :] for name in self.state if name.startswith(self.prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)
