"""Heads, mixers and aligners from outside: used as they are, by name or as objects, saved and loaded like ours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.base import clone
from support.laws import assert_close_state, assert_same_state, make_task, one_by_one

from hedgerow import OnlineTransferClassifier, PaperOptions, register_aligner
from hedgerow.align import ALIGNERS, Aligner, Alignment, Info, Projection
from hedgerow.core.errors import InputError
from hedgerow.heads import HEADS, PassiveAggressive, StepwiseHead, register_head
from hedgerow.methods import Recipe
from hedgerow.mix import MIXERS, Hedge, register_mixer
from hedgerow.testing import check_aligner, check_head, check_method, check_mixer

STEPS = []


@dataclass(frozen=True)
class Gentle(PassiveAggressive):
    """Passive-aggressive with half of its step: nothing of the compiled rule is left."""

    share: float = 0.5

    def block(self, W, Z, y, weight=None):
        F = np.empty((len(Z), len(W)), dtype=W.dtype)
        for t in range(len(Z)):
            before = W.copy()
            F[t] = PassiveAggressive.block(
                self, W, Z[t : t + 1], y[t : t + 1], None if weight is None else weight[t : t + 1]
            )[0]
            W[:] = before + self.share * (W - before)
            STEPS.append("block")
        return F

    def averaged(self, W, Z, y, weight=None):
        total = np.zeros_like(W)
        for t in range(len(Z)):
            self.block(W, Z[t : t + 1], y[t : t + 1], None if weight is None else weight[t : t + 1])
            total += W
        return total / len(Z)


@dataclass(frozen=True)
class Centroid(StepwiseHead):
    """Adds a row to its class."""

    rate: float = 0.1

    def step(self, W, z, y, f):
        STEPS.append("step")
        W[y] += self.rate * z


@dataclass(frozen=True)
class Cautious(Hedge):
    """Hedge with a fixed small rate."""

    rate: float = 0.05
    combination: str = "scores"

    def rates(self, seen, n):
        STEPS.append("rates")
        return np.full(len(seen), self.rate)

    def bound(self, state, seen):
        n = len(state["expert_loss"])
        return float(
            (self.rate * state["expert_loss"].min() + np.log(n)) / (1 - np.exp(-self.rate))
        )

    @property
    def guarantee(self):
        return "weighted loss"


@dataclass(frozen=True)
class Own(Hedge):
    """A subclass of ours whose weights are its own: always even."""

    def weights(self, state, seen):
        return np.full(len(state["expert_loss"]), 1 / len(state["expert_loss"]))

    def weigh(self, state, labels, losses):
        super().weigh(state, labels, losses)
        return np.full_like(losses, 1 / losses.shape[1])


@dataclass(frozen=True)
class FirstColumns(Aligner):
    """The first features as they are."""

    count: int = 3

    def fit(self, source, codes, target):
        STEPS.append("fit")
        A = np.eye(source.shape[1], self.count, dtype=source.dtype)
        return Alignment(Projection(A), Info(self.count))


@dataclass(frozen=True)
class Shaped(Aligner):
    """Whatever it is given."""

    made: object

    def fit(self, source, codes, target):
        return self.made


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (np.eye(6), "fit returned ndarray, not a hedgerow.align.Alignment"),
        (Alignment(Projection(np.ones((3, 6))), Info()), "projection must be 6 x d .* got 3 x 6"),
        (Alignment(Projection(np.ones(6)), Info()), "projection must be 6 x d .*, got 6$"),
        (Alignment(Projection(None, np.ones((6, 2))), Info()), "source_map must be 6 x 6 .* 6 x 2"),
    ],
)
def test_an_aligner_that_returns_another_shape_is_named(made, words):
    task = make_task(0)
    with pytest.raises(InputError, match=words):
        OnlineTransferClassifier(Recipe("Shaped", aligner=Shaped(made))).fit_domains(task.sources)


PARTS = {
    "head": (
        HEADS,
        register_head,
        [Gentle(), Gentle(share=0.2), Centroid(), Centroid(rate=0.3)],
        "pa1",
    ),
    "mixer": (MIXERS, register_mixer, [Cautious(), Cautious(rate=0.3), Own()], "hedge"),
    "aligner": (ALIGNERS, register_aligner, [FirstColumns(), FirstColumns(count=5)], "identity"),
}
NAMES = {
    Gentle: "gentle",
    Centroid: "centroid",
    Cautious: "cautious",
    Own: "own",
    FirstColumns: "first-columns",
}
EVERY = [(kind, part) for kind, (_, _, parts, _) in PARTS.items() for part in parts]


@pytest.fixture(autouse=True)
def _clean():
    STEPS.clear()
    yield
    for table, _, parts, _ in PARTS.values():
        for part in parts:
            table.unregister(NAMES[type(part)])


def registered(kind, part):
    PARTS[kind][1](NAMES[type(part)], type(part))
    return NAMES[type(part)]


def fit(task, method="oddm", **options):
    return OnlineTransferClassifier(method, options=PaperOptions(**options)).fit_domains(
        task.sources, task.warmup
    )


@pytest.mark.parametrize("method", ["oddm", "homotlms"])
@pytest.mark.parametrize(("kind", "part"), EVERY, ids=lambda v: str(v))
def test_a_part_is_used_as_it_is(kind, part, method):
    """In the source pass, on the path of one row and in blocks: with the part the model is another than with ours."""
    task = make_task(0, stream=60)
    ours, outside, rows = (
        fit(task, method),
        *(fit(task, method, **{kind: part}) for _ in range(2)),
    )
    assert getattr(outside.options, kind) is part
    if kind == "head":
        assert STEPS, "the source pass does not use it"
        assert not np.allclose(outside.constants_["frozen"], ours.constants_["frozen"])
    STEPS.clear()
    blocks = outside.predict_then_learn(task.X, task.y)
    ours.predict_then_learn(task.X, task.y)
    if kind == "head":
        assert STEPS, "blocks do not use it"
        assert not np.allclose(outside.learner_.state["W"], ours.learner_.state["W"])
    elif kind == "mixer":
        wrong = np.random.default_rng(0).permutation(task.y)  # the experts err, and not all at once
        watched = [model.partial_fit(task.X[:20], wrong[:20]).weights_ for model in (outside, ours)]
        assert not np.allclose(*watched)
    STEPS.clear()
    predictions = one_by_one(rows, task.X, task.y)
    if kind == "head":
        assert len(STEPS) >= 60, "single rows do not use it"
    assert predictions.tolist() == blocks.tolist()
    if kind == "mixer":
        rows.partial_fit(task.X[:20], wrong[:20])
    assert_close_state(rows.learner_.arrays(), outside.learner_.arrays(), 1e-8)


@pytest.mark.parametrize(("kind", "part"), EVERY, ids=lambda v: str(v))
def test_saved_and_loaded(kind, part, tmp_path):
    task = make_task(1, stream=60, new_classes=1)
    clf = fit(task, "oddm-fixed", **{kind: part}).partial_fit(task.X[:30], task.y[:30])
    with pytest.raises(InputError, match=rf"register_{kind}\(name, {type(part).__name__}\)"):
        clf.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())
    name = registered(kind, part)
    clf.save(tmp_path / "model")
    loaded = OnlineTransferClassifier.load(tmp_path / "model")
    assert getattr(loaded.options, kind) == part
    assert type(getattr(loaded.options, kind)) is type(part)
    assert_same_state(loaded.learner_.arrays(), clf.learner_.arrays())
    np.testing.assert_array_equal(
        loaded.predict_then_learn(task.X[30:], task.y[30:]),
        clf.predict_then_learn(task.X[30:], task.y[30:]),
    )
    PARTS[kind][0].unregister(name)
    if (
        kind != "aligner"
    ):  # which did its work before the stream: its name is kept in the parameters only
        with pytest.raises(
            InputError, match=rf"the {kind} '{name}', which is not registered here.*register_{kind}"
        ):
            OnlineTransferClassifier.load(tmp_path / "model")


@pytest.mark.parametrize("kind", PARTS)
def test_by_name(kind, tmp_path):
    task = make_task(2, stream=60)
    part = PARTS[kind][2][0]
    with pytest.raises(InputError, match=f"unknown {kind} '{NAMES[type(part)]}'"):
        fit(task, **{kind: NAMES[type(part)]})
    name = registered(kind, part)
    by_name = fit(task, **{kind: name})
    by_object = fit(task, **{kind: part})
    np.testing.assert_array_equal(
        by_name.predict_then_learn(task.X, task.y), by_object.predict_then_learn(task.X, task.y)
    )
    assert_same_state(by_name.learner_.arrays(), by_object.learner_.arrays())
    by_name.save(tmp_path / "model")
    loaded = OnlineTransferClassifier.load(tmp_path / "model")
    assert getattr(loaded.options, kind) == name
    assert loaded.learner_.plan == by_name.learner_.plan


def test_the_estimators_C_reaches_a_head_that_has_one():
    registered("head", Gentle())
    task = make_task(0)
    assert fit(task, head="gentle", C=0.25).learner_.plan.head == Gentle(C=0.25)
    registered("head", Centroid())
    with pytest.raises(InputError, match=r"C=0\.25: method 'oddm' does not read it"):
        fit(task, head="centroid", C=0.25)
    with pytest.raises(InputError, match=r"C=0\.25: method 'oddm' does not read it"):
        fit(task, head=Gentle(), C=0.25)


@pytest.mark.parametrize("as_names", [True, False], ids=["names", "objects"])
def test_a_recipe_carries_its_parts(as_names, tmp_path):
    head = Centroid(rate=0.1)
    mixer = Cautious()
    aligner = FirstColumns()
    names = [registered(*pair) for pair in (("head", head), ("mixer", mixer), ("aligner", aligner))]
    head_, mixer_, aligner_ = names if as_names else (head, mixer, aligner)
    recipe = Recipe(
        "Of parts",
        "per-source",
        aligner=aligner_,
        frozen="each",
        head=head_,
        mixer=mixer_,
        refresh=True,
    )
    task = make_task(3, stream=60)
    clf = fit(task, recipe)
    assert clf.method_ == "Of parts"
    assert (clf.learner_.plan.head, clf.learner_.plan.mixer) == (head, mixer)
    assert "fit" in STEPS
    same = fit(task, "oddm", aligner=aligner, head=head, mixer=mixer)
    np.testing.assert_array_equal(
        clf.predict_then_learn(task.X, task.y), same.predict_then_learn(task.X, task.y)
    )
    clf.save(tmp_path / "model")
    loaded = OnlineTransferClassifier.load(tmp_path / "model")
    assert loaded.learner_.plan == clf.learner_.plan
    assert loaded.method == recipe
    again = clone(loaded).fit_domains(task.sources, task.warmup)
    np.testing.assert_array_equal(again.predict(task.X), fit(task, recipe).predict(task.X))
    check_method(recipe)


def test_the_laws_hold_for_these_parts():
    """So that the tests above are about parts that could be anybody's."""
    check_head(Gentle())
    check_head(Centroid())
    check_mixer(Cautious())
    check_aligner(FirstColumns())


@pytest.mark.parametrize("kind", PARTS)
def test_what_is_no_part_is_refused(kind):
    with pytest.raises(InputError, match=f"{kind}="):
        fit(make_task(0), **{kind: object()})
