"""What a comparison counts is what the estimator does, row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alike import alike

from hedgerow import Domain, InputError, OnlineTransferClassifier, compare, split
from hedgerow.comparison.command import plan
from hedgerow.comparison.door import Comparison
from hedgerow.comparison.inputs import task_of
from hedgerow.comparison.measures import unpacked
from hedgerow.comparison.options import CompareOptions
from hedgerow.comparison.run import run_unit
from hedgerow.comparison.stored_task import pack, read_task, write_task
from hedgerow.evaluate.calibration import Reliability, brier, log_loss
from hedgerow.experiment import engine, results
from hedgerow.experiment.preparation import order_of

TIMES = ("seconds_offline", "seconds_online")


def row_of(found: Comparison, method: str, without: str = "", trial: int = 0) -> dict[str, Any]:
    group = "without" if without else "compare"
    wanted = {"group": group, "method": method, "variant": without, "trial": trial}
    [row] = [row for row in found.records if all(row[name] == value for name, value in wanted.items())]
    return row


def fitted(domains: dict[str, Domain], method: str, *sources: str) -> tuple[OnlineTransferClassifier, Domain]:
    warmup, stream = split(domains["shifted"], 0.3, seed=None)
    clf = OnlineTransferClassifier(method, random_state=0).fit_domains([domains[name] for name in sources], warmup)
    return clf, stream


@pytest.mark.parametrize("method", ["pa", "homotlms", "hedgerow-linear"])
def test_the_row_of_a_method_is_predict_then_learn_of_the_estimator(found, domains, method):
    clf, stream = fitted(domains, method, "tilted", "faded")
    wrong = clf.predict_then_learn(stream.X, stream.y) != stream.y
    row = row_of(found, method)
    assert unpacked(row).tolist() == wrong.tolist()
    assert row["mistakes"] == wrong.sum() == row["curve"][-1] == clf.mistakes_
    assert row["first_mistakes"] == wrong[:50].sum()
    assert (row["n"], row["instances"][-1]) == (len(wrong), len(wrong))
    places = np.array(row["instances"])
    assert row["curve"] == np.cumsum(wrong)[places - 1].tolist()


def test_probabilities_weights_and_confusion_are_those_of_the_predictions(found, domains):
    clf, stream = fitted(domains, "hedgerow-linear", "tilted", "faded")
    told = clf.explain_then_learn(stream.X, stream.y)
    row = row_of(found, "hedgerow-linear")
    codes = np.searchsorted(told.classes, stream.y)
    assert row["log_loss"] == pytest.approx(log_loss(told.probabilities, codes))
    assert row["brier"] == pytest.approx(brier(told.probabilities, codes))
    bins = Reliability.of(told.probabilities, codes)
    assert row["bins"]["count"] == bins.count.tolist()
    assert np.allclose(row["weights"][-1], told.weights[-1])
    for true, said, count in row["confusion"]:
        assert count == ((codes == true) & (told.codes == said)).sum()
    assert sum(count for _, _, count in row["confusion"]) == row["n"]


@pytest.mark.parametrize("method", ["homotlms", "hedgerow-linear"])
def test_without_a_source_is_fitting_without_it(found, domains, method):
    clf, stream = fitted(domains, method, "faded")
    wrong = clf.predict_then_learn(stream.X, stream.y) != stream.y
    assert unpacked(row_of(found, method, without="tilted")).tolist() == wrong.tolist()
    worth = {w.source: w.points for w in found._runs.worths(method)}
    whole = row_of(found, method)["mistakes"]
    assert worth["tilted"] == pytest.approx(100 * (wrong.sum() - whole) / len(wrong))


def test_a_method_that_uses_no_source_is_not_run_without_one(found):
    assert {row["method"] for row in found.records if row["group"] == "without"} == {"homotlms", "hedgerow-linear"}
    assert len(found.records) == 3 + 2 * 2


def test_orders_are_shuffled_and_it_is_said(domains):
    several = compare([domains["tilted"]], domains["shifted"], warmup=0.3, methods="homotlms", orders=2)
    assert any("2 orders: the stream is shuffled" in note for note in several.notes)
    assert "shuffled, 2 times" in several.verdict
    clf, stream = fitted(domains, "homotlms", "tilted")
    order = order_of(1, len(stream))
    wrong = clf.predict_then_learn(stream.X[order], stream.y[order]) != stream.y[order]
    assert unpacked(row_of(several, "homotlms", trial=1)).tolist() == wrong.tolist()
    assert len(several.rows) == 4  # without its only source it has the unlabelled rows, and is told the classes


def test_rows_without_a_label_are_neither_learned_nor_counted(domains):
    stream = domains["shifted"]
    y = stream.y.astype(object)
    y[::3] = None
    gaps = Domain("gaps", stream.X, y)
    found = compare([(np.asarray(domains["tilted"].X), domains["tilted"].y)], gaps, methods="homotlms", peers=True)
    clf = OnlineTransferClassifier("homotlms", random_state=0).fit_domains([Domain("source 1", *_parts(domains))])
    wrong = (clf.predict_then_learn(stream.X, y) != stream.y)[y != None]  # noqa: E711 (elementwise)
    row = row_of(found, "homotlms")
    assert (row["mistakes"], row["n"]) == (wrong.sum(), len(wrong))
    assert any("no unlabelled rows" in note for note in found.notes)


def _parts(domains: dict[str, Domain]) -> tuple[Any, Any]:
    return domains["tilted"].X, domains["tilted"].y


def test_peers_are_told_in_the_rows(domains):
    pytest.importorskip("river", reason="pip install river")
    found = compare([domains["tilted"]], domains["shifted"], warmup=0.3, methods="pa", peers=True)
    assert set(found.table["method"]) == {
        "pa", "sklearn-sgd", "sklearn-logistic", "river-softmax", "river-hat", "river-arf"
    }  # fmt: skip
    for row in found.records:
        assert 0 < row["mistakes"] < row["n"]
        assert sum(row["bins"]["count"]) == row["n"]
    assert not any("not installed" in note for note in found.notes)


def test_a_peer_predicts_before_it_learns(domains):
    """With labels that are noise nobody is right more often than chance, however the row is read."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
    stream = Domain("noise", rng.normal(size=(400, 3)), rng.integers(0, 2, 400))
    found = compare([(X, y)], stream, methods="pa", peers=True)
    for row in found.records:
        assert 0.4 < row["mistakes"] / row["n"] < 0.6, row["method"]


