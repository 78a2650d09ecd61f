"""Comparisons: what can be given, what a row counts, what is said about the rows, and what a folder keeps."""

from __future__ import annotations

import re
from html import escape
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import brier_score_loss
from sklearn.metrics import log_loss as reference_log_loss
from support.alike import alike

from hedgerow import Domain, InputError, OnlineTransferClassifier, split
from hedgerow.comparison import runner
from hedgerow.comparison.compare import compare, comparison_in, plan, report, run
from hedgerow.comparison.found import Comparison
from hedgerow.comparison.measure import brier, calibration_error, log_loss, reliability, unpacked
from hedgerow.comparison.results import FILE, KEY, append, read
from hedgerow.comparison.runner import Folder
from hedgerow.comparison.stats import against, mcnemar
from hedgerow.comparison.tasks import order_of, task_of
from hedgerow.core.errors import HedgerowError

TIMES = ("seconds_offline", "seconds_online")
FIGURES = [
    "running-mistakes",
    "windowed-mistakes",
    "reliability",
]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
Y = np.array(list("uvw") * 10)
SOURCE = Domain("s", X, Y, feature_names=("a", "b", "c"))

# -- files, tables and arrays -----------------------------------------------------------------------------------


def frame(**more: Any) -> pd.DataFrame:
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=Y, **more)


def test_tables_of_every_kind_give_the_same_task(tmp_path):
    import polars as pl
    import pyarrow as pa

    table = frame()
    table.to_csv(tmp_path / "s.csv", index=False)
    table.to_parquet(tmp_path / "s.parquet")
    given = [
        table,
        pl.from_pandas(table),
        pa.Table.from_pandas(table),
        tmp_path / "s.csv",
        str(tmp_path / "s.parquet"),
    ]
    for each in given:
        task = task_of({"s": each}, each, label="y", unlabelled=each)
        for domain in (task.sources[0], task.stream):
            assert np.allclose(domain.X, X)
            assert domain.y.tolist() == Y.tolist()
            assert tuple(domain.feature_names) == ("a", "b", "c")
        assert task.warmup.y is None
        assert task.sources[0].name == "s"


def test_a_file_of_unlabelled_rows_need_not_have_the_label_column(tmp_path):
    frame(t=range(30)).drop(columns="y").to_csv(tmp_path / "u.csv", index=False)
    frame(t=range(30)).to_csv(tmp_path / "s.csv", index=False)
    for time in (None, "t"):
        task = task_of(
            [tmp_path / "s.csv"],
            tmp_path / "s.csv",
            label="y",
            unlabelled=tmp_path / "u.csv",
            order_by=time,
        )
        assert task.warmup.X.shape == (30, 3 if time else 4)
        assert (task.warmup.y, task.warmup.name) == (None, "u")


def test_the_order_of_the_file_is_kept_and_the_warm_up_is_its_beginning():
    task = task_of([SOURCE], SOURCE, warmup=0.3)
    assert np.array_equal(task.warmup.X, X[:9])
    assert np.array_equal(task.stream.X, X[9:])


