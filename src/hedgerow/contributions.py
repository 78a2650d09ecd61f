r"""Which columns moved a prediction, and by how much.

With x the row, r a reference row and f the model's output (the log-odds of the predicted class, or the predicted
number), x with column j from r written :math:`x_{-j}`, and r with column j from x :math:`r_{+j}`:

.. math:: \phi_j = \tfrac12 [f(x) - f(x_{-j})] + \tfrac12 [f(r_{+j}) - f(r)], \qquad
          f(x) - f(r) = \sum_j \phi_j + \text{interactions}

Both differences are the same where f is a sum over columns: :math:`\phi_j` is then exact. Of an interaction of two
columns each gets one half, as Shapley's value divides it; what three and more columns do together is the remainder,
which is named and not spread over the columns.

References: Shapley, A value for n-person games (1953); Lundberg and Lee, A unified approach to interpreting model
predictions (NeurIPS 2017).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError

MOST_COLUMNS = 4096  # two rows are predicted for each
BAR = 20  # characters of the longest bar
SHOWN = 15  # columns in a terminal and in HTML
TRUSTED = 5  # experts in a summary
SHUFFLES = 3  # of each column, whose losses are averaged


class Contributions(NamedTuple):
    """What each column added to one prediction, against a reference row.

    `value - reference_value` is the sum of `columns` and `interactions`.

    Attributes
    ----------
    what : str
        What is explained: the log-odds of a class, or the prediction.
    value, reference_value : float
        That of the row, and of the reference.
    columns : dict
        Column -> by how much it moved the value, the largest first.
    interactions : float
        What columns did together beyond pairs.
    cells : dict
        Column -> (what the row has there, what the reference has); of a column that is encoded as several numbers the
        reference is None.

    Examples
    --------
    >>> c = of_row(lambda X: 2 * X[:, 0] + X[:, 1] * X[:, 2], np.array([1.0, 2.0, 3.0]), np.zeros(3), list("abc"))
    >>> c.columns, c.interactions
    ({'b': 3.0, 'c': 3.0, 'a': 2.0}, 0.0)
    >>> print(c)
    prediction: 8, of the reference: 0
      b  2 (0)  +3  ++++++++++++++++++++
      c  3 (0)  +3  ++++++++++++++++++++
      a  1 (0)  +2  +++++++++++++
    """

    what: str
    value: float
    reference_value: float
    columns: dict[str, float]
    interactions: float
    cells: dict[str, tuple[Any, Any]]

    def _lines(self) -> list[tuple[str, str, float]]:
        """Name, cell with its reference in brackets, contribution: the largest columns, the others together."""
        lines = []
        for name in list(self.columns)[:SHOWN]:
            own, reference = self.cells[name]
            cell = _plain(own) if reference is None else f"{_plain(own)} ({_plain(reference)})"
            lines.append((name, cell, self.columns[name]))
        rest = list(self.columns.values())[SHOWN:]
        if rest:
            lines.append((f"{len(rest)} more columns", "", sum(rest)))
        if abs(self.interactions) > 1e-9 * max(abs(self.value), abs(self.reference_value), 1e-300):
            lines.append(("interactions", "", self.interactions))
        return lines

    def __str__(self) -> str:
        lines = self._lines()
        amounts = [f"{amount:+.4g}" for _, _, amount in lines]
        a, b, c = (
            max(map(len, column)) for column in (*list(zip(*lines, strict=True))[:2], amounts)
        )
        longest = max(abs(amount) for _, _, amount in lines) or 1
        text = [f"{self.what}: {self.value:.4g}, of the reference: {self.reference_value:.4g}"]
        for (name, cell, amount), written in zip(lines, amounts, strict=True):
            bar = ("+" if amount > 0 else "-") * round(BAR * abs(amount) / longest)
            text.append(f"  {name:{a}}  {cell:{b}}  {written:>{c}}  {bar}".rstrip())
        return "\n".join(text)

    def _repr_html_(self) -> str:
        longest = max((abs(amount) for _, _, amount in self._lines()), default=0) or 1
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td>{escape(cell)}</td><td style='text-align:right'>{amount:+.4g}</td>"
            f"<td><div style='height:.8em;width:{8 * abs(amount) / longest:.2f}em;"
            f"background:{'#2a7' if amount > 0 else '#c54'}'></div></td></tr>"
            for name, cell, amount in self._lines()
        )
        head = f"{self.what}: {self.value:.4g}, of the reference: {self.reference_value:.4g}"
        return f"<table><caption>{escape(head)}</caption>{rows}</table>"


def of_row(
    value: Callable[[Array], Array],
    row: Array,
    reference: Array,
    names: Sequence[str],
    spans: Sequence[tuple[int, int]] | None = None,
    cells: Sequence[Any] | None = None,
    what: str = "prediction",
) -> Contributions:
    """The contributions of columns to f(row) - f(reference).

    Parameters
    ----------
    value : function
        f, from rows to a number each.
    row, reference : arrays
        Two rows as the model has them.
    names : sequence of str
        A name for every column.
    spans : sequence of (first number, width), or None
        The numbers of each column; None: one each.
    cells : sequence or None
        What to show for each column of the row; None: its number.
    what : str
        What the value is.

    Raises
    ------
    InputError
        For more than 4,096 columns.
    """
    if len(names) > MOST_COLUMNS:
        raise InputError(
            f"{len(names)} columns: contributions are computed of at most {MOST_COLUMNS}; choose some"
        )
    n = len(names)
    spans = spans or [(j, 1) for j in range(len(names))]
    X = np.vstack([row, reference, np.tile(row, (n, 1)), np.tile(reference, (n, 1))])
    for j, (first, width) in enumerate(spans):
        X[2 + j, first : first + width] = reference[first : first + width]
        X[2 + n + j, first : first + width] = row[first : first + width]
    f = np.asarray(value(X), dtype=np.float64)
    phi = (f[0] - f[2 : 2 + n]) / 2 + (f[2 + n :] - f[1]) / 2
    order = np.argsort(-np.abs(phi), kind="stable")
    shown = [
        (
            row[first].item() if cells is None else cells[j],
            reference[first].item() if width == 1 else None,
        )
        for j, (first, width) in enumerate(spans)
    ]
    return Contributions(
        what,
        float(f[0]),
        float(f[1]),
        {names[j]: float(phi[j]) for j in order},
        float(f[0] - f[1] - phi.sum()),
        {names[j]: shown[j] for j in order},
    )


def importances(
    loss: Callable[[Array], float], X: Array, spans: Sequence[tuple[int, int]]
) -> Array:
    """By how much the loss of rows rises if one column is shuffled, as shares of one; zeros if it never rises.

    References: Breiman, Random forests (2001).

    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> importances(lambda Z: float(np.mean((Z[:, 0] - X[:, 0]) ** 2)), X, [(0, 1), (1, 1)]).tolist()
    [1.0, 0.0]
    """
    rng = np.random.default_rng(0)
    before = loss(X)
    rises = np.zeros(len(spans))
    for j, (first, width) in enumerate(spans):
        for _ in range(SHUFFLES):
            shuffled = X.copy()
            shuffled[:, first : first + width] = X[rng.permutation(len(X)), first : first + width]
            rises[j] += max(loss(shuffled) - before, 0) / SHUFFLES
    return rises / (rises.sum() or 1.0)


def summary(
    prediction: str,
    votes: Mapping[str, Any],
    weights: Mapping[str, float],
    parts: Contributions | None,
) -> str:
    """A prediction for a terminal: the experts with the largest weights, then what each column added.

    >>> print(summary("a, probability 0.9", {"x": "a", "y": "b"}, {"x": 0.75, "y": 0.25}, None))
    a, probability 0.9
      75% x: a
      25% y: b
    """
    largest = sorted(weights, key=lambda name: -abs(weights[name]))[:TRUSTED]
    lines = [f"  {weights[name]:.0%} {name}: {_plain(votes[name])}" for name in largest]
    return "\n".join([prediction, *lines, *([] if parts is None else [str(parts)])])


def html(explanation: Any) -> str:
    """An explanation with `contributions` for a notebook."""
    text = f"<pre>{escape(str(explanation._replace(contributions=None)))}</pre>"
    parts = explanation.contributions
    return text if parts is None else text + str(parts._repr_html_())


def _plain(cell: Any) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
