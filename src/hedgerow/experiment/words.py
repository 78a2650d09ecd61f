"""What the verdicts of all reports share: sentences joined to a paragraph, numbers with their nouns."""

from __future__ import annotations

from collections.abc import Iterable


def paragraph(sentences: Iterable[str]) -> str:
    """The sentences that say something.

    >>> paragraph(["It rains.", "", "It pours."])
    'It rains. It pours.'
    """
    return " ".join(sentence for sentence in sentences if sentence)


def count(number: int, noun: str, several: str = "") -> str:
    """A number with its noun; `several` is the plural of a noun that does not just take an s.

    >>> count(1, "order"), count(2, "order"), count(2, "study", "studies")
    ('1 order', '2 orders', '2 studies')
    """
    return f"{number} " + (noun if number == 1 else several or f"{noun}s")
