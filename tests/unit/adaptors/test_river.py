"""`hedgerow.river.TransferClassifier`: river's own checks, and what its users do with a classifier."""

from __future__ import annotations

import copy
import functools
import itertools

import numpy as np
import pandas as pd
import pytest
from support.laws import make_task

from hedgerow import Domain, InputError, OnlineTransferClassifier, OnlineTransferRegressor

pytest.importorskip("river", reason="pip install 'hedgerow[river]'")

from river import (
    base,
    checks,
    compose,
    datasets,
    drift,
    ensemble,
    evaluate,
    metrics,
    preprocessing,
    stats,
)

from hedgerow.river import TransferClassifier, TransferRegressor

NAMES = [f"f{i}" for i in range(6)]


def phishing(rows):
    return Domain("before", pd.DataFrame([x for x, _ in rows]), [y for _, y in rows])


class OfTwoClasses(TransferClassifier):
    """Says that it is binary, so that the checks give it streams of its source's kind alone."""

    _multiclass = False


KINDS = {  # what the checks are run on: from nothing, and from a source
    "default": (TransferClassifier, {}),
    "oddm": (TransferClassifier, {"method": "oddm"}),
    "homotlms": (TransferClassifier, {"method": "homotlms"}),
    "from a source": (OfTwoClasses, {}),
}
CHECKS = [
    pytest.param(name, i, check.__name__, id=f"{name}: {check.__name__} {i}")
    for name, (kind, _) in KINDS.items()
    for i, check in enumerate(checks.yield_checks(kind()))
]


@functools.cache
def model_of(name):
    kind, options = KINDS[name]
    return kind(
        [phishing(list(datasets.Phishing().take(200)))] if "source" in name else (), **options
    )


@pytest.mark.parametrize(("name", "i", "check"), CHECKS)
def test_rivers_checks(name, i, check):
    model = model_of(name)
    found = list(checks.yield_checks(model))[i]
    assert found.__name__ == check
    found(model.clone())


@pytest.mark.parametrize("name", KINDS)
def test_no_check_of_river_is_left_out(name):
    model = model_of(name)
    assert (
        sum(check.values[0] == name for check in CHECKS)
        == len(list(checks.yield_checks(model)))
        > 45
    )
    assert not model._unit_test_skips()
    assert isinstance(model, base.MiniBatchClassifier)


# -- a task with sources ------------------------------------------------------------------------------------------


def task(seed=0, stream=120, **options):
    """Named sources and warm-up, the stream as dicts and as a table."""
    made = make_task(seed, stream=stream, **options)
    sources = [Domain(d.name, pd.DataFrame(d.X, columns=NAMES), d.y) for d in made.sources]
    warmup = Domain("t", pd.DataFrame(made.warmup.X, columns=NAMES))
    frame = pd.DataFrame(made.X, columns=NAMES)
    return (
        sources,
        warmup,
        list(zip(frame.to_dict("records"), made.y, strict=True)),
        frame,
        pd.Series(made.y),
    )


def walked(model, rows):
    found = []
    for x, y in rows:
        found.append(model.predict_proba_one(x))
        model.learn_one(x, y)
    return found


@pytest.mark.parametrize("method", ["hedgerow", "oddm", "homotl-1"])
def test_it_is_the_classifier(method):
    sources, warmup, rows, frame, y = task()
    clf = OnlineTransferClassifier(method).fit_domains(sources, warmup)
    expected = clf.predict_then_learn(frame.to_numpy(), y)
    model = TransferClassifier(sources, warmup, method=method)
    assert [max(p, key=p.get) for p in walked(model, rows)] == expected.tolist()
    np.testing.assert_allclose(model.classifier.weights_, clf.weights_)


def test_a_clone_has_the_sources_and_none_of_the_stream():
    sources, warmup, rows, *_ = task()
    model = TransferClassifier(sources, warmup)
    first = walked(model, rows)
    twin = model.clone()
    assert twin.sources is sources
    assert twin.classifier.seen_ == 0
    assert model.classifier.seen_ == len(rows)
    assert walked(twin, rows) == first
    assert twin.classifier.constants_.digest == model.classifier.constants_.digest
    assert twin.clone({"method": "oddm"}).classifier.method == "oddm"
    whole = model.clone(include_attributes=True)
    assert whole.classifier.seen_ == len(rows)
    whole.learn_one(*rows[0])
    assert model.classifier.seen_ == len(rows)


