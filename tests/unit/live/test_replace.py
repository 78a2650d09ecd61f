"""Another model in the place of a live one; rows as they came; counts that compare."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.live_models import assert_same_model, make_model, make_rows, reopened

from hedgerow import Domain, OnlineTransferClassifier
from hedgerow.cli.journals import inspected
from hedgerow.core.domains import Frame
from hedgerow.core.errors import InputError
from hedgerow.live import LiveModel, Replaced, Settings
from hedgerow.live.engine import Encoded
from hedgerow.live.look import look

X, Y = make_rows(7, 200, shift=1.0)


# -- replace -----------------------------------------------------------------------------------------------------------


def test_another_model_goes_on_with_the_events(live, tmp_path):
    live.predict_then_learn(X[:30], Y[:30])
    first = live.predict(X[30], ids="before")
    before = live.stats()
    other = make_model("hedgerow-linear")
    about = live.replace(other, reason="better", expected=before["model"]["digest"])
    assert (about["reason"], about["replaced"]) == ("better", 1)
    stats = live.stats()
    assert (stats["method"], stats["labels"], stats["events"]) == ("hedgerow-linear", 30, 31)
    assert (stats["compared"], set(stats["expert_mistakes"].values())) == (
        {"labels": 0, "mistakes": 0},
        {0},
    )
    again = live.predict(X[30], ids="before")  # what was answered stays what it was
    assert (again.repeated, again.label, again.probabilities) == (
        True,
        first.label,
        first.probabilities,
    )
    assert live.label("before", int(Y[30])).status == "learned"
    live.predict_then_learn(X[31:60], Y[31:60])
    other.learn_one(X[30], int(Y[30]))
    other.predict_then_learn(X[31:60], Y[31:60])
    assert_same_model(live.clf, other)
    with reopened(live, tmp_path / "again") as recovered:
        assert_same_model(recovered.clf, live.clf)
        assert recovered.stats()["model"] == live.stats()["model"]
    (live.folder / "snapshots" / f"{live._snapshots.newest_number:015d}.safetensors").write_bytes(
        b"damaged"
    )
    with reopened(live, tmp_path / "older") as recovered:  # through the step of the replacement
        assert_same_model(recovered.clf, live.clf)


def test_there_is_a_way_back(live, tmp_path):
    with pytest.raises(InputError, match="never replaced"):
        live.replace_back()
    live.predict_then_learn(X[:30], Y[:30])
    old = OnlineTransferClassifier.from_bytes(live.to_bytes())
    live.replace(make_model("pa"))
    live.predict_then_learn(X[30:50], Y[30:50])
    live.replace_back()
    assert (live.clf.method, live.clf.seen_, live.stats()["labels"]) == ("oddm", 30, 50)
    assert_same_model(live.clf, old)
    with reopened(live, tmp_path / "again") as recovered:
        assert_same_model(recovered.clf, old)
        assert [model.method for model in recovered._journal.models()] == ["oddm", "pa", "oddm"]


def test_a_replacement_that_cannot_be_changes_nothing(live, tmp_path):
    live.predict(X[0], ids="waits")
    digest = live.stats()["model"]["digest"]
    with pytest.raises(Replaced, match="the model is"):
        live.replace(make_model("pa"), expected="0" * 64)
    rng = np.random.default_rng(0)
    wider = OnlineTransferClassifier("pa").partial_fit(rng.normal(size=(4, 9)), [0, 1, 2, 0])
    with pytest.raises(InputError, match=r"1 events wait for labels, .* other features"):
        live.replace(wider)
    (tmp_path / "none.safetensors").write_bytes(b"none")
    with pytest.raises(InputError, match=r"none\.safetensors"):
        live.replace(tmp_path / "none.safetensors")
    assert live.stats()["model"]["digest"] == digest
    assert live.label("waits", 1).status == "learned"
    live.replace(wider)  # nothing waits any more
    assert live.predict(np.zeros(9)).label in (0, 1, 2)


def test_classes_in_another_order_are_not_mixed_up(tmp_path):
    def model(names):
        return OnlineTransferClassifier("pa", classes=names).partial_fit(
            X[:60], np.array(["a", "b", "c"])[Y[:60]]
        )

    with LiveModel.create(tmp_path / "live", model(["a", "b", "c"])) as live:
        answers = live.predict(X[60:70], ids=[f"e{i}" for i in range(10)])
        live.replace(model(["c", "b", "a"]))
        assert (
            live.predict(X[60:70], ids=[f"e{i}" for i in range(10)])[3].probabilities
            == answers[3].probabilities
        )
        assert [event["prediction"] for event in reversed(live.latest(10))] == [
            a.label for a in answers
        ]
        results = live.label_many([(answer.id, answer.label) for answer in answers])
        assert all(result.correct for result in results)
        assert live.stats()["mistakes"] == 0
        with look(live.folder) as journal:
            assert [event.prediction for event in journal.events()] == [a.label for a in answers]


def test_a_model_file_that_changed_is_known(live, oddm, tmp_path):
    oddm.save(tmp_path / "model.safetensors")
    assert live.made_from(tmp_path / "model.safetensors")
    make_model("oddm", seed=5).save(tmp_path / "model.safetensors")
    assert not live.made_from(tmp_path / "model.safetensors")
    live.replace(tmp_path / "model.safetensors")
    assert live.made_from(tmp_path / "model.safetensors")


# -- rows as they came -------------------------------------------------------------------------------------------------

TABLE = [
    {
        "colour": ["red", "blue", "green"][i % 3],
        "size": float(i % 7) if i % 5 else None,
        "day": f"2024-01-{1 + i % 28:02d}",
    }
    for i in range(90)
]
KINDS = [("up" if row["colour"] == "red" else "down") for row in TABLE]


def table_model(method="hedgerow-linear"):
    source = Domain("a", Frame.of_rows(TABLE[:60]), np.array(KINDS[:60]))
    return OnlineTransferClassifier(method).fit_domains([source])


def test_rows_of_tables_are_kept_as_they_came(tmp_path):
    with LiveModel.create(
        tmp_path / "live", table_model(), Settings(keep_events=5, snapshot_every=10)
    ) as live:
        live.predict({**TABLE[60], "more": "kept too"}, ids="one")
        live.predict(TABLE[61:63])
        live.predict_then_learn(TABLE[63:66], KINDS[63:66])
        live.export(tmp_path / "events.jsonl")
        rows = [
            json.loads(line)["features"]
            for line in (tmp_path / "events.jsonl").read_text().splitlines()
        ]
        assert rows == [{**TABLE[60], "more": "kept too"}, *TABLE[61:66]]
        live.export(tmp_path / "events.parquet")
        parquet = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "events.parquet")
        assert parquet["feature.colour"].to_pylist() == [row["colour"] for row in rows]
        assert parquet["feature.size"].to_pylist() == [row["size"] for row in rows]
        for i in range(66, 86):  # they go as their events do
            live.predict_then_learn([TABLE[i]], [KINDS[i]])
            live._snapshots.wait()
        kept = live._journal.rows("SELECT count(*), count(raw) FROM event")[0]
        assert kept[0] == kept[1] == live.stats()["journal"]["events_kept"] < 26


def test_rows_that_were_encoded_before_are_kept_as_they_came_too(tmp_path):
    with LiveModel.create(tmp_path / "live", table_model()) as live:
        X = live.clf.table_.encode(Frame.of_rows(TABLE))
        live.predict(Encoded(X, TABLE).one(60))
        live.predict(Encoded(X[61:64], TABLE[61:64]))
        live.predict_then_learn(Encoded(X[64:66], [TABLE[64], X[65].tolist()]), KINDS[64:66])
        with look(live.folder) as journal:
            events = list(journal.events())
        assert [event.features for event in events[:5]] == TABLE[60:65]
        np.testing.assert_array_equal(np.stack([event.x for event in events]), X[60:66])


def test_what_waits_is_read_again_by_a_model_with_other_columns(tmp_path):
    without = [{name: value for name, value in row.items() if name != "day"} for row in TABLE]
    other = OnlineTransferClassifier("hedgerow-linear").fit_domains(
        [Domain("a", Frame.of_rows(without[:60]), np.array(KINDS[:60]))]
    )
    with LiveModel.create(tmp_path / "live", table_model()) as live:
        assert live.clf.n_features_in_ != other.n_features_in_
        live.predict_then_learn(TABLE[60:65], KINDS[60:65])
        live.predict(TABLE[65:70], ids=[f"e{i}" for i in range(5)])
        live.replace(other)
        assert {
            r.status for r in live.label_many([(f"e{i}", KINDS[65 + i]) for i in range(5)])
        } == {"learned"}
        with reopened(live, tmp_path / "again") as again:
            assert_same_model(again.clf, live.clf)
        with look(live.folder) as journal:
            assert [event.features for event in journal.events()] == TABLE[60:70]


def test_a_model_is_fitted_again_with_what_a_journal_has(tmp_path):
    from hedgerow.cli.fit_files import fit_files, parse_options

    lines = [
        json.dumps({**row, "y": kind}) for row, kind in zip(TABLE[:60], KINDS[:60], strict=True)
    ]
    (tmp_path / "source.jsonl").write_text("\n".join(lines) + "\n")
    with LiveModel.create(tmp_path / "live", table_model()) as live:
        live.predict_then_learn(TABLE[60:80], KINDS[60:80])
        live.predict(TABLE[80:])
    options = parse_options([], "hedgerow-linear")
    fitted = fit_files([tmp_path / "source.jsonl"], "y", None, options, tmp_path / "live")
    assert (fitted.clf.seen_, fitted.unlabelled and len(fitted.unlabelled)) == (20, 30)
    assert "20 labels of 30 rows" in fitted.notes[-1]
    with LiveModel.open(tmp_path / "live") as live:
        live.replace(fitted.clf, reason="fitted again")
        assert live.clf.seen_ == 20


def test_numbers_of_a_journal_are_fitted_on_by_name_and_encoded_rows_refused(tmp_path):
    names = ["a", "b", "c", "d", "e", "f"]
    clf = OnlineTransferClassifier("pa").fit_domains(
        [Domain("s", X[:60], Y[:60], feature_names=names)]
    )
    with LiveModel.create(tmp_path / "live", clf) as live:
        live.predict_then_learn(X[60:80], Y[60:80])
        with look(live.folder) as journal:
            rows = journal.domain()
    assert list(rows.feature_names) == names
    np.testing.assert_array_equal(rows.X, X[60:80])
    with LiveModel.create(tmp_path / "table", table_model()) as live:
        live.predict(live.clf.table_.encode(Frame.of_rows(TABLE[:5])))
        with (
            look(live.folder) as journal,
            pytest.raises(InputError, match="numbers of the model's encoder"),
        ):
            journal.domain()


# -- counts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["homotlms", "hedgerow-linear"])
def test_model_and_experts_are_counted_by_what_they_predicted(tmp_path, method):
    """All labels come after all predictions: nobody may profit from labels that it had not seen when it predicted."""
    clf = make_model(method)
    explained = clf.explain(X)
    wrong = (explained.votes != Y[:, None]).sum(axis=0).tolist()
    with LiveModel.create(tmp_path / "live", clf) as live:
        live.predict(X[:150], ids=[f"e{i}" for i in range(150)])
        for i in range(150, 200):
            live.predict(X[i], ids=f"e{i}")
        live.label_many([(f"e{i}", int(Y[i])) for i in range(180)])
        for i in range(180, 200):
            live.label(f"e{i}", int(Y[i]))
        stats = live.stats()
        assert list(stats["expert_mistakes"].values()) == wrong
        assert (
            stats["mistakes"] == stats["compared"]["mistakes"] == int((explained.codes != Y).sum())
        )
        with reopened(live, tmp_path / "again") as again:
            assert again.stats()["expert_mistakes"] == stats["expert_mistakes"]


def test_inspect_shows_the_present(tmp_path):
    with LiveModel.create(tmp_path / "live", make_model("homotlms")) as live:
        live.predict_then_learn(X[:30], Y[:30])
        live.predict_then_learn(X[30:43], Y[30:43])  # after the newest point of the curves
        shown = dict(inspected(live.folder))
        name, weight = max(live.clf.weights_.items(), key=lambda pair: pair[1])
        assert shown["most trusted"].startswith(f"{name} {weight:.0%}")
        assert all(f"{d:.3g}" in shown["discrepancy"] for d in live.stats()["discrepancy"].values())
