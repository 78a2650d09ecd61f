"""What one decides by: the majority rule, classes one by one, options and columns, ranks over one's own domains."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, precision_score, recall_score, roc_auc_score

from hedgerow import Domain, InputError, OnlineTransferClassifier, compare, compare_domains, split
from hedgerow.comparison.runner import find_methods
from hedgerow.comparison.tables import Table, Value


def test_the_majority_rule_stands_in_the_table_and_the_verdict(domains):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.where(rng.random(200) < 0.9, "no", "yes")
    comparison = compare([(X[:50], y[:50])], (X[50:], y[50:]), methods="pa", peers="none")
    counts = {"no": 0, "yes": 0}
    wrong = 1
    for i, label in enumerate(y[50:]):
        wrong += i > 0 and max(counts, key=counts.__getitem__) != label
        counts[label] += 1
    assert comparison.majority == pytest.approx(100 * wrong / 150)
    assert comparison.verdict.startswith("Nothing beats the majority rule beyond noise (p ")
    last = comparison.tables[0].texts[-2]
    assert last[:2] == ["majority rule", f"{comparison.majority:.1f}"]


def test_the_last_label_stands_in_the_table_and_the_verdict_says_where_it_is_enough(domains):
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = np.array(["up", "down"])[np.arange(200) // 50 % 2]
    comparison = compare([(X[:50], y[:50])], (X[50:], y[50:]), methods="pa", peers="none")
    assert comparison.last_label == pytest.approx(100 * 3 / 150)
    assert "The last label is enough: repeating it makes 2.0 % mistakes." in comparison.verdict
    assert comparison.tables[0].texts[-1][:2] == ["last label", "2.0"]
    mistakes = comparison.table["mistakes"].iloc[0]
    assert comparison.table["kappa_temporal"].iloc[0] == pytest.approx(1 - mistakes / 2)
    square = comparison.confusion("pa").to_numpy()[-2:, -2:]
    assert comparison.table["kappa"].iloc[0] < 1 - mistakes / 100 <= square.trace() / 150
    shuffled = compare([(X[:50], y[:50])], (X[50:], y[50:]), methods="pa", peers="none", orders=2)
    assert "last label" not in shuffled.verdict


def test_measures_of_each_class_are_those_of_scikit_learn(comparison, domains):
    warmup, stream = split(domains["shifted"], 0.3, seed=None)
    clf = OnlineTransferClassifier("homotlms", random_state=0).fit_domains(
        [domains["tilted"], domains["faded"]], warmup
    )
    told = clf.explain_then_learn(stream.X, stream.y)
    predicted = told.classes[told.codes]
    y = np.asarray(stream.y)
    own = comparison.by_class.loc["homotlms"]
    classes = own.index.tolist()
    np.testing.assert_allclose(
        own["recall"], 100 * recall_score(y, predicted, labels=classes, average=None)
    )
    np.testing.assert_allclose(
        own["precision"], 100 * precision_score(y, predicted, labels=classes, average=None)
    )
    for k, label in enumerate(classes):
        p = told.probabilities[:, k]
        assert own.loc[label, "auc"] == pytest.approx(roc_auc_score(y == label, p))
        expected = log_loss(
            np.ones((y == label).sum()), np.maximum(p[y == label], 1e-6), labels=[0, 1]
        )
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
    dims = {
        row["method"]: row["options"].get("dim") for row in comparison.records if not row["variant"]
    }
    assert dims["oddm"] == 4
    assert any("dropped: note" in text for text in comparison.findings)
    with pytest.raises(InputError, match=r"did you mean 'dim'"):
        compare([domains["tilted"]], domains["faded"], methods="pa", options={"dimm": 3})


def test_each_domain_is_the_target_once(domains, tmp_path):
    over = compare_domains(domains, methods="pa,homotlms", peers="none")
    assert list(over.table.index) == ["tilted", "faded", "shifted"]
    sources = [domains["tilted"], domains["faded"]]
    alone = compare(sources, domains["shifted"], warmup=0.3, methods="pa,homotlms", peers="none")
    expected = alone.table.set_index("method")["mistakes"]
    assert (
        over.table.loc["shifted", ["pa", "homotlms"]].tolist()
        == expected[["pa", "homotlms"]].tolist()
    )
    ranks = over.table.rank(axis=1).mean()
    assert dict(over.ranking.ordered) == pytest.approx(ranks.to_dict())
    text = over.save(tmp_path / "out").read_text(encoding="utf-8")
    for words in (
        over.verdict.split(",")[0],
        "Mean rank",
        "majority rule",
        "of each target all other domains",
    ):
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
    text = Table(
        "t", "T", ["task", "pa"], [["dslr", Value("50.0", mark="best")], ["a_b", "51"]]
    ).latex()
    assert r"dslr & \textbf{50.0} \\" in text
    assert r"a\_b & 51 \\" in text
    assert (
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{\begin{tabular}{lr}"
        in text
    )


def test_all_methods_of_the_paper_are_ours_too():
    assert {"oddm", "hedgerow", "hedgerow-linear"} <= set(find_methods("all"))


def rare_task(seed: int, n: int, shift: float = 0.0, share: float = 0.03) -> Domain:
    rng = np.random.default_rng(seed)
    y = rng.random(n) < share
    X = rng.normal(size=(n, 4)) + shift
    X[:, 0] += 1.5 * y
    return Domain(f"s{seed}", X, np.where(y, "fraud", "fine"))


def test_where_a_class_is_rare_the_verdict_is_about_finding_it():
    from sklearn.metrics import average_precision_score, precision_recall_curve

    stream = rare_task(9, 700)
    comparison = compare(
        [rare_task(0, 800), rare_task(1, 800)], stream, methods="hedgerow", peers="sklearn-logistic"
    )
    assert (comparison.rare, comparison.metric) == ("fraud", "average-precision")
    own = np.asarray(stream.y) == "fraud"
    for method in comparison.methods:
        scores = comparison._scores(method)
        line = comparison.by_class.loc[(method, "fraud")]
        assert line["ap"] == pytest.approx(average_precision_score(own, scores))
        precision, recall, _ = precision_recall_curve(own, scores)
        assert line["recall_at"] == pytest.approx(
            100 * recall[:-1][precision[:-1] >= 0.5].max(initial=0)
        )
        called = scores >= line["threshold"] - 1e-6  # scores are kept as float32
        assert not called.any() or own[called].mean() >= 0.5
        assert line["top"] == pytest.approx(
            100 * own[np.argsort(-scores, kind="stable")[:10]].mean()
        )
    table = comparison.table
    assert table["ap"].is_monotonic_decreasing
    title = comparison.titles[table["method"][0]]
    assert (
        f"{title} finds fraud best: average precision {table['ap'][0]:.2f}, by chance 0.0"
        in comparison.verdict
    )
    assert "called at a probability of" in comparison.verdict
    header = comparison.tables[0].header
    assert list(header[1:4]) == [
        "AP of fraud",
        "recall at precision 50%, %",
        "precision of the top 1 %, %",
    ]
    by_mistakes = compare(
        [rare_task(0, 800)], stream, methods="hedgerow-linear", peers="none", metric="mistakes"
    )
    assert "finds fraud" not in by_mistakes.verdict


def test_a_constant_that_nothing_beats_is_the_first_sentence():
    rng = np.random.default_rng(0)
    noise = [
        (rng.normal(size=(300, 3)), np.where(rng.random(300) < 0.3, "a", "b")) for _ in range(3)
    ]
    comparison = compare(noise[:2], noise[2], methods="hedgerow-linear,homotlms", peers="none")
    assert comparison.verdict.startswith("Nothing beats the majority rule beyond noise (p ")
    assert not comparison.beats_constant
    assert "look for columns that tell the classes apart" in comparison.verdict
    X = np.vstack([x for x, _ in noise])
    clear = Domain("clear", X, np.where(X[:, 0] > 0, "a", "b"))
    found = compare([clear], clear.rows(np.arange(400)), methods="hedgerow-linear", peers="none")
    assert found.beats_constant
    assert not found.verdict.startswith("Nothing")


def test_a_metric_that_is_none_is_refused(domains):
    for metric, task in (("accuracy", None), ("log-loss", "regress")):
        source = (
            Domain("s", np.arange(20.0)[:, None], np.arange(20.0))
            if task
            else domains["thin" if "thin" in domains else "tilted"]
        )
        with pytest.raises(InputError, match=f"unknown metric '{metric}'"):
            compare([source], source, metric=metric, task=task, methods="pa", peers="none")