def test_a_clone_within_a_pipeline_is_not_fitted_again(monkeypatch):
    sources, warmup, rows, *_ = task()
    pipeline = preprocessing.StandardScaler() | TransferClassifier(sources, warmup)
    monkeypatch.setattr(OnlineTransferClassifier, "fit_domains", None)
    walked(pipeline, rows[:5])
    assert pipeline.clone()["TransferClassifier"].classifier.seen_ == 0


@pytest.mark.parametrize("start", ["sources", "nothing"])
def test_learn_many_is_learn_one_row_by_row(start):
    sources, warmup, _rows, frame, y = task(new_classes=2)
    holes = frame.mask(np.random.default_rng(1).random(frame.shape) < 0.2)
    given = (sources, warmup) if start == "sources" else ()
    one, many = (TransferClassifier(*given, method="homotlms") for _ in range(2))
    for x, label in zip(holes.to_dict("records"), y, strict=True):
        one.learn_one(x, label)
    for part in np.array_split(np.arange(len(y)), 7):
        many.learn_many(holes.iloc[part], y.iloc[part])
    assert one.classifier.classes_.tolist() == many.classifier.classes_.tolist()
    assert one.classifier.mistakes_ == many.classifier.mistakes_
    for x in holes.to_dict("records"):
        assert one.predict_proba_one(x) == pytest.approx(many.predict_proba_one(x))
    table = many.predict_proba_many(holes)
    assert table.iloc[3].to_dict() == pytest.approx(many.predict_proba_one(holes.iloc[3].to_dict()))
    assert many.predict_many(holes).tolist() == [
        many.predict_one(x) for x in holes.to_dict("records")
    ]


def test_weights_of_labels():
    _, _, rows, frame, y = task()
    w = np.random.default_rng(0).choice([0.5, 1.0, 2.0], len(y))
    one, many = (TransferClassifier(method="hedgerow-linear") for _ in range(2))
    for (x, label), weight in zip(rows, w, strict=True):
        one.learn_one(x, label, w=weight)
    many.learn_many(frame, y, w=w)
    plain = TransferClassifier(method="hedgerow-linear")
    plain.learn_many(frame, y)
    assert one.predict_proba_one(rows[0][0]) == pytest.approx(many.predict_proba_one(rows[0][0]))
    assert one.predict_proba_one(rows[0][0]) != pytest.approx(plain.predict_proba_one(rows[0][0]))


def test_before_any_label():
    _, _, _, frame, _ = task()
    model = TransferClassifier()
    assert model.predict_proba_one({"a": 1.0}) == {}
    assert model.predict_one({"a": 1.0}) is None
    assert model.predict_proba_many(frame).shape == (len(frame), 0)
    assert model.predict_many(frame).tolist() == [None] * len(frame)


# -- keys ---------------------------------------------------------------------------------------------------------


def test_a_missing_key_is_zero_or_refused():
    sources, warmup, rows, *_ = task()
    x = dict(rows[0][0])
    del x["f2"]
    zero, refuse = (TransferClassifier(sources, warmup, missing=m) for m in ("zero", "refuse"))
    assert zero.predict_proba_one(x) == zero.predict_proba_one(x | {"f2": 0.0})
    assert zero.predict_proba_one(x | {"f2": None}) == zero.predict_proba_one(
        x | {"f2": float("nan")}
    )
    for call in (lambda: refuse.predict_one(x), lambda: refuse.learn_one(x, "c0")):
        with pytest.raises(InputError, match=r"missing \['f2'\].*missing='zero'"):
            call()
    assert refuse.classifier.seen_ == 0


