"""Which columns hold what, checked before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.core.errors import InputError
from hedgerow.core.labels import plain
from hedgerow.fleet import Base
from hedgerow.spark.turn import ANSWER, INSTANCE, NO_ORDER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

WHOLE = ("tinyint", "smallint", "int", "bigint")
LABELS: dict[type, tuple[str, tuple[str, ...], Callable[[str], Any]]] = {  # type in Spark, columns that hold it
    str: ("string", ("string",), str),
    int: ("bigint", WHOLE, int),
    float: ("double", ("float", "double"), float),
    bool: ("boolean", ("boolean",), lambda text: text == "true"),
}


@dataclass(frozen=True)
class Columns:
    """The names of columns. `order` is a column of times or whole numbers, the same in instances and labels.

    With `order`, a key's rows of a batch are taken in it, so that the result does not depend on where batches are cut;
    without, a batch's instances come first, by their ids, then its labels. `features` are names of columns, or the name
    of one column of arrays; by default those of the base, or all columns that are nothing else.
    """

    key: str = "key"
    id: str = "id"
    label: str = "label"
    order: str | None = None
    features: tuple[str, ...] | str | None = None

    def of_instances(self, df: DataFrame, base: Base) -> DataFrame:
        """Instances as the processor takes them: key, kind, id, order, x, label."""
        from pyspark.sql import functions as F

        x = self._features(df, base)
        return self._common(df, "instances", INSTANCE, x, F.lit(None).cast("string"))

    def of_labels(self, df: DataFrame, base: Base) -> DataFrame:
        """Labels in the same form."""
        from pyspark.sql import functions as F

        return self._common(df, "labels", ANSWER, F.lit(None).cast("array<double>"), self._label(df, base))

    def of_history(self, df: DataFrame, base: Base) -> DataFrame:
        """Instances that have their labels, in the same form."""
        return self._common(df, "the history", INSTANCE, self._features(df, base), self._label(df, base))

    def key_type(self, df: DataFrame, what: str) -> str:
        """The type of the keys in Spark."""
        found = _type(df, self.key, what).simpleString()
        if found not in ("string", *WHOLE):
            raise InputError(f"{what}: keys are text or whole numbers, {self.key!r} is {found}; cast it to string")
        return found

    def names(self, df: DataFrame, base: Base) -> tuple[str, ...]:
        """The names of the features, for reasons."""
        found = self._feature_columns(df, base)
        return found if not isinstance(found, str) else tuple(f"{found}[{i}]" for i in range(base.n_features))

    # -- the parts ----------------------------------------------------------------------------------------------

    def _common(self, df: DataFrame, what: str, kind: int, x: Column, label: Column) -> DataFrame:
        from pyspark.sql import functions as F

        self.key_type(df, what)
        if _type(df, self.id, what).simpleString() not in ("string", *WHOLE):
            raise InputError(f"{what}: ids are text or whole numbers; cast {self.id!r} to string")
        return df.select(
            F.col(_quoted(self.key)).alias("key"),
            F.lit(kind).cast("int").alias("kind"),
            F.col(_quoted(self.id)).cast("string").alias("id"),
            F.coalesce(self._order(df, what), F.lit(NO_ORDER)).alias("order"),
            x.alias("x"),
            label.alias("label"),
        )

    def _order(self, df: DataFrame, what: str) -> Column:
        from pyspark.sql import functions as F

        if self.order is None:
            return F.lit(0).cast("bigint")
        found, column = _type(df, self.order, what).simpleString(), F.col(_quoted(self.order))
        if found == "timestamp":
            return F.unix_micros(column)
        if found not in WHOLE:
            raise InputError(f"{what}: the order {self.order!r} is {found}; give a timestamp or whole numbers")
        return column.cast("bigint")

    def _features(self, df: DataFrame, base: Base) -> Column:
        from pyspark.sql import functions as F

        found = self._feature_columns(df, base)
        if isinstance(found, str):
            return F.col(_quoted(found)).cast("array<double>")
        return F.array(*(F.col(_quoted(name)).cast("double") for name in found))

    def _feature_columns(self, df: DataFrame, base: Base) -> tuple[str, ...] | str:
        if base.clf.table_ is not None and self.features is None:
            raise InputError(
                "the base was fitted on tables that are not all numbers, and Spark's rows are numbers: encode them by "
                "base.clf.as_matrix, and name that array column in Columns(features=...)"
            )
        given = self.features if self.features is not None else getattr(base.clf, "feature_names_in_", None)
        if isinstance(given, str):
            found = _type(df, given, "instances").simpleString()
            if not found.startswith("array<"):
                raise InputError(f"instances: features={given!r} is {found}; give an array column, or several names")
            return given
        taken = {self.key, self.id, self.label, self.order}
        names = tuple(name for name in df.columns if name not in taken) if given is None else tuple(map(str, given))
        for name in names:
            if (kind := _type(df, name, "instances").simpleString()) not in (*WHOLE, "float", "double", "boolean"):
                raise InputError(f"instances: the feature {name!r} is {kind}; cast it to double, or name the features")
        if len(names) != base.n_features:
            raise InputError(
                f"instances: {len(names)} features ({', '.join(names[:8])}), the base has {base.n_features}; "
                "name them in Columns(features=...)"
            )
        return names

    def _label(self, df: DataFrame, base: Base) -> Column:
        from pyspark.sql import functions as F

        wanted, allowed, _ = LABELS[label_type(base)]
        found = _type(df, self.label, "labels").simpleString()
        if found not in allowed:
            raise InputError(f"labels: {self.label!r} is {found}, the classes of the base are {wanted}; cast it")
        return F.col(_quoted(self.label)).cast(
            "string"
        )  # as text, since pandas makes floats of whole numbers and nulls


def label_type(base: Base) -> type:
    """The one Python type of all classes."""
    kinds = {type(plain(label)) for label in base.classes}
    if len(kinds) != 1 or not kinds <= set(LABELS):
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise InputError(
            f"the classes of the base are of type {names}; Spark's columns hold one of text, int, float, bool"
        )
    return kinds.pop()


def label_of(text: object, kind: type) -> Any:
    """A label as it was before Spark made text of it; what is none (NaN, null) is None."""
    found = LABELS[kind][2](text) if isinstance(text, str) else None
    return None if isinstance(found, float) and not np.isfinite(found) else found


def _type(df: DataFrame, name: str, what: str) -> DataType:
    if name not in df.columns:
        raise InputError(f"{what}: there is no column {name!r} among {', '.join(df.columns)}; name it in Columns(...)")
    return df.schema[name].dataType


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
