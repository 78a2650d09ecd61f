"""Bad input gets a clear error (the rule, the value, the remedy) or defined behaviour, and changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from support.laws import METHODS, assert_same_state, classifier, fitted, make_task, projections, state_of

from hedgerow import Domain, OnlineTransferClassifier, register_method, split
from hedgerow.align import JDA
from hedgerow.core.arrays import LARGEST
from hedgerow.core.domains import pool
from hedgerow.core.errors import HedgerowError, InputError, MissingExtra, require
from hedgerow.heads import make_head
from hedgerow.methods import METHODS as REGISTERED
from hedgerow.methods import Reading, reading_of
from hedgerow.mix import Hedge, LossBased

TASK = make_task(0, n=2)


def model(method="oddm", **options):
    clf = fitted(TASK, method, preprocess="zscore+unit", **options)
    return clf.partial_fit(TASK.X[:20], TASK.y[:20])


def attributes(clf):
    """Everything a model is, apart from its state."""
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in vars(clf).items()
        if name not in ("learner_", "_codes", "info_")
    }


def assert_refused(clf, action, words, kind=InputError):
    """The error has these words, and the model is what it was, bit for bit."""
    state, before, codes, learner = state_of(clf), attributes(clf), clf._codes, clf.learner_
    with pytest.raises(kind, match=words):
        action(clf)
    assert clf.learner_ is learner
    assert_same_state(state_of(clf), state)
    assert attributes(clf) == before
    assert clf._codes is codes
    np.testing.assert_array_equal(clf.predict(TASK.X[:5]).shape, (5,))


def verbs(X, y):
    """Every way to give rows to a fitted model."""
    return {
        "fit": lambda clf: clf.fit(X, y),
        "partial_fit": lambda clf: clf.partial_fit(X, y),
        "predict_then_learn": lambda clf: clf.predict_then_learn(X, y),
        "predict": lambda clf: clf.predict(X),
        "predict_proba": lambda clf: clf.predict_proba(X),
        "decision_function": lambda clf: clf.decision_function(X),
    }


VERBS = tuple(verbs(None, None))


def spoiled(value, row=3, column=2):
    X = TASK.X[:10].copy()
    X[row, column] = value
    return X


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_nan_and_infinity_are_named_by_row_and_column(verb, value, name, sparse):
    X = spoiled(value)
    X = sp.csr_array(X) if sparse else X
    words = rf"contains {name} at row 3, column 2 \(1 such values in all\).*drop these rows"
    assert_refused(model("homotlms"), verbs(X, TASK.y[:10])[verb], words)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_numbers_whose_squares_overflow(verb, dtype):
    value = 1e200 if dtype == "float64" else 1e25
    words = rf"{value:g}".replace("+", r"\+") + rf" at row 3, column 2 is too large for {dtype}.*rescale"
    assert_refused(model(dtype=dtype), verbs(spoiled(value), TASK.y[:10])[verb], words)


def test_a_number_that_does_not_fit_into_float32_is_found_after_the_cast():
    clf = model(dtype="float32")
    assert_refused(clf, lambda c: c.predict(spoiled(1e300)), "infinity at row 3, column 2")
    assert_refused(clf, lambda c: c.learn_one(spoiled(1e300)[3], "c0"), "infinity at row 0, column 2")
    domains = [Domain("far", spoiled(1e100), TASK.y[:10])]
    assert_refused(clf, lambda c: c.fit_domains(domains), "domain 'far'.*infinity at row 3")


def test_large_and_small_numbers_that_do_fit():
    for scale in (1e140, 1e-140):
        task = TASK._replace(
            sources=[Domain(d.name, scale * d.X, d.y) for d in TASK.sources], warmup=Domain("t", scale * TASK.warmup.X)
        )
        clf = fitted(task, "oddm", preprocess="row-minmax+unit")
        expected = fitted(TASK, "oddm", preprocess="row-minmax+unit")
        np.testing.assert_array_equal(
            clf.predict_then_learn(scale * TASK.X, TASK.y), expected.predict_then_learn(TASK.X, TASK.y)
        )


def test_a_row_near_the_largest_numbers_is_the_same_one_by_one_and_in_a_block():
    """Each number is allowed, and their squared length is beyond what the short path takes unchecked."""
    one, block = (fitted(TASK, "pa", preprocess=()) for _ in range(2))
    x = np.full(6, 0.9 * LARGEST[np.dtype("float64")])
    one.predict_one(TASK.X[0])
    assert [one.predict_one(x)] == block.predict(x[None]).tolist()
    one.learn_one(x, "c1")
    block.partial_fit(x[None], ["c1"])
    np.testing.assert_array_equal(one.learner_.W, block.learner_.W)


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"fit"}))
def test_wrong_width(verb):
    assert_refused(model(), verbs(TASK.X[:10, :4], TASK.y[:10])[verb], "X has 4 features.*expecting 6", ValueError)


def test_wrong_width_of_one_instance():
    for x in (np.ones(4), np.ones((1, 4)), np.ones((2, 6)), 3.0, sp.csr_array(np.ones((1, 4)))):
        assert_refused(model(), lambda c, x=x: c.predict_one(x), "expected one instance of 6 features, got shape")
        assert_refused(model(), lambda c, x=x: c.learn_one(x, "c0"), "expected one instance of 6 features, got shape")


@pytest.mark.parametrize("verb", VERBS)
def test_one_row_given_as_1d(verb):
    assert_refused(model(), verbs(TASK.X[0], TASK.y[:1])[verb], r"(?s)1D array.*Reshape", ValueError)


def test_one_row_given_as_1d_to_a_domain():
    with pytest.raises(InputError, match=r"domain 'a'.*one row of 3 numbers; give x\[None, :\]"):
        Domain("a", [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (["a"] * 6, "not a row of numbers"),
        (np.full(6, np.nan), "NaN at row 0, column 0"),
        ({"a": 1}, "without feature names"),
        ([[1, 2], [3]], "not a row of numbers"),
        (None, "not a row of numbers|expected one instance"),
    ],
)
def test_an_instance_that_is_none(x, words):
    assert_refused(model(), lambda c: c.predict_one(x), words)
    assert_refused(model(), lambda c: c.learn_one(x, "c0"), words)


def test_a_mapping_before_any_names_are_known():
    with pytest.raises(InputError, match="no feature names are known"):
        OnlineTransferClassifier("pa").learn_one({"a": 1.0}, "x")


def test_text_is_no_table_of_numbers():
    assert_refused(model(), lambda c: c.fit([["a", "b"]], [0]), "could not convert string", ValueError)
    with pytest.raises(InputError, match="domain 'a': not a table of numbers"):
        Domain("a", [["a", "b"]])
    with pytest.raises(InputError, match="Complex data not supported"):
        Domain("a", np.ones((2, 2)) * 1j)
    with pytest.raises(InputError, match=r"shape \(2, 2, 2\)"):
        Domain("a", np.ones((2, 2, 2)))


def test_an_empty_domain():
    with pytest.raises(InputError, match="domain 'a': 0 rows"):
        Domain("a", np.empty((0, 3)))
    with pytest.raises(InputError, match="domain 'a': 0 features"):
        Domain("a", np.empty((3, 0)))
    assert_refused(model(), lambda c: c.fit(np.empty((0, 6)), []), "0 sample", ValueError)
    assert_refused(model(), lambda c: c.fit_domains([]), "no domain given")


@pytest.mark.parametrize("method", METHODS)
def test_a_single_class_is_predicted_until_another_comes(method):
    X = TASK.X[:20]
    clf = OnlineTransferClassifier(method).fit(X, ["only"] * 20)
    assert set(clf.predict(X)) == {"only"}
    assert clf.predict_proba(X).tolist() == [[1.0]] * 20
    assert clf.partial_fit(X, ["only"] * 20).mistakes_ == 0
    clf.partial_fit(X, ["only", "other"] * 10)
    assert clf.classes_.tolist() == ["only", "other"]


@pytest.mark.parametrize("method", METHODS)
def test_a_class_absent_from_a_source(method):
    sources = [Domain(d.name, d.X, np.where(d.y == f"c{i}", "c2", d.y)) for i, d in enumerate(TASK.sources)]
    clf = fitted(TASK._replace(sources=sources), method, refresh_every=5)
    assert clf.classes_.tolist() == ["c0", "c1", "c2"]
    predictions = clf.predict_then_learn(TASK.X, TASK.y)
    assert (predictions == TASK.y).mean() > 0.4
    assert np.isfinite(clf.discrepancy_).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_class_absent_from_every_source(method):
    clf = fitted(TASK, method, classes=["c0", "c1", "c2", "c9"], refresh_every=5, unseen="zero")
    assert clf.classes_.tolist() == ["c0", "c1", "c2", "c9"]
    labels = np.where(TASK.y == "c1", "c9", TASK.y)
    clf.predict_then_learn(np.vstack([TASK.X] * 4), np.concatenate([labels] * 4))
    assert "c9" in clf.predict(TASK.X)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("steps", ["none", "unit", "row-minmax+unit", "zscore+unit", "signed-sqrt"])
@pytest.mark.parametrize("method", METHODS)
def test_rows_of_zeros(method, steps, sparse):
    X, y = TASK.X.copy(), TASK.y
    X[::3] = 0
    wrap = sp.csr_array if sparse else np.asarray
    sources = [Domain(d.name, wrap(np.where(np.arange(24)[:, None] % 5 == 0, 0, d.X)), d.y) for d in TASK.sources]
    clf = classifier(method, preprocess=steps, refresh_every=10).fit_domains(sources, Domain("t", wrap(X)))
    clf.predict_then_learn(wrap(X), y)
    assert np.isfinite(clf.predict_proba(wrap(X))).all()
    assert all(np.isfinite(array).all() for array in clf.learner_.arrays().values())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("value", [0.0, 0.1, 1e9])
def test_constant_features(method, value):
    def flat(X):
        return np.hstack([X, np.full((len(X), 2), value)])

    sources = [Domain(d.name, flat(d.X), d.y) for d in TASK.sources]
    clf = classifier(method, refresh_every=5).fit_domains(sources, Domain("t", flat(TASK.warmup.X)))
    plain = fitted(TASK, method, refresh_every=5)
    agreement = clf.predict_then_learn(flat(TASK.X), TASK.y) == plain.predict_then_learn(TASK.X, TASK.y)
    assert agreement.mean() > 0.95


@pytest.mark.parametrize("method", ["oddm", "oddm-fixed"])
def test_fewer_rows_than_dim_and_dim_beyond_the_rank(method):
    task = make_task(1, rows=4, warmup=3, m=30)
    clf = fitted(task, method, dim=100, preprocess=())
    assert clf.dim_ == 6  # 7 rows, centred
    assert fitted(task, method, dim=2).dim_ == 2
    clf.predict_then_learn(task.X, task.y)
    assert np.isfinite(projections(clf)).all()
    low = np.random.default_rng(0).normal(size=(24, 2)) @ np.ones((2, 6)) @ np.diag(np.arange(6))
    assert fitted(TASK._replace(sources=[Domain("a", low, TASK.y[:24])], warmup=None), method, preprocess=()).dim_ == 1


def test_sources_of_different_rank_share_one_width():
    rng = np.random.default_rng(0)
    line = Domain("line", np.outer(rng.normal(size=24), np.arange(1.0, 7)) + np.eye(6)[0], TASK.y[:24])
    clf = classifier("oddm", preprocess=(), refresh_every=3).fit_domains([line, TASK.sources[1]])
    assert [info.rank for info in clf.info_] == [2, 6]
    clf.predict_then_learn(TASK.X, TASK.y)
    assert not projections(clf)[0][:, 2:].any()


@pytest.mark.parametrize("method", METHODS)
def test_no_unlabelled_target_rows(method):
    clf = fitted(TASK._replace(warmup=None), method, refresh_every=5)
    assert (clf.predict_then_learn(TASK.X, TASK.y) == TASK.y).mean() > 0.4
    empty, stream = split(Domain("t", TASK.X, TASK.y), warmup=0.0)
    assert len(empty) == 0
    clf = OnlineTransferClassifier(method).fit_domains(TASK.sources, empty)
    clf.predict_then_learn(stream.X, stream.y)


def test_rows_that_do_not_differ_have_no_direction():
    with pytest.raises(InputError, match=r"rows .* are the same.*aligner='identity'"):
        OnlineTransferClassifier("oddm", preprocess=()).fit(np.ones((5, 3)), [0, 1, 0, 1, 0])
    OnlineTransferClassifier("oddm", preprocess=(), aligner="identity").fit(np.ones((5, 3)), [0, 1, 0, 1, 0])


@pytest.mark.parametrize("verb", ["fit", "partial_fit", "predict_then_learn"])
def test_labels_of_another_length(verb):
    assert_refused(model(), verbs(TASK.X[:10], TASK.y[:9])[verb], "9 labels for 10 rows; give one label a row")


def test_labels_of_another_shape():
    assert_refused(model(), lambda c: c.fit(TASK.X[:2], np.ones((2, 2))), r"one label an instance.*\(2, 2\)")
    assert_refused(model(), lambda c: c.fit(TASK.X[:2], None), "requires y to be passed", ValueError)
    with pytest.raises(InputError, match="domain 'a': 3 labels for 2 rows"):
        Domain("a", np.ones((2, 2)), [1, 2, 3])
    with pytest.raises(InputError, match=r"order must be a permutation of 0..1"):
        Domain("a", np.ones((2, 2)), [1, 2], order=[0, 0])


def test_labels_of_mixed_types():
    mixed = ["a", 1] * 5
    words = r"labels of mixed types \(int, str\); make them all text or all numbers"
    assert_refused(model(), lambda c: c.fit(TASK.X[:10], mixed), words)
    with pytest.raises(InputError, match=words):
        OnlineTransferClassifier("pa").partial_fit(TASK.X[:10], mixed)
    sources = [Domain("a", TASK.X[:2], ["x", "y"]), Domain("b", TASK.X[:2], [1, 2])]
    assert_refused(model(), lambda c: c.fit_domains(sources), words)
    for verb in ("partial_fit", "predict_then_learn"):
        words = "label 7 is of type int, the classes so far are of type str; convert it"
        assert_refused(model(), verbs(TASK.X[:2], ["c0", 7])[verb], words)
    assert_refused(model(), lambda c: c.learn_one(TASK.X[0], (1, 2)), "label .1, 2. is of type tuple")
    start = OnlineTransferClassifier("pa").fit(TASK.X[:2], [None] * 2, sample_domain=[-1, -1])
    with pytest.raises(InputError, match=r"label 1 is of type int.*str"):
        start.partial_fit(TASK.X[:2], ["a", 1])
    assert start.classes_.tolist() == []


def test_whole_and_other_numbers_are_one_kind_of_label():
    clf = OnlineTransferClassifier("pa").fit(TASK.X[:4], [0, 1, 0, 1])
    clf.partial_fit(TASK.X[:3], [1.0, 0.0, True])
    assert clf.classes_.tolist() == [0, 1]
    clf.learn_one(TASK.X[0], 2.0)
    assert clf.classes_.tolist() == [0, 1, 2]
    assert clf.classes_.dtype == np.int64


def test_labels_that_are_not_hashable():
    bad = np.empty(3, dtype=object)
    bad[:] = [[1], [2], [3]]
    assert_refused(model(), lambda c: c.fit(TASK.X[:3], bad), "must be hashable")
    assert_refused(model(), lambda c: c.partial_fit(TASK.X[:3], bad), "must be hashable")
    assert_refused(model(), lambda c: c.learn_one(TASK.X[0], [1, 2]), "must be hashable")


def test_labels_that_are_measurements():
    y = np.linspace(0.05, 0.95, 10)
    assert_refused(model(), lambda c: c.fit(TASK.X[:10], y), "continuous", ValueError)
    with pytest.raises(ValueError, match="continuous"):
        OnlineTransferClassifier("pa").partial_fit(TASK.X[:10], y)


def test_a_source_row_without_a_label():
    y = TASK.y[:10].copy()
    y[4] = None
    assert_refused(model(), lambda c: c.fit(TASK.X[:10], y), "source '0'.*NaN or None at row 4; a source row needs")
    assert_refused(model(), lambda c: c.fit_domains([Domain("a", TASK.X[:10])]), "source 'a' has no labels")


def test_classes_that_cannot_be():
    for classes, words in (([None, "a"], "cannot be a class"), (["a", 1], "mixed types"), ([[1], [2]], "hashable")):
        with pytest.raises(InputError, match=words):
            OnlineTransferClassifier("pa", classes=classes).fit(TASK.X[:2], ["a", "a"])


def test_domains_of_different_width():
    sources = [Domain("a", np.ones((2, 2)), [0, 1]), Domain("a", np.ones((2, 3)), [0, 1])]
    assert_refused(model(), lambda c: c.fit_domains(sources), "different width.*'a', 2.*'a', 3.*same features")


@pytest.mark.parametrize(
    ("domain", "words"),
    [
        (np.zeros(9), r"sample_domain: shape \(9,\) for 10 rows"),
        (np.full(10, 0.5), "whole numbers"),
        (np.full(10, np.nan), "whole numbers"),
        (["a"] * 10, "whole numbers"),
        (np.zeros((10, 1)), r"shape \(10, 1\)"),
    ],
)
def test_source_numbers_that_cannot_be(domain, words):
    assert_refused(model(), lambda c: c.fit(TASK.X[:10], TASK.y[:10], sample_domain=domain), words)


OPTIONS = [
    ({"method": "odm"}, "unknown method 'odm'; did you mean 'oddm'"),
    ({"method": "homotlsm"}, "did you mean 'homotlms'"),
    ({"reading": "author"}, "did you mean 'authors'"),
    ({"aligner": "jdaa"}, "unknown aligner 'jdaa'; did you mean 'jda'"),
    ({"aligner": 3}, "aligner=3: give the name of an aligner, or an object"),
    ({"head": "pa11"}, "unknown head 'pa11'; did you mean 'pa1'"),
    ({"mixer": "hegde"}, "unknown mixer 'hegde'; did you mean 'hedge'"),
    ({"mixer": "single"}, "cannot combine 4 experts"),
    ({"mixer": 3}, "mixer=3: give the name of a mixer"),
    ({"head": 3}, "head=3: give the name of a head"),
    ({"preprocess": "zscores"}, "did you mean 'zscore'"),
    ({"reading": Reading(combine="simplex")}, "unknown combine 'simplex'"),
    ({"dim": 0}, "dim=0: must be a whole number, at least 1"),
    ({"dim": 2.5}, "dim=2.5"),
    ({"dim": "ten"}, "dim='ten': must be a finite number"),
    ({"dim": True}, "dim=True"),
    ({"aligner": JDA(rounds=0)}, "rounds=0"),
    ({"C": 0}, "C=0: the aggressiveness"),
    ({"C": "x"}, "C='x'"),
    ({"mu": -1}, "mu=-1: .*cannot be negative"),
    ({"beta": 1.0}, "beta=1.0: the discount must be between 0 and 1"),
    ({"beta": 0}, "beta=0"),
    ({"beta": "half"}, "beta='half'"),
    ({"horizon": 0}, "horizon=0: .*must be positive"),
    ({"horizon": float("inf")}, "horizon=inf"),
    ({"dtype": "float16"}, "dtype='float16': use 'float32'"),
    ({"rank": 3}, "rank=3: method 'oddm' does not read it.*methods that do: hedgerow, hedgerow-linear"),
    ({"beta": 0.5, "horizon": 10}, "give one"),
    ({"reading": Reading(split_rule="fixed")}, "a classifier does not split"),
    ({"reading": Reading(preprocess=("unit",)), "preprocess": "zscore"}, "give one of them"),
]


ANSWERS = [
    ({"unseen": "shrunk"}, "value of unseen 'shrunk'; did you mean 'shrink'"),
    ({"eigenvectors": "units"}, "did you mean 'unit'"),
    ({"source_pass": "averaged"}, "did you mean 'average'"),
    ({"combine": "votes"}, "did you mean 'vote'"),
    ({"tau": "printd"}, "did you mean 'printed'"),
    ({"target_mean": "warm-up"}, "did you mean 'warmup'"),
    ({"projected": "plane"}, "did you mean 'plain'"),
    ({"inverse": "pinvs"}, "did you mean 'pinv'"),
    ({"guarantee": "prooved"}, "did you mean 'proved'"),
    ({"beta_rule": "ln 3n"}, "did you mean 'ln 2n'"),
    ({"lam": 0}, "lam=0: the ridge"),
    ({"lam": -1}, "lam=-1"),
    ({"lam": float("nan")}, "lam=nan"),
    ({"refresh_every": 0}, "refresh_every=0: must be a whole number"),
    ({"refresh_every": 1.5}, "refresh_every=1.5"),
]


@pytest.mark.parametrize(("answers", "words"), ANSWERS, ids=lambda o: str(o) if isinstance(o, dict) else "")
def test_answers_that_no_reading_has(answers, words):
    with pytest.raises(InputError, match=words):
        reading_of("authors", **answers)


def test_an_answer_to_no_question():
    with pytest.raises(InputError, match="unknown answer of a reading 'lambda'"):
        reading_of("authors", **{"lambda": 1.0})


@pytest.mark.parametrize("part", [lambda: LossBased(loss="projections"), lambda: LossBased(eta=-1)])
def test_parts_check_themselves(part):
    with pytest.raises(InputError, match=r"projection|eta=-1"):
        part()


@pytest.mark.parametrize(("options", "words"), OPTIONS, ids=lambda o: str(o) if isinstance(o, dict) else "")
def test_unknown_names_and_numbers_out_of_range(options, words):
    before = OnlineTransferClassifier().get_params()
    clf = OnlineTransferClassifier(**{"method": "oddm", **options})
    with pytest.raises(InputError, match=words):
        clf.fit_domains(TASK.sources, TASK.warmup)
    assert not hasattr(clf, "learner_")
    assert not hasattr(clf, "n_features_in_")
    good = model()
    good.set_params(**options)
    assert_refused(good, lambda c: c.fit_domains(TASK.sources, TASK.warmup), words)
    assert OnlineTransferClassifier().get_params() == before


def test_parts_check_their_own_options():
    for make, words in (
        (lambda: Hedge(2.0), "beta=2.0"),
        (lambda: Hedge(0.5, "simplex"), "unknown combine"),
        (lambda: Hedge(0.5, proof="none"), "unknown guarantee"),
        (lambda: LossBased(loss="x"), "unknown loss"),
        (lambda: LossBased(combination="x"), "unknown combine"),
        (lambda: make_head("pa1", -1.0), "C=-1.0"),
        (lambda: make_head("pb", 1.0), "unknown head 'pb'; did you mean 'pa'"),
        (lambda: register_method("oddm", REGISTERED["pa"]), "there already.*replace=True"),
        (lambda: split(TASK.sources[0], warmup=1.0), r"warmup=1.0.*\[0, 1\)"),
        (lambda: split(Domain("a", [[1.0]]), warmup=0.9), "leaves no stream"),
    ):
        with pytest.raises(InputError, match=words):
            make()


def test_a_kernel_space_cannot_be_refreshed():
    from hedgerow.align import JDA

    with pytest.raises(InputError, match=r"kernel='primal' or 'linear', or method='oddm-fixed'"):
        fitted(TASK, "oddm", aligner=JDA(kernel="rbf"))


def test_an_unfitted_model_that_fails_stays_unfitted():
    clf = OnlineTransferClassifier("pa", classes=["a", "b"])
    for attempt in (
        lambda: clf.partial_fit(TASK.X[:3], ["a", "b", "z"]),
        lambda: clf.fit(TASK.X[:3], ["a", "b", "z"]),
        lambda: clf.learn_one(TASK.X[0], "z"),
    ):
        with pytest.raises(InputError, match="'z' is not among"):
            attempt()
        assert set(vars(clf)) == set(clf.get_params())


@pytest.mark.parametrize(
    "kind", ["read-only", "fortran", "strided", "reversed", "memmap", "big-endian", "integers", "list"]
)
@pytest.mark.parametrize("method", ["homotlms", "oddm"])
def test_arrays_of_every_layout(method, kind, tmp_path):
    X = np.round(10 * TASK.X)
    layouts = {
        "read-only": lambda: X.copy(),
        "fortran": lambda: np.asfortranarray(X),
        "strided": lambda: np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2],
        "reversed": lambda: X[::-1, ::-1].copy()[::-1, ::-1],
        "big-endian": lambda: X.astype(">f8"),
        "integers": lambda: X.astype(np.int16),
        "list": lambda: X.tolist(),
    }
    if kind == "memmap":
        np.save(tmp_path / "x.npy", X)
        given = np.load(tmp_path / "x.npy", mmap_mode="r")
    else:
        given = layouts[kind]()
    if kind == "read-only":
        given.setflags(write=False)
    for steps in ((), "zscore+unit"):
        expected = OnlineTransferClassifier(method, preprocess=steps).fit(X, TASK.y)
        clf = OnlineTransferClassifier(method, preprocess=steps).fit(given, TASK.y)
        np.testing.assert_array_equal(clf.predict_then_learn(given, TASK.y), expected.predict_then_learn(X, TASK.y))
        assert clf.predict_one(given[0]) == expected.predict_one(X[0])
        np.testing.assert_allclose(clf.learner_.W, expected.learner_.W, atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("n", "K"), [(1, 2), (1, 3), (3, 2)])
def test_two_classes_and_one_source(method, n, K):
    task = make_task(4, n=n, K=K)
    clf = fitted(task, method)
    assert (clf.predict_then_learn(task.X, task.y) == task.y).mean() > 0.5
    assert clf.decision_function(task.X).shape == ((50,) if K == 2 else (50, 3))


@pytest.mark.parametrize(
    "empty", [np.empty((0, 6)), np.empty((0, 6), dtype=np.float32), sp.csr_array((0, 6))], ids=type
)
@pytest.mark.parametrize("method", METHODS)
def test_a_stream_of_length_zero(method, empty):
    clf = model(method)
    before = state_of(clf)
    assert clf.predict(empty).shape == (0,)
    assert clf.predict_proba(empty).shape == (0, 3)
    assert clf.predict_then_learn(empty, []).shape == (0,)
    assert clf.predict_then_learn(empty, []).dtype == clf.classes_.dtype
    clf.partial_fit(empty, np.array([]))
    assert_same_state(state_of(clf), before)


def test_the_smallest_tasks():
    clf = OnlineTransferClassifier("oddm").fit([[1.0], [2.0]], ["a", "b"])
    assert clf.predict([[3.0]])[0] in "ab"
    assert OnlineTransferClassifier("homotlms").fit([[1.0]], ["a"]).predict_one([5.0]) == "a"
    assert pool([Domain("a", sp.csr_array([[1.0]]), ["x"]), Domain("b", [[2.0]], ["y"])]).X.shape == (2, 1)


def test_every_error_of_ours_is_a_hedgerow_error_and_a_python_one():
    assert issubclass(InputError, HedgerowError)
    assert issubclass(InputError, ValueError)
    with pytest.raises(MissingExtra, match=r"pip install 'hedgerow\[live\]'") as error:
        require("a_module_that_is_not_there", extra="live")
    assert isinstance(error.value, ImportError)


@pytest.mark.parametrize("verb", ["partial_fit", "predict_then_learn"])
def test_an_interrupt_leaves_a_model_that_goes_on(verb, monkeypatch):
    """Rows before the interrupt stay learned; a class comes with its first row, or not at all."""
    clf = model("homotlms")
    run, calls, before = type(clf.learner_).run, [], clf.seen_

    def interrupted(self, *args, **kwargs):
        calls.append(args)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return run(self, *args, **kwargs)

    monkeypatch.setattr(type(clf.learner_), "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        getattr(clf, verb)(TASK.X[:5], ["c0", "new", "c1", "newer", "c2"])
    monkeypatch.undo()
    assert clf.classes_.tolist() == ["c0", "c1", "c2", "new"]
    assert clf.learner_.n_classes == 4
    assert clf.seen_ == before + 3
    clf.partial_fit(TASK.X[:5], ["newer", "new", "c1", "newest", "c2"])
    assert clf.predict_proba(TASK.X).shape == (50, 6)


def scrambled(X):
    """A CSR matrix of the same rows that names its first feature twice, out of order."""
    parts = [(np.append(x[1:], [x[0] + 1, -1.0]), np.append(np.arange(1, len(x)), [0, 0])) for x in X]
    data, indices = (np.concatenate(column) for column in zip(*parts, strict=True))
    out = sp.csr_array((data, indices, np.arange(len(X) + 1) * (X.shape[1] + 1)), shape=X.shape)
    assert not out.has_canonical_format
    return out


@pytest.mark.parametrize("steps", ["unit", "row-minmax", "signed-sqrt+unit"])
def test_sparse_rows_that_name_a_feature_twice_are_read_and_left_alone(steps):
    X = TASK.X + 3
    given = scrambled(X)
    before = given.data.copy(), given.indices.copy()
    expected = OnlineTransferClassifier("oddm", preprocess=steps).fit(sp.csr_array(X), TASK.y)
    clf = OnlineTransferClassifier("oddm", preprocess=steps).fit(given, TASK.y)
    np.testing.assert_array_equal(clf.predict(given), expected.predict(X))
    np.testing.assert_array_equal(clf.predict_then_learn(given, TASK.y), expected.predict_then_learn(X, TASK.y))
    row = scrambled(X[:1])
    for model, x in ((clf, row), (expected, sp.csr_array(X[:1]))):
        model.predict_one(x)
        model.learn_one(x, TASK.y[0])
    for name, array in state_of(expected).items():
        np.testing.assert_allclose(state_of(clf)[name], array, atol=1e-9, err_msg=name)
    np.testing.assert_array_equal(given.data, before[0])
    np.testing.assert_array_equal(given.indices, before[1])
    assert not row.has_canonical_format


def test_aligners_take_integers():
    X, codes = np.round(10 * TASK.X).astype(np.int64), np.arange(len(TASK.X)) % 2
    before = X.copy()
    found = JDA(dim=2, rounds=2).fit(X, codes, X[:9]).projection.A
    np.testing.assert_array_equal(
        found, JDA(dim=2, rounds=2).fit(X.astype(float), codes, X[:9].astype(float)).projection.A
    )
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("method", ["hedgerow", "oddm"])
def test_text_in_lists_is_refused_with_the_value_and_the_remedy(method):
    words = "X: could not convert string to float: 'red'; give rows of numbers, or a data frame"
    with pytest.raises(InputError, match=words):
        OnlineTransferClassifier(method).fit([[1.0, "red"], [2.0, "blue"]], ["a", "b"])
    assert_refused(model(), lambda clf: clf.predict([["red"] * TASK.X.shape[1]]), words)


@pytest.mark.parametrize("width", [20, 20_000])
def test_rows_of_zeros_are_fitted_whatever_their_width(width):
    X, y = np.zeros((60, width)), np.arange(60) % 2
    clf = OnlineTransferClassifier().fit(X, y)
    clf.predict_then_learn(X[:3], y[:3])
    again = OnlineTransferClassifier.from_bytes(clf.to_bytes())
    assert np.array_equal(again.predict_proba(X[:2]), clf.predict_proba(X[:2]))
