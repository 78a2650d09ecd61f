"""From an estimator's parameters to a method and its options: every name and number checked, none ignored."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

from hedgerow.core.errors import InputError
from hedgerow.core.preprocess import AUTO, FILL, TABLE, parse
from hedgerow.learners.method import CHOICES
from hedgerow.methods import METHODS, Method, Options, Reading, reading_of
from hedgerow.methods.build import check_options
from hedgerow.tables.encoder import TableEncoder

NUMBERS = ("dim", "rank", "C", "mu", "beta", "horizon", "max_classes", "random_state")
WHOLE = ("dim", "rank", "max_classes")


def composition(given: Mapping[str, Any], encoder: TableEncoder | None = None) -> tuple[Method, Options]:
    """The method and its options; one that was set and that the method does not read is refused.

    With an encoder, rows are what it makes of a table.
    """
    name = given["method"]
    method = METHODS[name]
    for number in NUMBERS:
        check_number(number, given[number])
    if given["mu"] is not None and not given["mu"] >= 0:
        raise InputError(f"mu={given['mu']!r}: the strength of the refresh cannot be negative")
    if given["beta"] is not None and given["horizon"] is not None:
        raise InputError(f"beta={given['beta']!r}, horizon={given['horizon']!r}: the horizon gives a beta; give one")
    reading = _reading(given["reading"], name)
    chosen = {key: given[key] for key in CHOICES}
    options = Options(reading, seed=int(given["random_state"] or 0), **chosen)
    check_options(name, method, options)
    if FILL in parse(given["preprocess"]):
        raise InputError(f"preprocess={given['preprocess']!r}: 'fill' comes with a table; write 'table' in its place")
    reading = _with_steps(reading, method, given["preprocess"])
    if encoder is None and TABLE in reading.preprocess:
        raise InputError("preprocess='table' encodes tables in memory; leave it out where rows are numbers")
    if encoder is not None:
        reading = replace(
            reading, preprocess=_for_table(reading.preprocess, encoder, TABLE in parse(given["preprocess"]))
        )
    return method, replace(options, reading=reading)


def takes_own_columns(given: Mapping[str, Any]) -> bool:
    """Whether the method learns columns that nothing is transferred for."""
    method, options = composition({**given, "preprocess": None})
    return method.takes_own_columns(options)


def _for_table(steps: tuple[str, ...], encoder: TableEncoder, asked: bool) -> tuple[str, ...]:
    """The steps for encoded rows: gaps are filled; columns of different kinds have a scale each."""
    unlike = asked or not encoder.only_numbers
    own = ["scale" if step == AUTO and unlike else step for step in steps if step not in (TABLE, FILL)]
    beside = (f"own-{encoder.own_width}",) if encoder.own_width else ()
    return (*beside, FILL, *own)


def _reading(reading: Any, method: str) -> Reading:
    found = reading_of(reading, method)
    if "split_rule" in found.changes():
        raise InputError(
            f"split_rule={found.split_rule!r}: a classifier does not split; use hedgerow.split(target, seed=None) for "
            "the published order, or with a seed"
        )
    return found


def _with_steps(reading: Reading, method: Method, given: Any) -> Reading:
    """The preprocessing: that of the parameter, of the reading, or the method's own where neither says anything."""
    if given is not None and parse(given) != (TABLE,):  # alone, it leaves the steps to the method
        if "preprocess" in reading.changes():
            raise InputError(f"preprocess={given!r}: the reading has {reading.preprocess} already; give one of them")
        return replace(reading, preprocess=parse(given))
    if method.steps is None or reading.preset != "general" or "preprocess" in reading.changes():
        return reading
    return replace(reading, preprocess=method.steps)


def check_number(name: str, value: Any) -> None:
    """None, or a finite number, whole where it counts something; its range is checked where it is used."""
    if value is None:
        return
    if not isinstance(value, Real) or isinstance(value, bool) or not math.isfinite(value):
        raise InputError(f"{name}={value!r}: must be a finite number")
    if name in WHOLE and (value != math.floor(value) or value < 1):
        raise InputError(f"{name}={value!r}: must be a whole number, at least 1")
