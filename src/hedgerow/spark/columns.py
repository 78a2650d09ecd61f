"""Which columns hold what, checked before anything runs, and the results apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hedgerow.core.errors import InputError
from hedgerow.core.values import plain
from hedgerow.fleet import Base
from hedgerow.spark.shard import ANSWER, DEAD_LETTER, INSTANCE, LABEL, LABELS, NEW, NO_ORDER, PREDICTION

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WHOLE = ("tinyint", "smallint", "int", "bigint")
HELD_BY = {"string": ("string",), "bigint": WHOLE, "double": ("float", "double"), "boolean": ("boolean",)}


@dataclass(frozen=True)
class Columns:
    """The names of columns. `order` is a column of times or whole numbers, the same in instances and labels.

    With `order`, a key's rows of a batch are taken in it, so that the result does not depend on where batches are cut;
    without, a batch's instances come first, by their ids, then its labels. `features` are names of columns, or the name
    of one column of arrays; by default those of the base, or all columns that are nothing else. For a base of tables
    they are its columns as they are (text, numbers, dates, gaps), or arrays of what `base.clf.as_matrix` made of them.
    """

    key: str = "key"
    id: str = "id"
    label: str = "label"
    order: str | None = None
    features: tuple[str, ...] | str | None = None

    def of_instances(self, df: DataFrame, base: Base, labelled: bool = False) -> DataFrame:
        """Instances as a shard takes them: key, kind, id, order, x, label; all but the order and numbers are text."""
        what, names = "the history" if labelled else "instances", self.features_of(df, base)
        if isinstance(names, str):
            x = _column(names).cast("array<double>")
        elif base.clf.table_ is not None:
            x = F.to_json(F.struct(*(_column(name).alias(name) for name in names)))
        else:
            x = F.array(*(_column(name).cast("double") for name in names))
        return self._common(df, what, INSTANCE, x, self._label(df, base) if labelled else F.lit(None).cast("string"))

    def of_labels(self, df: DataFrame, base: Base, x: str) -> DataFrame:
        """Labels in the same form; `x` is the type of that column."""
        return self._common(df, "labels", ANSWER, F.lit(None).cast(x), self._label(df, base))

    def key_type(self, df: DataFrame, what: str) -> str:
        """The type of the keys in Spark."""
        found = _type(df, self.key, what)
        if found not in ("string", *WHOLE):
            raise InputError(f"{what}: keys are text or whole numbers, {self.key!r} is {found}; cast it to string")
        return found

    def features_of(self, df: DataFrame, base: Base) -> tuple[str, ...] | str:
        """The columns of features, or the one of arrays."""
        given, table = self.features, base.clf.table_
        if isinstance(given, str):
            found = _type(df, given, "instances")
            if not found.startswith("array<"):
                raise InputError(f"instances: features={given!r} is {found}; give an array column, or several names")
            return given
        if table is not None:
            names = tuple(name for name in table.names if name in df.columns) if given is None else tuple(given)
            if not set(names) & set(table.names):
                raise InputError(f"instances: none of the columns of the base ({', '.join(table.names[:8])}) is there")
            return names
        given = given if given is not None else getattr(base.clf, "feature_names_in_", None)
        taken = {self.key, self.id, self.label, self.order}
        names = tuple(name for name in df.columns if name not in taken) if given is None else tuple(map(str, given))
        for name in names:
            if (kind := _type(df, name, "instances")) not in (*WHOLE, "float", "double", "boolean"):
                raise InputError(f"instances: the feature {name!r} is {kind}; cast it to double, or name the features")
        if len(names) != base.n_features:
            raise InputError(
                f"instances: {len(names)} features ({', '.join(names[:8])}), the base has {base.n_features}; "
                "name them in Columns(features=...)"
            )
        return names

    def _common(self, df: DataFrame, what: str, kind: int, x: Column, label: Column) -> DataFrame:
        self.key_type(df, what)
        if _type(df, self.id, what) not in ("string", *WHOLE):
            raise InputError(f"{what}: ids are text or whole numbers; cast {self.id!r} to string")
        return df.select(
            _column(self.key).cast("string").alias("key"),  # as text: pandas makes floats of whole numbers and nulls
            F.lit(kind).cast("int").alias("kind"),
            _column(self.id).cast("string").alias("id"),
            F.coalesce(self._order(df, what), F.lit(NO_ORDER)).alias("order"),
            x.alias("x"),
            label.alias("label"),
        )

    def _order(self, df: DataFrame, what: str) -> Column:
        if self.order is None:
            return F.lit(0).cast("bigint")
        found = _type(df, self.order, what)
        if found == "timestamp":
            return F.unix_micros(_column(self.order))
        if found not in WHOLE:
            raise InputError(f"{what}: the order {self.order!r} is {found}; give a timestamp or whole numbers")
        return _column(self.order).cast("bigint")

    def _label(self, df: DataFrame, base: Base) -> Column:
        wanted, found = LABELS[label_type(base)][0], _type(df, self.label, "labels")
        if found not in HELD_BY[wanted]:
            raise InputError(f"labels: {self.label!r} is {found}, the classes of the base are {wanted}; cast it")
        return _column(self.label).cast("string")


def label_type(base: Base) -> type:
    """The one Python type of all classes."""
    kinds = {type(plain(label)) for label in base.classes}
    if len(kinds) != 1 or not kinds <= set(LABELS):
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise InputError(
            f"the classes of the base are of type {names}; Spark's columns hold one of text, int, float, bool"
        )
    return kinds.pop()


def _type(df: DataFrame, name: str, what: str) -> str:
    if name not in df.columns:
        raise InputError(f"{what}: there is no column {name!r} among {', '.join(df.columns)}; name it in Columns(...)")
    return df.schema[name].dataType.simpleString()


def _column(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


# -- results -----------------------------------------------------------------------------------------------------------


def predictions(results: DataFrame) -> DataFrame:
    """Of results, the predictions: key, id, label, probability, status."""
    return results.where(F.col("kind") == PREDICTION).select("key", "id", "label", "probability", "status")


def outcomes(results: DataFrame) -> DataFrame:
    """Of results, what became of labels: key, id, label, status, right, detail."""
    return results.where(F.col("kind") == LABEL).select("key", "id", "label", "status", "right", "detail")


def dead_letters(results: DataFrame) -> DataFrame:
    """Of results, the rows that could not be used: key, id, detail (the reason), row (as JSON)."""
    return results.where(F.col("kind") == DEAD_LETTER).select("key", "id", "detail", "row")


def metrics(results: DataFrame) -> DataFrame:
    """A row a key: predictions, labels by status, mistakes among the labels learned. Of a batch, not of a stream."""

    def count(condition: Column) -> Column:
        return F.count(F.when(condition, 1))

    kind, status = F.col("kind"), F.col("status")
    return results.groupBy("key").agg(
        count((kind == PREDICTION) & (status == NEW)).alias("predictions"),
        count(status == "learned").alias("learned"),
        count((status == "learned") & ~F.col("right")).alias("mistakes"),
        count((kind == LABEL) & (status != "learned")).alias("other_labels"),
        count(kind == DEAD_LETTER).alias("dead_letters"),
    )
