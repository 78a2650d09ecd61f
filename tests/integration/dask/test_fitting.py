"""Sources in partitions on a real cluster: the same statistics, models and alignments as from memory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import hedgerow.dask
from hedgerow import Domain, OnlineTransferClassifier, load, split
from hedgerow.align import CORAL, TCA, Landmarks, WhitenedPCA, Whitening
from hedgerow.core.errors import InputError
from hedgerow.core.moments import Moments
from hedgerow.dask import fitting
from hedgerow.data import read


def write(folder: Path, X: np.ndarray, y: np.ndarray, files: int, group: int = 150, names: Any = None) -> Path:
    """Rows as a folder of Parquet files with several row groups each."""
    folder.mkdir()
    frame = pd.DataFrame(X, columns=names or [f"f{j}" for j in range(X.shape[1])]).assign(kind=y)
    for i, rows in enumerate(np.array_split(np.arange(len(X)), files)):
        frame.iloc[rows].to_parquet(folder / f"part-{i}.parquet", row_group_size=group, index=False)
    return folder


@pytest.fixture(autouse=True)
def small_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "PARTITION", 2**14)  # so that a test has many


@pytest.fixture(scope="module")
def task() -> tuple[dict[str, Domain], Domain, Domain]:
    domains = load("digits")
    warmup, stream = split(domains["shifted"])
    return {name: domain for name, domain in domains.items() if name != "shifted"}, warmup, stream


@pytest.fixture(scope="module")
def folders(task: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    where = tmp_path_factory.mktemp("sources")
    return {
        name: write(where / name, d.X, np.asarray(d.y), 3, 40, list(d.feature_names)) for name, d in task[0].items()
    }


def test_statistics_are_those_of_memory(client: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(3, 2, size=(5000, 7)), rng.choice(["a", "b", "c"], 5000).astype("<U6")
    y[-1] = "seldom"  # a label that one partition alone has
    folder = write(tmp_path / "rows", X, y, 4)
    found = hedgerow.dask.statistics(folder, "kind", client=client)
    assert found.classes.tolist() == ["a", "b", "c", "seldom"]
    expected = Moments.of(X, np.searchsorted(found.classes, y), 4, scatter=True)
    for name in ("count", "total", "class_counts", "class_totals", "scatter"):
        assert_allclose(getattr(found.moments, name), getattr(expected, name), rtol=1e-10, atol=1e-10)
    assert_allclose(found.gram, X.T @ X, rtol=1e-10)
    again = hedgerow.dask.statistics(folder, "kind", client=client)
    assert np.array_equal(found.moments.scatter, again.moments.scatter)  # whoever was faster


@pytest.mark.parametrize("options", [{}, {"rank": 20}, {"size": "small"}, {"preprocess": "zscore+unit"}], ids=str)
def test_the_linear_learner_from_partitions_predicts_as_from_memory(
    client: Any, task: Any, folders: dict[str, Path], options: dict[str, Any]
) -> None:
    sources, warmup, stream = task
    by_memory = OnlineTransferClassifier("hedgerow-linear", **options).fit_domains(list(sources.values()), warmup)
    clf = OnlineTransferClassifier("hedgerow-linear", **options)
    assert hedgerow.dask.fit(clf, folders, "kind", warmup, client=client) is clf
    assert clf.source_names_ == by_memory.source_names_
    assert clf.expert_names_ == by_memory.expert_names_
    assert_allclose(clf.decision_function(stream.X), by_memory.decision_function(stream.X), atol=1e-6)
    said = [each.predict_then_learn(stream.X, stream.y).tolist() for each in (clf, by_memory)]
    assert said[0] == said[1]


def test_rows_with_negative_numbers_and_no_warm_up(client: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    y = rng.integers(0, 3, 900)
    X = rng.normal(size=(900, 12)) + np.eye(12)[y] * 3
    folders = {name: write(tmp_path / name, X + shift, y, 2) for name, shift in (("a", 0.0), ("b", 1.0))}
    clf = hedgerow.dask.fit(OnlineTransferClassifier("hedgerow-linear"), folders, "kind", client=client)
    plain = OnlineTransferClassifier("hedgerow-linear").fit_domains([Domain("a", X, y), Domain("b", X + 1, y)])
    assert clf.learner_.plan.steps == ("scale", "centre", "unit")
    assert clf.classes_.tolist() == [0, 1, 2]
    assert clf.partitions_.passes == 4
    assert clf.partitions_.sources == (("a", 900, 3), ("b", 900, 3))
    assert_allclose(clf.decision_function(X), plain.decision_function(X), atol=1e-6)


def test_a_dask_dataframe_is_a_source_too_in_any_order_of_columns(client: Any, task: Any) -> None:
    sources, warmup, stream = task
    frames = {}
    for i, (name, domain) in enumerate(sources.items()):
        frame = pd.DataFrame(domain.X, columns=list(domain.feature_names)).assign(kind=np.asarray(domain.y))
        frames[name] = dd.from_pandas(frame[frame.columns[::-1]] if i else frame, npartitions=3)
    clf = hedgerow.dask.fit(OnlineTransferClassifier("hedgerow-linear"), frames, "kind", warmup, client=client)
    plain = OnlineTransferClassifier("hedgerow-linear").fit_domains(list(sources.values()), warmup)
    assert clf.predict(stream.X).tolist() == plain.predict(stream.X).tolist()


def test_a_category_that_no_row_has_is_no_class(client: Any) -> None:
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    frame["kind"] = pd.Categorical(np.where(frame["a"] > 0, "up", "down"), categories=["up", "down", "never"])
    source = dd.from_pandas(frame, npartitions=2)
    clf = hedgerow.dask.fit(OnlineTransferClassifier("hedgerow-linear"), [source], "kind", client=client)
    assert clf.classes_.tolist() == ["down", "up"]


@pytest.mark.slow
def test_the_default_method_samples_its_landmarks_and_kept_rows(client: Any, task: Any, folders: Any) -> None:
    sources, warmup, stream = task
    clf = hedgerow.dask.fit(OnlineTransferClassifier("hedgerow"), folders, "kind", warmup, client=client)
    plain = OnlineTransferClassifier("hedgerow").fit_domains(list(sources.values()), warmup)
    again = hedgerow.dask.fit(OnlineTransferClassifier("hedgerow"), folders, "kind", warmup, client=client)
    assert clf.constants_.digest == again.constants_.digest  # a sample does not depend on who was faster
    rates = [float(np.mean(each.predict_then_learn(stream.X, stream.y) != stream.y)) for each in (clf, plain)]
    assert abs(rates[0] - rates[1]) < 0.04


@pytest.mark.parametrize("aligner", [CORAL(), Whitening(), WhitenedPCA(dim=5), TCA(dim=4), TCA(3, 0.5, normalise=True)])
def test_aligners_whose_statistics_merge(client: Any, tmp_path: Path, aligner: Any) -> None:
    rng = np.random.default_rng(3)
    X, y, U = rng.normal(size=(700, 8)) * np.arange(1, 9), rng.integers(0, 3, 700), rng.normal(2, 1, size=(60, 8))
    found = hedgerow.dask.align(aligner, write(tmp_path / "s", X, y, 3), "kind", U, client=client).projection
    expected = aligner.fit(X, y, U).projection
    for name in ("A", "source_map"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert_allclose(abs(ours), abs(theirs), atol=1e-10)


def test_an_aligner_that_needs_no_labels_takes_a_source_without_them(client: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    X, U = rng.normal(size=(300, 4)) * np.arange(1, 5), rng.normal(2, 1, size=(60, 4))
    pd.DataFrame(X, columns=list("abcd")).to_parquet(tmp_path / "rows.parquet")
    alignment = hedgerow.dask.align(CORAL(), tmp_path / "rows.parquet", None, U, client=client)
    assert_allclose(alignment.projection.source_map, CORAL().fit(X, np.zeros(300, int), U).projection.source_map)


def test_landmarks_are_a_sample_whose_error_is_told(client: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(900, 6))
    folder = write(tmp_path / "s", X, rng.integers(0, 2, 900), 3)
    found = hedgerow.dask.align(Landmarks(dim=12, count=12), folder, "kind", X[:5], client=client)
    L = found.projection.landmarks
    assert L is not None
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert all(np.isclose(units, row).all(axis=1).any() for row in L)  # rows of the data, each once
    assert len(np.unique(L.round(9), axis=0)) == len(L)
    assert "landmarks drawn at random: of k(x, x) = 1 they miss 0." in found.info.note


def test_a_sketch_of_pca_says_how_far_off_it_may_be(client: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(3000, 30)) * 0.8 ** np.arange(30)
    folder = write(tmp_path / "s", X, rng.integers(0, 2, 3000), 3)
    found = hedgerow.dask.align(WhitenedPCA(dim=3, sketch=15), folder, "kind", X[:5], client=client)
    exact = WhitenedPCA(dim=3).fit(X, np.zeros(3000, dtype=int), X[:5])
    told = float(re.findall(r"off by more than (\S+),", found.info.note)[0])
    off = exact.info.eigenvalues - found.info.eigenvalues
    assert (off > -1e-6).all()
    assert (off <= 1.01 * told).all()
    assert told < 0.05 * exact.info.eigenvalues[0]
    with pytest.raises(InputError, match="sketch=2: fewer directions than dim=3"):
        hedgerow.dask.align(WhitenedPCA(dim=3, sketch=2), folder, "kind", client=client)


def test_bad_rows_are_named(client: Any, tmp_path: Path) -> None:
    X, y = np.ones((400, 3)), np.arange(400) % 2
    X[250, 1] = np.nan
    folder = write(tmp_path / "holes", X, y, 2)
    with pytest.raises(InputError, match=r"part-1.parquet: row 51, column 'f1': missing value"):
        hedgerow.dask.statistics(folder, "kind", client=client)
    frame = pd.DataFrame({"x": [1.0, 2.0], "kind": ["a", None]})
    frame.to_parquet(tmp_path / "one.parquet")
    with pytest.raises(InputError, match=r"label column 'kind'.*no label.*drop the row"):
        hedgerow.dask.statistics(tmp_path / "one.parquet", "kind", client=client)
    with pytest.raises(InputError, match=r"no label at row 1"):
        hedgerow.dask.statistics(dd.from_pandas(frame, npartitions=1), "kind", client=client)


def test_what_cannot_be_is_refused_before_anything_is_read(client: Any, folders: Any, tmp_path: Path) -> None:
    clf = OnlineTransferClassifier("oddm")
    with pytest.raises(InputError, match=r"method='oddm' learns its sources row by row.*hedgerow, hedgerow-linear"):
        hedgerow.dask.fit(clf, folders, "kind", client=client)
    assert not hasattr(clf, "learner_")
    with pytest.raises(InputError, match=r"aligner='jda'.*must be in memory; able: .*coral"):
        hedgerow.dask.align("jda", folders["thin"], "kind", client=client)
    with pytest.raises(InputError, match="unknown label column"):
        hedgerow.dask.statistics(folders["thin"], "kin", client=client)
    linear = OnlineTransferClassifier("hedgerow-linear")
    (tmp_path / "rows.csv").write_text("a,kind\n1,2\n")
    with pytest.raises(InputError, match="has to be Parquet"):
        hedgerow.dask.fit(linear, [tmp_path / "rows.csv"], "kind", client=client)
    with pytest.raises(InputError, match="a list of sources"):
        hedgerow.dask.fit(linear, str(folders["thin"]), "kind", client=client)
    with pytest.raises(InputError, match="a DataFrame; give a path"):
        hedgerow.dask.fit(linear, {"a": pd.DataFrame({"x": [1.0]})}, "kind", client=client)
    narrow = write(tmp_path / "narrow", np.ones((9, 3)), np.arange(9) % 2, 1)
    with pytest.raises(InputError, match=r"source 'narrow': other features than those of source 'thin'"):
        hedgerow.dask.fit(linear, [folders["thin"], narrow], "kind", client=client)
    with pytest.raises(InputError, match=r"different width: \[\('narrow', 3\), \('target', 5\)\]"):
        hedgerow.dask.fit(linear, [narrow], "kind", np.ones((4, 5)), client=client)
    with pytest.raises(InputError, match=r"label 0 is not among classes=\[1, 2\]"):
        hedgerow.dask.fit(OnlineTransferClassifier("hedgerow-linear", classes=[1, 2]), [narrow], "kind", client=client)
    assert not hasattr(linear, "learner_")


def test_reading_in_partitions_is_reading_the_file(folders: dict[str, Path]) -> None:
    [opened] = fitting.open_sources([folders["thin"]], "kind")
    assert len(opened.partitions) > 3
    blocks = [block for part in opened.partitions for block in part.parts()]
    whole = read(folders["thin"], label="kind")
    assert np.array_equal(np.concatenate([block.X for block in blocks]), whole.X)
    assert np.array_equal(np.concatenate([block.labels[block.codes] for block in blocks]), np.asarray(whole.y))


@pytest.mark.slow
def test_wide_rows_take_one_pass_more_and_no_warning(client: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    y = rng.integers(0, 2, 700)
    X = rng.normal(size=(700, 520)) + np.eye(520)[y] * 5
    folder = write(tmp_path / "wide", X, y, 2, 100)
    clf = hedgerow.dask.fit(OnlineTransferClassifier("hedgerow-linear"), {"a": folder}, "kind", client=client)
    plain = OnlineTransferClassifier("hedgerow-linear").fit_domains([Domain("a", X, y)])
    assert clf.partitions_.passes == 5
    assert clf.predict(X).tolist() == plain.predict(X).tolist()