def test_river_fills_a_missing_key_with_its_mean():
    sources, warmup, rows, *_ = task()
    filled = preprocessing.StatImputer(*((name, stats.Mean()) for name in NAMES))
    model = filled | TransferClassifier(sources, warmup)
    for x, y in rows[:9]:
        model.learn_one(x, y)
    x = dict(rows[9][0]) | {"f2": None}
    average = np.mean([row["f2"] for row, _ in rows[:9]])
    assert model.predict_proba_one(x) == pytest.approx(model.predict_proba_one(x | {"f2": average}))


def test_a_new_key_is_ignored_or_refused():
    sources, warmup, rows, *_ = task()
    x, y = rows[0]
    ignore, refuse = (
        TransferClassifier(sources, warmup, new=policy) for policy in ("ignore", "refuse")
    )
    assert ignore.predict_proba_one(x | {"extra": 3.0}) == ignore.predict_proba_one(x)
    with pytest.raises(InputError, match=r"unexpected \['extra'\].*new='ignore'"):
        refuse.learn_one(x | {"extra": 3.0}, y)
    with pytest.raises(InputError, match=r"unexpected \['extra'\]"):
        refuse.learn_many(pd.DataFrame([x | {"extra": 3.0}]), pd.Series([y]))
    assert refuse.classifier.seen_ == 0


def test_a_row_of_another_table_is_refused():
    sources, warmup, rows, *_ = task()
    model = TransferClassifier(sources, warmup)
    strange = dict(enumerate(rows[0][0].values()))
    with pytest.raises(InputError, match=r"no key is the sources': \['0', .*theirs are \['f0', "):
        model.predict_one(strange)
    with pytest.raises(InputError, match="no key is the sources'"):
        model.learn_many(pd.DataFrame([strange]), pd.Series(["c0"]))
    assert model.predict_one({}) == model.predict_one(dict.fromkeys(NAMES, 0.0))


def test_keys_in_advance():
    model = TransferClassifier(keys=["a", "b"], method="pa")
    model.learn_one({"a": 1.0}, "up")
    model.learn_one({"b": 1.0}, "down")
    assert model.predict_one({"a": 1.0}) == "up"
    assert model.predict_one({"b": 1.0}) == "down"


def test_sources_without_names_are_keyed_by_position():
    made = make_task(0)
    model = TransferClassifier(made.sources, made.warmup)
    clf = OnlineTransferClassifier().fit_domains(made.sources, made.warmup)
    assert model.predict_proba_one(dict(enumerate(made.X[0]))) == clf.predict_proba_one(made.X[0])


def test_what_cannot_be_used_is_refused_and_changes_nothing():
    sources, warmup, _rows, *_ = task()
    for options, message in (
        ({"missing": "maybe"}, "missing='maybe': use one of zero, refuse"),
        ({"new": 1}, "new=1: use one of ignore, refuse"),
        ({"keys": ["a"]}, "leave keys out"),
        ({"method": "od"}, "did you mean"),
    ):
        with pytest.raises(InputError, match=message):
            TransferClassifier(sources, warmup, **options)
    with pytest.raises(InputError, match="a fitted model has its own"):
        TransferClassifier(OnlineTransferClassifier().fit_domains(sources), warmup)
    with pytest.raises(InputError, match=r"no keys.*in advance"):
        TransferClassifier().learn_one({}, "a")
    model = TransferClassifier()
    with pytest.raises(InputError, match="'red' at key 'colour' is not a number"):
        model.learn_one({"size": 1.0, "colour": "red"}, "a")
    with pytest.raises(InputError, match=r"\[1.0, 2.0\] at key 'size' is not a number"):
        model.learn_one({"size": [1.0, 2.0], "weight": 1.0}, "a")
    with pytest.raises(InputError, match="inf"):
        model.learn_one({"size": float("inf")}, "a")
    model.learn_one({"size": 1.0}, "a")  # the refused row has not fixed the keys
    with pytest.raises(InputError, match="not numbers"):
        model.learn_many(pd.DataFrame({"size": ["big"]}), pd.Series(["a"]))
    with pytest.raises(InputError, match="weight"):
        model.learn_one({"size": 5.0}, "a", w=-1.0)
    assert model.classifier.seen_ == 1


