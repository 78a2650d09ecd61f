"""Instances of a request as a matrix: lists by position, objects by name; what is wrong is named by its field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.service.bodies import kind_of
from hedgerow.service.problems import FieldError, Problem
from hedgerow.tables.columns import BadCell
from hedgerow.tables.encoder import TableEncoder

NUMBERS = {int, float}
MANY = 20  # errors after which the rest is not looked at


def matrix(instances: Sequence[Any], features: int, names: Sequence[str] | None, where: str = "instances") -> Array:
    """Rows of numbers in the model's order of features."""
    errors: list[FieldError] = []
    rows = []
    for i, instance in enumerate(instances):
        if type(instance) is list and len(instance) == features and set(map(type, instance)) <= NUMBERS:
            rows.append(instance)
        else:
            rows.append(_row(instance, features, names, f"{where}[{i}]", errors))
        if len(errors) >= MANY:
            break
    if not errors:
        try:
            found = np.array(rows, dtype=np.float64)
        except OverflowError:
            found = np.array([[_number(value) for value in row] for row in rows])
        if np.isfinite(found).all():
            return found
        for i, j in np.argwhere(~np.isfinite(found))[:MANY]:
            field = f"{where}[{i}]" + (f".{names[j]}" if names and isinstance(instances[i], dict) else f"[{j}]")
            errors.append(FieldError(field, "is beyond the largest number; features are finite"))
    raise Problem("invalid", f"{errors[0].field}: {errors[0].detail}", errors)


def of_table(instances: Sequence[Any], table: TableEncoder, where: str = "instances") -> Array:
    """Rows of a model of tables: objects of column names and values; lists are rows that are encoded already."""
    errors: list[FieldError] = []
    rows = []
    for i, instance in enumerate(instances):
        if isinstance(instance, list):
            values = [np.nan if value is None else value for value in instance]
            rows.append(_row(values, table.width, None, f"{where}[{i}]", errors))
        elif not isinstance(instance, dict) or not any(name in instance for name in table.names):
            known = ", ".join(table.names[:8])
            errors.append(FieldError(f"{where}[{i}]", f"must be an object with some of the model's columns: {known}"))
        else:
            try:
                rows.append(table.of_mapping(instance))
            except BadCell as error:
                errors.append(FieldError(f"{where}[{i}].{error.column}", str(error)))
        if len(errors) >= MANY:
            break
    if errors:
        raise Problem("invalid", f"{errors[0].field}: {errors[0].detail}", errors)
    return np.array(rows, dtype=np.float64)


def _number(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf


def _row(instance: Any, features: int, names: Sequence[str] | None, field: str, errors: list[FieldError]) -> list[Any]:
    """One instance's values, or what is wrong with it."""
    if isinstance(instance, dict):
        if names is None:
            errors.append(FieldError(field, f"the model has no names of features; send a list of {features} numbers"))
            return []
        missing = [name for name in names if name not in instance]
        errors += [FieldError(f"{field}.{name}", "missing") for name in missing[:MANY]]
        values = [instance.get(name, 0.0) for name in names]
        fields = [f"{field}.{name}" for name in names]
    elif isinstance(instance, list):
        if len(instance) != features:
            errors.append(FieldError(field, f"{len(instance)} numbers; the model has {features} features"))
            return []
        values = instance
        fields = [f"{field}[{j}]" for j in range(features)]
    else:
        errors.append(FieldError(field, f"must be a list or an object, not {kind_of(instance)}"))
        return []
    wrong = [(name, value) for name, value in zip(fields, values, strict=True) if type(value) not in NUMBERS]
    errors += [FieldError(name, f"must be a number, not {kind_of(value)}") for name, value in wrong[:MANY]]
    return values
