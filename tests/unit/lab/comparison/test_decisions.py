"""What one decides by: the majority rule, classes one by one, options and columns, ranks over one's own domains."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, precision_score, recall_score, roc_auc_score

from hedgerow import Domain, InputError, OnlineTransferClassifier, compare, compare_domains, split
from hedgerow.lab import study
from hedgerow.lab.compare import times
from hedgerow.lab.report import Table, Value
from hedgerow.lab.runner import Folder, find_methods
from hedgerow.lab.tasks import OwnFiles


def test_the_majority_rule_stands_in_the_table_and_the_verdict(domains):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.where(rng.random(200) < 0.9, "no", "yes")
    comparison = compare([(X[:50], y[:50])], (X[50:], y[50:]), methods="pa", peers="none")
    counts, wrong = {"no": 0, "yes": 0}, 1
    for i, label in enumerate(y[50:]):
        wrong += i > 0 and max(counts, key=counts.__getitem__) != label
        counts[label] += 1
    assert comparison.majority == pytest.approx(100 * wrong / 150)
    assert "no better than always predicting the most frequent label so far" in comparison.verdict
    last = comparison.tables[0].texts[-1]
    assert last[:2] == ["majority rule", f"{comparison.majority:.1f}"]


def test_measures_of_each_class_are_those_of_scikit_learn(comparison, domains):
    warmup, stream = split(domains["shifted"], 0.3, seed=None)
    clf = OnlineTransferClassifier("homotlms", random_state=0).fit_domains(
        [domains["tilted"], domains["faded"]], warmup
    )
    told = clf.explain_then_learn(stream.X, stream.y)
    predicted, y, own = told.classes[told.codes], np.asarray(stream.y), comparison.by_class.loc["homotlms"]
    classes = own.index.tolist()
    np.testing.assert_allclose(own["recall"], 100 * recall_score(y, predicted, labels=classes, average=None))
    np.testing.assert_allclose(own["precision"], 100 * precision_score(y, predicted, labels=classes, average=None))
    for k, label in enumerate(classes):
        p = told.probabilities[:, k]
        assert own.loc[label, "auc"] == pytest.approx(roc_auc_score(y == label, p))
        expected = log_loss(np.ones((y == label).sum()), np.maximum(p[y == label], 1e-6), labels=[0, 1])
        assert own.loc[label, "log_loss"] == pytest.approx(expected, rel=1e-6)
    table = comparison.table.set_index("method")
    assert table.loc["homotlms", "recall"] == pytest.approx(own["recall"].mean())


def test_boosting_logistic_and_the_forest_of_river_are_compared_unasked(domains):
    pytest.importorskip("river", reason="pip install river")
    comparison = compare([domains["tilted"]], domains["shifted"], methods="pa")
    assert set(comparison.methods) == {"pa", "sklearn-boosting", "sklearn-logistic", "river-arf"}


def test_options_and_columns_reach_the_methods_that_read_them(domains):
    frame = pd.DataFrame(np.asarray(domains["tilted"].X), columns=domains["tilted"].feature_names)
    frame = frame.assign(note=["some text"] * len(frame), digit=domains["tilted"].y)
    options = {"dim": 4, "table": {"drop": ["note"]}}
    comparison = compare(
        {"a": frame[:80]}, frame[80:], label="digit", warmup=0.3, methods="pa,oddm", peers="sklearn-logistic",
        options=options,
    )  # fmt: skip
    dims = {row["method"]: row["options"].get("dim") for row in comparison.records if not row["variant"]}
    assert dims["oddm"] == 4
    assert any("dropped: note" in note for note in comparison.column_notes)
    with pytest.raises(InputError, match=r"did you mean 'dim'"):
        compare([domains["tilted"]], domains["faded"], methods="pa", options={"dimm": 3})


def test_each_domain_is_the_target_once(domains, tmp_path):
    over = compare_domains(domains, methods="pa,homotlms", peers="none")
    assert list(over.table.index) == ["tilted", "faded", "shifted"]
    sources = [domains["tilted"], domains["faded"]]
    alone = compare(sources, domains["shifted"], warmup=0.3, methods="pa,homotlms", peers="none")
    expected = alone.table.set_index("method")["mistakes"]
    assert over.table.loc["shifted", ["pa", "homotlms"]].tolist() == expected[["pa", "homotlms"]].tolist()
    ranks = over.table.rank(axis=1).mean()
    assert dict(over.ranking.ordered) == pytest.approx(ranks.to_dict())
    text = over.save(tmp_path / "out").read_text(encoding="utf-8")
    for words in (over.verdict.split(",")[0], "Mean rank", "majority rule", "of each target all other domains"):
        assert words in text
    with pytest.raises(InputError, match="1 domain: each is the target once"):
        compare_domains({"tilted": domains["tilted"]})


def test_numbers_are_ranked_over_domains_by_their_error():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3, 60, 2))
    made = {f"d{i}": Domain(f"d{i}", X[i], X[i] @ [1.0, 2.0] + i / 3) for i in range(3)}
    over = compare_domains(made)
    assert dict(over.ranking.ordered) == pytest.approx(over.table.rank(axis=1).mean().to_dict())
    assert "mean RMSE" in over.verdict


def test_latex_has_the_best_in_bold_and_fits_a_line():
    text = Table("t", "T", ["task", "pa"], [["dslr", Value("50.0", mark="best")], ["a_b", "51"]]).latex()
    assert r"dslr & \textbf{50.0} \\" in text
    assert r"a\_b & 51 \\" in text
    assert r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{\begin{tabular}{lr}" in text


def test_counts_are_counts():
    assert [times(12345.0), times(7.0), times(2.5)] == ["12,345", "7", "2.5"]


def test_a_study_takes_files_of_ones_own(files, tmp_path):
    paths = [files / "tilted.csv", files / "faded.parquet", files / "shifted.csv"]
    page = study.run(Folder(tmp_path, jobs=1), "delay", OwnFiles.of(paths, "digit"), methods="pa", orders=1)
    assert "own/shifted" in page.read_text(encoding="utf-8")  # the last one is the target where none is named
    named = study.run(Folder(tmp_path / "named", jobs=1), "delay", OwnFiles.of(paths, "digit"), "tilted", "pa", 1)
    assert "own/tilted" in named.read_text(encoding="utf-8")
    with pytest.raises(InputError, match=r"unknown domain of your files 'tilt'.*did you mean 'tilted'"):
        study.run(Folder(tmp_path / "out", jobs=1), "delay", OwnFiles.of(paths, "digit"), "tilt", "pa", 1)
    with pytest.raises(InputError, match="1 domain: one is the target"):
        study.run(Folder(tmp_path / "out", jobs=1), "delay", OwnFiles.of(paths[:1], "digit"), methods="pa")
    with pytest.raises(InputError, match="a study needs a label in every row"):
        study.run(Folder(tmp_path / "out", jobs=1), "delay", OwnFiles.of(paths[::2], None), methods="pa")


def test_all_methods_of_the_paper_are_ours_too():
    assert {"oddm", "hedgerow", "hedgerow-linear"} <= set(find_methods("all"))