def test_missing_peers_are_named_with_the_remedy(monkeypatch, domains):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "river" else True)
    found = compare([domains["tilted"]], domains["shifted"], methods="pa", peers=True)
    assert any("river softmax" in note and "pip install river" in note for note in found.notes)
    assert "river-arf" not in found.table["method"].tolist()


# -- the folder ------------------------------------------------------------------------------------------------------


def without_times(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept = [{k: v for k, v in row.items() if k not in TIMES} for row in rows]
    return sorted(kept, key=lambda row: [str(row[name]) for name in results.KEY])


def rows_in(folder: Path) -> list[dict[str, Any]]:
    return without_times(results.read(folder).rows)


def test_a_run_that_was_resumed_is_the_whole_run(found, domains, tmp_path):
    task = task_of([domains["tilted"], domains["faded"]], domains["shifted"], warmup=0.3)
    options = CompareOptions("pa,homotlms,hedgerow-linear", out=tmp_path, jobs=1)
    units = plan(task, options, lambda _: None)
    engine.run(units[:3], run_unit, tmp_path, jobs=1)
    assert len(rows_in(tmp_path)) == 3
    assert engine.run(units, run_unit, tmp_path, jobs=1) == 4
    assert alike(rows_in(tmp_path), without_times(found.records))


def test_results_of_other_data_are_not_mixed(found, domains, tmp_path):
    write_task(tmp_path, pack(found.task)[1])
    for row in found.records:
        results.append(tmp_path, row)
    options = CompareOptions("pa", out=tmp_path, resume=True, jobs=1)
    before = (tmp_path / "task.npz").read_bytes()
    other = task_of([domains["faded"]], domains["shifted"], warmup=0.3)
    with pytest.raises(InputError, match="results of other data"):
        plan(other, options, lambda _: None)
    same = task_of([domains["tilted"], domains["faded"]], domains["shifted"], warmup=0.3)
    with pytest.raises(InputError, match="results of the order in time"):
        plan(same, CompareOptions("pa", 2, out=tmp_path, resume=True, jobs=1), lambda _: None)
    with pytest.raises(InputError, match="--resume"):
        plan(same, CompareOptions("pa", out=tmp_path, jobs=1), lambda _: None)
    assert (tmp_path / "task.npz").read_bytes() == before
    assert plan(same, options, lambda _: None)


@pytest.mark.parametrize("labels", [[1, 0, 1], ["a", "b", "a"], [1.0, float("nan"), 2.0], [True, False, True]])
def test_a_task_is_read_back_as_it_was(tmp_path, labels):
    import scipy.sparse as sp

    y = np.array(labels)
    sparse = Domain("s", sp.csr_matrix([[0, 1.5], [2, 0], [0, 0]]), np.array(["a", "b", "a"]), feature_names=("p", "q"))
    stream = Domain("t", np.arange(6, dtype=np.float32).reshape(3, 2), y, feature_names=("p", "q"))
    task = task_of([sparse], stream, unlabelled=stream)
    checksum, content = pack(task)
    write_task(tmp_path, content)
    again = read_task(str(tmp_path), checksum)
    assert again.stream.X.dtype == np.float32
    assert again.stream.y.dtype == task.stream.y.dtype
    assert np.array_equal(again.stream.y, task.stream.y, equal_nan=y.dtype.kind == "f")
    assert (again.sources[0].X != task.sources[0].X).nnz == 0
    assert again.stream.feature_names == ("p", "q")
    assert again.warmup is not None
    assert again.warmup.y is None
    assert pack(again)[0] == checksum


def test_a_worker_that_does_not_see_the_folder_says_so(tmp_path):
    with pytest.raises(InputError, match="has to be there for every worker"):
        read_task(str(tmp_path / "elsewhere"), "0")