@pytest.mark.parametrize("kind", ["number", "date", "datetime64"])
def test_a_time_column_sorts_the_stream_and_is_no_feature(tmp_path, kind):
    order = RNG.permutation(30)
    when = pd.Timestamp("2024-02-20") + pd.to_timedelta(order, unit="D")
    times = {"number": 9.5 + order, "date": when.strftime("%Y-%m-%d"), "datetime64": when}[kind]
    table = frame(t=times)
    stream = table
    if kind != "datetime64":
        stream = tmp_path / "stream.csv"
        table.to_csv(stream, index=False)
        table.to_csv(tmp_path / "u.csv", index=False)
    task = task_of([frame()], stream, label="y", order_by="t", warmup=0.2)
    sorted_rows = X[np.argsort(order)]
    assert np.allclose(task.warmup.X, sorted_rows[:6])
    assert np.allclose(task.stream.X, sorted_rows[6:])
    assert task.stream.y.tolist() == Y[np.argsort(order)][6:].tolist()
    assert tuple(task.stream.feature_names) == ("a", "b", "c")
    if kind != "datetime64":
        task = task_of([stream], stream, label="y", order_by="t", unlabelled=tmp_path / "u.csv")
        assert task.warmup.X.shape == (30, 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"sources": []}, "at least one labelled source"),
        ({"sources": {}}, "at least one labelled source"),
        ({"sources": [SOURCE, SOURCE]}, "two sources are called 's'"),
        ({"sources": [SOURCE.unlabelled()]}, "source 's' has no labels"),
        ({"stream": SOURCE.unlabelled()}, "stream 's' has no labels"),
        ({"stream": Domain("s", X, [None] * 30)}, "every label is missing"),
        ({"warmup": 0.3, "unlabelled": SOURCE}, "give one of them"),
        ({"warmup": 1.5}, r"warmup=1.5: .* must be in \[0, 1\)"),
        ({"order_by": "t"}, "unknown time column of the stream 't'"),
        ({"stream": (X, Y, Y)}, "a tuple of 3"),
        ({"stream": Domain("t", X[:, :2], Y)}, "domains of different width"),
        ({"stream": "nowhere.csv"}, "nowhere.csv"),
    ],
)
def test_what_cannot_be_compared_is_refused(arguments, words):
    with pytest.raises(HedgerowError, match=words):
        task_of(**{"sources": [SOURCE], "stream": SOURCE, **arguments})


def test_a_time_that_is_none_is_named_with_its_row(tmp_path):
    path = tmp_path / "s.csv"
    frame(t=["2024-01-01"] * 29 + ["soon"]).to_csv(path, index=False)
    with pytest.raises(
        InputError, match=r"column 't': 'soon' in row 30 is not a time; write numbers, or dates"
    ):
        task_of([SOURCE], path, label="y", order_by="t")


def test_the_checksum_is_that_of_names_rows_and_labels():
    def checksum(**change: Any) -> str:
        given = {
            "name": "s",
            "X": X.copy(),
            "y": Y.copy(),
            "feature_names": ("a", "b", "c"),
            **change,
        }
        return task_of([Domain(**given)], SOURCE, warmup=0.3).checksum

    other = X.copy()
    other[3, 1] += 1e-9
    changes = [{}, {"name": "t"}, {"X": other}, {"y": Y[::-1].copy()}, {"X": X[::-1].copy()}]
    assert len({checksum(**change) for change in changes}) == len(changes)
    assert checksum() == checksum()


# -- rows ---------------------------------------------------------------------------------------------------------


def row_of(
    comparison: Comparison, method: str, without: str = "", trial: int = 0
) -> dict[str, Any]:
    group = "without" if without else "compare"
    wanted = {"group": group, "method": method, "variant": without, "trial": trial}
    [row] = [
        row
        for row in comparison.records
        if all(row[name] == value for name, value in wanted.items())
    ]
    return row


def fitted(
    domains: dict[str, Domain], method: str, *sources: str
) -> tuple[OnlineTransferClassifier, Domain]:
    warmup, stream = split(domains["shifted"], 0.3, seed=None)
    clf = OnlineTransferClassifier(method, random_state=0).fit_domains(
        [domains[name] for name in sources], warmup
    )
    return clf, stream


@pytest.mark.parametrize("method", ["pa", "homotlms", "hedgerow-linear"])
def test_the_row_of_a_method_is_predict_then_learn_of_the_estimator(comparison, domains, method):
    clf, stream = fitted(domains, method, "tilted", "faded")
    wrong = clf.predict_then_learn(stream.X, stream.y) != stream.y
    row = row_of(comparison, method)
    assert unpacked(row).tolist() == wrong.tolist()
    assert row["mistakes"] == wrong.sum() == row["curve"][-1] == clf.mistakes_
    assert row["first_mistakes"] == wrong[:50].sum()
    assert (row["n"], row["instances"][-1]) == (len(wrong), len(wrong))
    places = np.array(row["instances"])
    assert row["curve"] == np.cumsum(wrong)[places - 1].tolist()


