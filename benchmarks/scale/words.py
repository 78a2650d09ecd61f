"""Numbers as a page prints them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def number(x: float) -> str:
    """Two figures that mean something.

    >>> number(1234567), number(0.01234), number(17.2)
    ('1,200,000', '0.012', '17')
    """
    if x == 0:
        return "0"
    if x >= 10:
        digits = max(len(str(int(x))) - 2, 0)
        return f"{round(x, -digits):,.0f}"
    return f"{x:.2g}"


def scaled(seconds: float) -> str:
    """Seconds with a unit.

    >>> scaled(2.5e-5), scaled(3e-10), scaled(12)
    ('25 µs', '0.3 ns', '12 s')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)):
        if seconds >= size or unit == "ns":
            return f"{seconds / size:.2g} {unit}" if seconds < 100 * size else f"{number(seconds / size)} {unit}"
    raise AssertionError


def size(n: float) -> str:
    """Bytes with a unit.

    >>> size(1700), size(3.2e12)
    ('1.7 kB', '3.2 TB')
    """
    for unit, one in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= one:
            return f"{n / one:.2g} {unit}" if n < 100 * one else f"{number(n / one)} {unit}"
    return f"{n:.0f} B"


def table(heads: str, lines: Iterator[Sequence[str]]) -> list[str]:
    return [f"| {heads} |", "|" + "---|" * (heads.count(" | ") + 1), *(f"| {' | '.join(line)} |" for line in lines)]