# -- in river's hands -----------------------------------------------------------------------------------------------


def test_a_model_from_a_file_goes_on_in_river(tmp_path):
    sources, warmup, rows, frame, y = task()
    clf = OnlineTransferClassifier().fit_domains(sources, warmup)
    clf.save(tmp_path / "m.safetensors")
    model = TransferClassifier(OnlineTransferClassifier.load(tmp_path / "m.safetensors"))
    expected = clf.predict_then_learn(frame.to_numpy(), y)
    assert [max(p, key=p.get) for p in walked(model, rows)] == expected.tolist()
    assert model.clone().classifier.seen_ == 0
    model.classifier.save(tmp_path / "later.safetensors")
    assert OnlineTransferClassifier.load(tmp_path / "later.safetensors").seen_ == len(rows)


def test_a_model_without_sources_keeps_its_keys_in_its_file(tmp_path):
    _, _, rows, frame, y = task()
    model = TransferClassifier(method="homotlms")
    batches = TransferClassifier(method="homotlms")
    walked(model, rows)
    batches.learn_many(frame, y)
    for each in (model, batches):
        each.classifier.save(tmp_path / "m.safetensors")
        again = TransferClassifier(OnlineTransferClassifier.load(tmp_path / "m.safetensors"))
        shuffled = dict(reversed(rows[0][0].items()))
        assert again.predict_proba_one(shuffled) == pytest.approx(
            model.predict_proba_one(rows[0][0])
        )
        assert again.predict_many(frame).tolist() == model.predict_many(frame).tolist()


@pytest.mark.parametrize("delay", [None, 20])
def test_progressive_validation(delay):
    sources, warmup, rows, _frame, _y = task()
    model = TransferClassifier(sources, warmup)
    stream = [(x | {"t": t}, label) for t, (x, label) in enumerate(rows)]
    accuracy = evaluate.progressive_val_score(
        stream, model, metrics.Accuracy(), moment="t" if delay else None, delay=delay
    )
    clf = OnlineTransferClassifier().fit_domains(sources, warmup)
    right = 0
    for t, (x, label) in enumerate(rows):
        if delay and t >= delay:
            clf.learn_one(*rows[t - delay])
        right += clf.predict_one(x) == label
        if not delay:
            clf.learn_one(x, label)
    assert accuracy.get() == right / len(rows)
    assert right / len(rows) > 0.7


def test_in_a_pipeline_by_rows_and_by_batches():
    sources, _warmup, rows, frame, y = task()
    made = compose.Select(*NAMES[:4]) | TransferClassifier(
        [Domain(d.name, pd.DataFrame(d.X[:, :4], columns=NAMES[:4]), d.y) for d in sources]
    )
    batches = made.clone()
    walked(made, rows)
    for part in np.array_split(np.arange(len(y)), 4):
        batches.learn_many(frame.iloc[part], y.iloc[part])
    assert made.predict_proba_one(rows[0][0]) == pytest.approx(
        batches.predict_proba_one(rows[0][0])
    )


def test_in_a_bag():
    sources, warmup, rows, *_ = task()
    bag = ensemble.ADWINBaggingClassifier(
        TransferClassifier(sources, warmup, method="homotlms"), n_models=3, seed=1
    )
    score = evaluate.progressive_val_score(rows, bag, metrics.Accuracy()).get()
    assert score > 0.7
    assert len({id(m.classifier) for m in bag.models}) == 3
    assert all(m.classifier.source_names_ == ["s0", "s1"] for m in bag.models)


class EveryFifty(base.BinaryDriftDetector):
    """Calls drift at every fiftieth row, whatever it sees."""

    def __init__(self):
        super().__init__()
        self.n = 0

    def update(self, x):
        self.n += 1
        self._drift_detected = self.n % 50 == 0