def test_probabilities_and_confusion_are_those_of_the_predictions(comparison, domains):
    clf, stream = fitted(domains, "hedgerow-linear", "tilted", "faded")
    told = clf.explain_then_learn(stream.X, stream.y)
    row = row_of(comparison, "hedgerow-linear")
    codes = np.searchsorted(told.classes, stream.y)
    assert row["log_loss"] == pytest.approx(log_loss(told.probabilities, codes))
    assert row["brier"] == pytest.approx(brier(told.probabilities, codes))
    assert row["bins"]["count"] == reliability(told.probabilities, codes)["count"]
    for true, prediction, count in row["confusion"]:
        assert count == ((codes == true) & (told.codes == prediction)).sum()
    assert sum(count for _, _, count in row["confusion"]) == row["n"]


@pytest.mark.parametrize("method", ["homotlms", "hedgerow-linear"])
def test_without_a_source_is_fitting_without_it(comparison, domains, method):
    clf, stream = fitted(domains, method, "faded")
    wrong = clf.predict_then_learn(stream.X, stream.y) != stream.y
    assert unpacked(row_of(comparison, method, without="tilted")).tolist() == wrong.tolist()
    whole = row_of(comparison, method)["mistakes"]
    worth = comparison.worth.loc[(method, "tilted"), "points"]
    assert worth == pytest.approx(100 * (wrong.sum() - whole) / len(wrong))


def test_a_method_that_uses_no_source_is_not_run_without_one(comparison):
    assert {row["method"] for row in comparison.records if row["group"] == "without"} == {
        "homotlms",
        "hedgerow-linear",
    }
    assert len(comparison.records) == 3 + 2 * 2


def test_orders_are_shuffled_and_it_is_said(domains):
    several = compare(
        [domains["tilted"]],
        domains["shifted"],
        warmup=0.3,
        methods="homotlms",
        peers="none",
        orders=2,
    )
    assert any("2 orders: the stream is shuffled" in note for note in several.notes)
    assert "shuffled, 2 times" in several.verdict
    clf, stream = fitted(domains, "homotlms", "tilted")
    order = order_of(1, len(stream))
    wrong = clf.predict_then_learn(stream.X[order], stream.y[order]) != stream.y[order]
    assert unpacked(row_of(several, "homotlms", trial=1)).tolist() == wrong.tolist()
    assert (
        len(several.rows) == 4
    )  # without its only source it has the unlabelled rows, and is told the classes


def test_without_any_source_the_classes_of_all_are_known():
    source = Domain("s", X, Y)
    stream = Domain("t", X[:20], np.array(list("uv") * 10))
    comparison = compare([source], stream, warmup=0.3, methods="homotlms", peers="none")
    for row in comparison.records:
        assert row["classes"] == ["u", "v", "w"]
    alone = OnlineTransferClassifier(
        "homotlms", random_state=0, classes=["u", "v", "w"]
    ).fit_domains([], stream.rows(np.arange(6)).unlabelled())
    told = alone.explain_then_learn(stream.X[6:], stream.y[6:])
    codes = np.searchsorted(told.classes, stream.y[6:])
    assert row_of(comparison, "homotlms", without="s")["log_loss"] == pytest.approx(
        log_loss(told.probabilities, codes)
    )


def test_rows_without_a_label_are_neither_learned_nor_counted(domains):
    source = domains["tilted"]
    stream = domains["shifted"]
    y = stream.y.astype(object)
    y[::3] = None
    gaps = Domain("gaps", stream.X, y)
    comparison = compare([(np.asarray(source.X), source.y)], gaps, methods="homotlms", peers="all")
    clf = OnlineTransferClassifier("homotlms", random_state=0).fit_domains(
        [Domain("source 1", source.X, source.y)]
    )
    wrong = (clf.predict_then_learn(stream.X, y) != stream.y)[y != None]  # noqa: E711 (elementwise)
    row = row_of(comparison, "homotlms")
    assert (row["mistakes"], row["n"]) == (wrong.sum(), len(wrong))
    assert any("no unlabelled rows" in note for note in comparison.notes)


