"""Names of features are law: what carries names is read by name, or refused with the names that differ.

| what is given                                     | what its names do                                               |
|---------------------------------------------------|-----------------------------------------------------------------|
| one instance: a Series, a table of one row        | brought into the model's order; a missing or unexpected name is |
| (`predict_one`, `predict_proba_one`, `learn_one`) | refused                                                         |
| one instance: a mapping                           | the same, but it may have more keys (an event has other fields) |
| domains (`fit_domains`, files, `pool`)            | brought into the order of the first domain that has names       |
| a table for a fitted model (`predict`,            | refused unless they are the model's, in the model's order:      |
| `partial_fit`, `predict_then_learn` and so on)    | scikit-learn demands this of every estimator                    |
| an array, or a table whose columns have no text   | none: read by position, and the width must be right             |

A table is one of those that narwhals knows: pandas, polars, pyarrow and others. A name is text; two columns of one name
are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from hedgerow.core.arrays import FeatureNames, as_narwhals
from hedgerow.core.errors import SHOWN, InputError, require

Names = tuple[str, ...]


def listed(names: Iterable[object]) -> str:
    """Names for an error, the first few of many.

    >>> listed(["a", "b"]), listed([])
    ("['a', 'b']", 'none')
    """
    every = list(names)
    more = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return f"{[str(name) for name in every[:SHOWN]]}{more}" if every else "none"


def checked_names(names: Iterable[Any], what: str) -> Names | None:
    """Names as text, each once; None where none is text.

    >>> checked_names(["a", "b"], "here")
    ('a', 'b')
    >>> checked_names(range(2), "here") is None
    True
    """
    listing = list(names)
    text = [isinstance(name, str) for name in listing]
    if not any(text):
        return None
    if not all(text):
        other = listing[text.index(False)]
        raise InputError(f"{what}: a column is named {other!r}, others have text; make all names text, or none")
    checked = tuple(str(name) for name in listing)
    if len(set(checked)) < len(checked):
        twice = [name for name, count in Counter(checked).items() if count > 1]
        raise InputError(f"{what}: more than one column of the name {listed(twice)}; rename them")
    return checked


def names_of_table(X: Any, what: str) -> Names | None:
    """The names of a table's columns; None for what has none.

    >>> import pandas as pd
    >>> names_of_table(pd.DataFrame({"a": [1], "b": [2]}), "X")
    ('a', 'b')
    """
    if hasattr(X, "column_names"):  # a Frame, or a table of pyarrow
        return checked_names(X.column_names, what)
    frame = as_narwhals(X, what)
    return None if frame is None or len(frame.shape) == 1 else checked_names(frame.columns, what)


def names_of_row(x: Any, what: str = "x") -> Names | None:
    """The names of one instance: the keys of a mapping, the index of a Series, the columns of a table of one row."""
    if isinstance(x, Mapping):
        return checked_names(x, what)
    if getattr(x, "ndim", 0) != 1 or not hasattr(type(x), "to_numpy"):
        return names_of_table(x, what)
    series = require("narwhals.stable.v2.dependencies", extra="tables").is_pandas_like_series(x)
    return checked_names(x.index, what) if series else None  # other packages' columns have no names for their rows


def order_by_name(names: FeatureNames, wanted: FeatureNames, what: str, whose: str) -> list[int] | None:
    """Where each wanted name stands among the names (None: where it is wanted); other names are refused.

    >>> order_by_name(["b", "a"], ["a", "b"], "x", "the model's")
    [1, 0]
    """
    if list(names) == list(wanted):
        return None
    place = {name: i for i, name in enumerate(names)}
    known = set(wanted)
    missing, unexpected = [n for n in wanted if n not in place], [n for n in names if n not in known]
    if missing or unexpected:
        raise InputError(
            f"{what}: other features than {whose}: missing {listed(missing)}, unexpected {listed(unexpected)}; "
            "rename, add or drop these columns"
        )
    return [place[name] for name in wanted]


def check_same_order(own: FeatureNames, wanted: FeatureNames) -> None:
    """Refuse a table whose columns are not the model's in the model's order, in scikit-learn's words."""
    if list(own) == list(wanted):
        return
    mine, theirs = set(wanted), set(own)
    unexpected, missing = [n for n in own if n not in mine], [n for n in wanted if n not in theirs]
    message = "The feature names should match those that were passed during fit.\n"
    for title, names in (
        ("Feature names unseen at fit time:", unexpected),
        ("Feature names seen at fit time, yet now missing:", missing),
    ):
        if names:
            more = [f"- and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
            message += "\n".join([title, *(f"- {name}" for name in names[:SHOWN]), *more]) + "\n"
    if not unexpected and not missing:
        message += (
            "Feature names must be in the same order as they were in fit.\n"
            f"Given: {listed(own)}\nThe model's: {listed(wanted)}\n"
        )
    raise InputError(message + "Select the model's columns: X[list(model.feature_names_in_)]")