def test_drift_retraining_goes_back_to_the_sources():
    sources, warmup, rows, *_ = task()
    model = drift.DriftRetrainingClassifier(
        TransferClassifier(sources, warmup), drift_detector=EveryFifty(), train_in_background=False
    )
    score = evaluate.progressive_val_score(rows, model, metrics.Accuracy()).get()
    assert score > 0.7
    assert (
        model.model.classifier.seen_ == len(rows) - 99
    )  # the hundredth row was the first of the model as it is
    assert model.model.classifier.source_names_ == ["s0", "s1"]


def test_a_deep_copy_is_independent():
    sources, warmup, rows, *_ = task()
    model = TransferClassifier(sources, warmup)
    twin = copy.deepcopy(model)
    walked(model, itertools.islice(rows, 20))
    assert (model.classifier.seen_, twin.classifier.seen_) == (20, 0)


# -- numbers ------------------------------------------------------------------------------------------------------


@functools.cache
def regressor_of(name):
    rows = list(datasets.TrumpApproval().take(100))
    return TransferRegressor([phishing(rows)] if name == "from a source" else ())


@pytest.mark.parametrize("name", ["from nothing", "from a source"])
def test_rivers_checks_of_a_regressor(name):
    model = regressor_of(name)
    found = list(checks.yield_checks(model))
    assert len(found) > 20
    assert not model._unit_test_skips()
    assert isinstance(model, base.MiniBatchRegressor)
    for check in found:
        check(model.clone())


def test_it_is_the_regressor():
    rows = list(datasets.TrumpApproval().take(300))
    source = phishing(rows[:150])
    frame = pd.DataFrame([x for x, _ in rows[150:]])
    y = pd.Series([y for _, y in rows[150:]])
    reg = OnlineTransferRegressor(coverage=(0.9, 0.5)).fit_domains([source])
    model, block = (TransferRegressor([source], coverage=(0.9, 0.5)) for _ in range(2))
    predictions = []
    for x, value in rows[150:]:
        predictions.append(model.predict_one(x))
        model.learn_one(x, value)
    np.testing.assert_allclose(predictions, reg.predict_then_learn(frame, y))
    block.learn_many(frame, y)
    np.testing.assert_allclose(block.predict_many(frame), reg.predict(frame))
    np.testing.assert_allclose(
        model.predict_interval_one(rows[0][0], 0.5), reg.predict_interval_one(rows[0][0], 0.5)
    )
    assert model.regressor.weights_.keys() == reg.weights_.keys()
    assert model.clone().regressor.seen_ == 0
    assert TransferRegressor(reg).predict_one(rows[0][0]) == pytest.approx(
        reg.predict_one(rows[0][0])
    )
    with pytest.raises(InputError, match="OnlineTransferRegressor"):
        TransferClassifier(reg)


@pytest.mark.parametrize(
    ("kind", "plain"),
    [(TransferClassifier, OnlineTransferClassifier), (TransferRegressor, OnlineTransferRegressor)],
)
def test_rows_of_a_table_are_read_by_the_encoder_of_the_model(kind, plain):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "city": rng.choice(["Oslo", "Rome", "Bern"], 160),
            "when": pd.date_range("2024-01-01", periods=160, freq="7h").astype(str),
            "size": np.where(rng.random(160) < 0.1, np.nan, rng.normal(size=160)),
        }
    )
    y = (frame["city"] == "Oslo") * 4.0 + frame["size"].fillna(0)
    y = pd.Series(np.where(y > 1, "a", "b")) if plain is OnlineTransferClassifier else y
    source = Domain("before", frame[:100], y[:100])
    stream = frame[100:].reset_index(drop=True)
    labels = list(y[100:])
    expected = plain().fit_domains([source])
    made = kind([source])
    given = kind(plain().fit_domains([source]))
    many = made.clone()
    for x, label in zip(stream.to_dict("records"), labels, strict=True):
        assert made.predict_one(x) == given.predict_one(x) == expected.predict_one(x)
        for model in (made, given, expected):
            model.learn_one(x, label)
    many.learn_many(stream, pd.Series(labels))
    assert list(many.predict_many(stream)) == pytest.approx(list(expected.predict(stream)))
    assert made.predict_one({"city": "Paris"}) == expected.predict_one({"city": "Paris"})