# -- learners of other packages -----------------------------------------------------------------------------------


def test_peers_are_told_in_the_rows(domains):
    pytest.importorskip("river", reason="pip install river")
    comparison = compare(
        [domains["tilted"]], domains["shifted"], warmup=0.3, methods="pa", peers="all"
    )
    assert set(comparison.table["method"]) == {
        "pa",
        "sklearn-boosting",
        "sklearn-logistic",
        "river-arf",
    }
    for row in comparison.records:
        assert 0 < row["mistakes"] < row["n"]
        assert sum(row["bins"]["count"]) == row["n"]
    assert not any("not installed" in note for note in comparison.notes)


def test_a_peer_predicts_before_it_learns():
    """With labels that are noise nobody is right more often than chance, however the row is read."""
    rng = np.random.default_rng(0)
    source = (rng.normal(size=(60, 3)), rng.integers(0, 2, 60))
    stream = Domain("noise", rng.normal(size=(400, 3)), rng.integers(0, 2, 400))
    comparison = compare([source], stream, methods="pa", peers="all")
    for row in comparison.records:
        assert 0.4 < row["mistakes"] / row["n"] < 0.6, row["method"]


def test_missing_peers_are_named_with_the_remedy(monkeypatch, domains):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "river" else True)
    comparison = compare([domains["tilted"]], domains["shifted"], methods="pa", peers="all")
    assert any("river forest" in note and "pip install river" in note for note in comparison.notes)
    assert "river-arf" not in comparison.table["method"].tolist()


# -- tables as they are -------------------------------------------------------------------------------------------


def messy(n: int, seed: int, shift: float = 0.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    size = rng.normal(size=n) + shift
    colour = rng.choice(["red", "blue", "green"], n)
    kind = np.where((size - shift > 0) ^ (colour == "red"), "mug", "pan")
    price = np.where(rng.random(n) < 0.2, np.nan, 10 + 3 * (kind == "mug") + rng.normal(size=n))
    sold = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.permutation(n), unit="D")
    return pd.DataFrame(
        {"size": size, "colour": colour, "price": price, "sold": sold, "kind": kind}
    )


@pytest.fixture(scope="module")
def frames():
    return {
        "a": messy(80, 1),
        "b": messy(80, 2, 0.5).drop(columns="price"),
        "stream": messy(120, 3, 1.0),
    }


@pytest.mark.parametrize("method", ["homotlms", "hedgerow-linear"])
def test_rows_of_tables_are_those_of_the_estimator(frames, method):
    sources = {"a": frames["a"], "b": frames["b"]}
    comparison = compare(
        sources, frames["stream"], label="kind", warmup=0.25, methods=method, peers="none"
    )
    domains = [
        Domain(name, frames[name].drop(columns="kind"), frames[name]["kind"]) for name in ("a", "b")
    ]
    X = frames["stream"].drop(columns="kind")
    y = frames["stream"]["kind"].to_numpy()
    for given, without in ((domains, ""), (domains[1:], "a")):
        clf = OnlineTransferClassifier(method, random_state=0).fit_domains(
            given, Domain("u", X[:30])
        )
        wrong = clf.predict_then_learn(X[30:], y[30:]) != y[30:]
        assert unpacked(row_of(comparison, method, without)).tolist() == wrong.tolist()
    assert any("not in b: price" in text for text in comparison.findings)


def test_files_of_every_kind_and_peers(frames, tmp_path):
    frames["a"].to_csv(tmp_path / "a.csv", index=False)
    frames["stream"].to_parquet(tmp_path / "stream.parquet")
    given = ([tmp_path / "a.csv"], tmp_path / "stream.parquet")
    comparison = compare(*given, label="kind", order_by="sold", methods="pa", peers="all")
    assert set(comparison.table["method"]) >= {"pa", "sklearn-boosting", "sklearn-logistic"}
    assert (comparison.table["mistakes"] < 45).all()
    task = task_of(*given, label="kind", order_by="sold")
    assert "sold" not in task.stream.feature_names
    assert task.stream.y.tolist() == frames["stream"].sort_values("sold")["kind"].tolist()


