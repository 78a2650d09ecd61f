"""A data frame of a real Spark as a source: the model of memory, the same bits again, errors of cells."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from hedgerow import Domain, InputError, OnlineTransferClassifier

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")


def test_a_data_frame_is_a_source(spark, tmp_path):
    from hedgerow.spark import SparkSource

    rng = np.random.default_rng(2)
    y = np.array(["up", "down", "left"])[rng.integers(0, 3, 600)]
    X = rng.normal(size=(600, 5)) + 2 * (y == "up")[:, None]
    table = pd.DataFrame(X, columns=list("abcde")).assign(kind=y)
    for i in range(3):
        table[200 * i : 200 * i + 200].to_parquet(tmp_path / f"{i}.parquet", index=False)
    frame = spark.read.parquet(str(tmp_path))
    sources = [
        SparkSource(frame, "kind", "site"),
        SparkSource(frame.select(*reversed(frame.columns)), "kind", "other"),
    ]
    warmup = Domain("new", X[:50] + 1, feature_names=list("abcde"))
    clf, again = (
        OnlineTransferClassifier("hedgerow-linear").fit_domains(sources, warmup) for _ in range(2)
    )
    domains = [Domain(name, table[list("abcde")], y) for name in ("site", "other")]
    plain = OnlineTransferClassifier("hedgerow-linear").fit_domains(domains, warmup)
    assert clf.to_bytes() == again.to_bytes()
    assert clf.source_names_ == plain.source_names_
    assert clf.classes_.tolist() == plain.classes_.tolist()
    assert [source.count for source in sources] == [600, 600]
    assert_allclose(clf.decision_function(X), plain.decision_function(X), atol=1e-6)
    broken = frame.selectExpr("if(a > 1.5, null, a) as a", "b", "kind")
    with pytest.raises(
        InputError, match=r"source 'site', partition \d: row \d+, column 'a': missing value"
    ):
        clf.fit_domains([SparkSource(broken, "kind", "site")])
    with pytest.raises(InputError, match="source 'site', column 'text': string, not numbers"):
        SparkSource(frame.selectExpr("a", "'x' as text", "kind"), "kind", "site")
    with pytest.raises(InputError, match="unknown label column of source 'site'"):
        SparkSource(frame, "king", "site")
    assert clf.to_bytes() == again.to_bytes()