def test_a_stream_that_alone_has_gaps(frames):
    source = frames["a"][["size", "kind"]]
    stream = frames["stream"][["size", "price", "kind"]]
    comparison = compare(
        [source], stream, label="kind", methods="hedgerow-linear", peers="none", warmup=0.2
    )
    assert 0 < comparison.records[0]["mistakes"] < 60


# -- measures and tests against what others compute ---------------------------------------------------------------


def predictions(n: int = 300, K: int = 4) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(K), size=n)
    return p, np.array([rng.choice(K, p=row) for row in p])


def test_log_loss_and_brier_are_those_of_scikit_learn():
    p, codes = predictions()
    assert log_loss(p, codes) == pytest.approx(reference_log_loss(codes, p, labels=range(4)))
    assert brier(p, codes) == pytest.approx(
        brier_score_loss(np.eye(4)[codes], p, scale_by_half=False)
    )


def test_probabilities_that_are_true_have_a_small_error_and_doubled_confidence_a_large_one():
    p, codes = predictions(20_000)
    assert calibration_error(reliability(p, codes)) < 0.015
    sharper = p**3 / (p**3).sum(axis=1, keepdims=True)
    assert calibration_error(reliability(sharper, codes)) > 0.1


def test_bins_of_several_orders_are_bins_of_all_their_predictions(comparison):
    p, codes = predictions()
    parts = [reliability(p[s], codes[s]) for s in (slice(0, 70), slice(70, None))]
    rows = [{**row_of(comparison, "pa"), "trial": i, "bins": bins} for i, bins in enumerate(parts)]
    whole = reliability(p, codes)
    pooled = Comparison(rows).bins("pa")
    assert pooled["count"].tolist() == whole["count"]
    assert calibration_error(pooled) == pytest.approx(calibration_error(whole))


def test_mcnemar_counts_out_the_binomial():
    rng = np.random.default_rng(2)
    a = rng.random(80) < 0.3
    b = rng.random(80) < 0.5
    lesser = min((a & ~b).sum(), (b & ~a).sum())
    m = (a != b).sum()
    exact = min(1.0, 2 * sum(comb(int(m), k) for k in range(lesser + 1)) / 2 ** int(m))
    test = mcnemar(a, b)
    assert test.p == pytest.approx(exact)
    assert test.difference == pytest.approx(100 * (a.mean() - b.mean()))
    assert mcnemar(a, a).p == 1.0
    [one] = against({"a": a, "b": b}, "a", mcnemar)
    assert one.adjusted == test.p


# -- what is said about the rows ----------------------------------------------------------------------------------


def test_what_python_gets(comparison):
    from matplotlib.figure import Figure

    assert (
        repr(comparison)
        == "Comparison of pa, homotlms, hedgerow-linear on shifted: 125 instances, 1 order"
    )
    assert isinstance(comparison.rows, pd.DataFrame)
    assert len(comparison.rows) == 7
    assert set(FIGURES) <= set(comparison.plots)
    assert all(isinstance(figure, Figure) for figure in comparison.plots.values())
    html = comparison._repr_html_()
    assert html.startswith(f"<p>{escape(comparison.verdict)}</p>")
    assert "<table" in html
    assert "data:image/svg+xml" in html


def test_the_verdict_says_what_the_rows_say(comparison):
    table = comparison.table
    best = table.iloc[0]
    assert table["mistakes"].is_monotonic_increasing
    title = {row["method"]: row["title"] for row in comparison.records}[best["method"]]
    start = f"{title} makes the fewest mistakes: {best['mistakes']:.1f} % of {best['n']} instances of shifted."
    assert comparison.verdict.startswith(start)
    behind = table["mistakes"][1] - best["mistakes"]
    assert f"follows, {behind:.1f} points behind" in comparison.verdict
    counts = {
        name: row_of(comparison, best["method"], name)["mistakes"] for name in ("tilted", "faded")
    }
    most = max(counts, key=counts.__getitem__)
    assert f"Without the source {most} the leader would make" in comparison.verdict
    assert comparison.verdict.endswith("The stream was kept in its order in time.")


def test_sources_that_change_nothing_are_said_in_one_sentence(comparison):
    leader = comparison.table.iloc[0]["method"]
    made = {
        row["trial"]: row
        for row in comparison.records
        if row["method"] == leader and row["group"] == "compare"
    }
    equal = [
        {**row, **{key: made[row["trial"]][key] for key in ("mistakes", "n")}}
        if row["method"] == leader and row["group"] == "without"
        else row
        for row in comparison.records
    ]
    assert "Dropping either source changes nothing." in Comparison(equal).verdict
    assert "Without the source" not in Comparison(equal).verdict


def test_a_lead_that_is_luck_is_called_so(comparison):
    """Two methods with the same mistakes cannot be told apart, whatever their names."""
    first = next(row for row in comparison.records if row["group"] == "compare")
    twins = [{**first, "method": name, "title": name} for name in ("one", "two")]
    assert "(p = 1.00): not enough to tell the two apart." in Comparison(twins).verdict


def test_orders_are_tested_where_they_are_enough_and_instances_where_not(comparison):
    """Two methods, one always better: with six orders Wilcoxon's p is 2/64, with five nothing could be significant."""
    first = row_of(comparison, "pa")

    def verdict(orders: int) -> str:
        rows = [
            {
                **first,
                "method": name,
                "title": name,
                "trial": i,
                "mistakes": first["mistakes"] + more + i % 3,
            }
            for name, more in (("better", 0), ("worse", 5))
            for i in range(orders)
        ]
        return Comparison(rows).verdict

    assert "worse follows, 4.0 points behind (p = 0.03)." in verdict(6)
    assert "(p = 1.00 on the instances of the first order): not enough" in verdict(
        5
    )  # `wrong` is the same in all


def test_every_figure_shows_its_curves(comparison):
    """All that is drawn lies within the axes, and mistakes start at zero."""
    for name in ("running-mistakes", "windowed-mistakes"):
        [axes] = comparison.plots[name].axes
        low, high = axes.get_ylim()
        drawn = np.concatenate([line.get_ydata() for line in axes.lines])
        assert low == 0
        assert drawn.max() <= high <= max(1.5 * drawn.max(), 1)
        assert len(axes.lines) == 3


def test_a_stream_with_too_few_labels_for_windows_has_a_report_without_them(tmp_path):
    """Thirty instances, the first without its label: there is a checkpoint before which nothing could be wrong."""
    y = Y.astype(object)
    y[0] = None
    comparison = compare([(X, Y)], (X, y), methods="pa,homotlms", peers="none")
    assert comparison.table["last_tenth"].isna().all()
    assert "windowed-mistakes" not in comparison.plots
    text = comparison.save(tmp_path / "out").read_text(encoding="utf-8")
    assert "<td>–</td>" in text
    assert "running-mistakes" in comparison.plots


# -- the folder ---------------------------------------------------------------------------------------------------


def without_times(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept = [{k: v for k, v in row.items() if k not in TIMES} for row in rows]
    return sorted(kept, key=lambda row: [str(row[name]) for name in KEY])


def rows_in(folder: Path) -> list[dict[str, Any]]:
    return without_times(read(folder)[0])


def test_a_run_that_was_resumed_is_the_whole_run(comparison, domains, tmp_path):
    given = ([domains["tilted"], domains["faded"]], domains["shifted"])
    units = plan(
        Folder(tmp_path, jobs=1),
        [task_of(*given, warmup=0.3)],
        "pa,homotlms,hedgerow-linear",
        1,
        "none",
    )
    runner.run(units[:3], Folder(tmp_path, jobs=1))
    assert len(rows_in(tmp_path)) == 3
    messages: list[str] = []
    folder = Folder(tmp_path, resume=True, jobs=1, say=messages.append)
    page = run(
        folder, [task_of(*given, warmup=0.3)], methods="pa,homotlms,hedgerow-linear", peers="none"
    )
    assert "4 runs done, 3 were there already; writing the report" in messages
    assert alike(rows_in(tmp_path), without_times(comparison.records))
    assert escape(comparison.verdict) in page.read_text(encoding="utf-8")


def test_results_of_other_data_are_not_mixed(comparison, domains, tmp_path):
    for row in comparison.records:
        append(tmp_path, row)
    before = (tmp_path / FILE).read_bytes()
    other = task_of([domains["faded"]], domains["shifted"], warmup=0.3)
    same = task_of([domains["tilted"], domains["faded"]], domains["shifted"], warmup=0.3)
    again = Folder(tmp_path, resume=True, jobs=1)
    with pytest.raises(
        InputError, match=r"results of comparison \w+, not \w+: they would be mixed"
    ):
        plan(again, [other], "pa", 1, "none")
    with pytest.raises(
        InputError, match="results of shuffled False, not True: they would be mixed"
    ):
        plan(again, [same], "pa", 2, "none")
    with pytest.raises(InputError, match="--resume"):
        plan(Folder(tmp_path, jobs=1), [same], "pa", 1, "none")
    assert (tmp_path / FILE).read_bytes() == before
    assert plan(again, [same], "pa", 1, "none")


def test_a_saved_comparison_is_a_folder_of_the_command(comparison, domains, tmp_path):
    saved = comparison.save(tmp_path / "out")
    text = saved.read_text(encoding="utf-8")
    assert {path.stem for path in (saved.parent / "figures").glob("*.png")} == set(comparison.plots)
    assert (saved.parent / "tables" / "methods.csv").read_text(encoding="utf-8").count("\n") == 4
    assert re.search(r"<p[^>]*>(.*?)</p>", text, flags=re.S)[1] == escape(comparison.verdict)
    assert re.findall(r"<h2>([^<]*)</h2>", text)[-1] == "What was run"
    tilted, faded, shifted = (len(domains[name]) for name in ("tilted", "faded", "shifted"))
    assert f"<td>tilted ({tilted} rows), faded ({faded} rows)</td>" in text
    assert f"<td>shifted ({shifted - 125} rows)</td>" in text
    assert "<td>shifted (125 rows, 125 labelled)</td>" in text
    again = report(saved.parent).read_text(encoding="utf-8")
    assert re.search(r"<p[^>]*>(.*?)</p>", again, flags=re.S)[1] == escape(comparison.verdict)
    read_again = comparison_in(saved.parent)
    assert read_again.verdict == comparison.verdict
    assert [table.name for table in read_again.tables] == ["methods", "classes", "sources"]
    with pytest.raises(InputError, match="holds results already"):
        comparison.save(saved.parent)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"methods": "odm"}, r"did you mean 'oddm'\?"),
        ({"methods": ","}, "names no method"),
        ({"label": "digits"}, r"did you mean 'digit'\?"),
        ({"warmup": 1.5}, "warmup=1.5"),
        ({"unlabelled": Path("tilted.csv")}, "give one of them"),
        ({"order_by": "when"}, "unknown time column of the stream 'when'"),
        ({"stream": Path("nowhere.csv")}, "nowhere.csv"),
        ({"orders": 0}, "orders=0"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_written(
    files, tmp_path, monkeypatch, change, words
):
    monkeypatch.chdir(files)
    folder = Folder(tmp_path / "out", jobs=1, say=pytest.fail)
    given = {
        "sources": [Path("tilted.csv")],
        "stream": Path("shifted.csv"),
        "label": "digit",
        "warmup": 0.3,
    }
    given |= {name: value for name, value in change.items() if name not in ("methods", "orders")}
    options = {
        "methods": "pa",
        **{name: value for name, value in change.items() if name in ("methods", "orders")},
    }
    with pytest.raises(HedgerowError, match=words):
        run(folder, [task_of(**given)], peers="none", **options)
    assert not (tmp_path / "out").exists()
