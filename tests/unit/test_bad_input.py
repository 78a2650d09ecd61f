"""Bad input gets a clear error (the rule, the value, the remedy) or defined behaviour, and changes nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from support.laws import (
    METHODS,
    VERBS,
    assert_same_state,
    classifier,
    fitted,
    make_task,
    projections,
    refused,
    state_of,
    verbs,
)

from hedgerow import (
    Domain,
    OnlineTransferClassifier,
    OnlineTransferRegressor,
    PaperOptions,
    split,
)
from hedgerow.align import JDA
from hedgerow.core.arrays import LARGEST
from hedgerow.core.errors import HedgerowError, InputError, MissingExtra, require
from hedgerow.estimator import arguments_of
from hedgerow.heads import AROW, make_head, register_head
from hedgerow.methods import Reading, reading_of
from hedgerow.mix import Hedge, LossBased
from reproduction.tasks import pool

TASK = make_task(0, n=2)


def model(method="oddm", **options):
    clf = fitted(TASK, method, preprocess="zscore+unit", **options)
    return clf.partial_fit(TASK.X[:20], TASK.y[:20])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: Domain("a", [1.0, 2.0, 3.0]),
            r"domain 'a'.*one row of 3 numbers; give x\[None, :\]",
        ),
        (lambda: Domain("a", [["a", "b"]]), "domain 'a': not a table of numbers"),
        (lambda: Domain("a", np.ones((2, 2)) * 1j), "Complex data not supported"),
        (lambda: Domain("a", np.ones((2, 2, 2))), r"shape \(2, 2, 2\)"),
        (lambda: Domain("a", np.empty((0, 3))), "domain 'a': 0 rows"),
        (lambda: Domain("a", np.empty((3, 0))), "domain 'a': 0 features"),
        (lambda: Domain("a", np.ones((2, 2)), [1, 2, 3]), "domain 'a': 3 labels for 2 rows"),
        (
            lambda: Domain("a", np.ones((2, 2)), [1, 2], order=[0, 0]),
            r"order must be a permutation of 0..1",
        ),
        (lambda: split(TASK.sources[0], warmup=1.0), r"warmup=1.0.*\[0, 1\)"),
        (lambda: split(Domain("a", [[1.0]]), warmup=0.9), "leaves no stream"),
        (
            lambda: OnlineTransferClassifier("pa").learn_one({"a": 1.0}, "x"),
            "no feature names are known",
        ),
        (lambda: Hedge(2.0), "beta=2.0"),
        (lambda: Hedge(0.5, "simplex"), "unknown combine"),
        (lambda: Hedge(0.5, proof="none"), "unknown guarantee"),
        (lambda: LossBased(loss="projections"), "did you mean 'projection'"),
        (lambda: LossBased(combination="x"), "unknown combine"),
        (lambda: LossBased(eta=-1), "eta=-1"),
        (lambda: make_head("pa1", -1.0), "C=-1.0"),
        (lambda: make_head("pb", 1.0), "unknown head 'pb'; did you mean 'pa'"),
        (lambda: register_head("pa", AROW), "already exists.*replace=True"),
        (lambda: reading_of("authors", **{"lambda": 1.0}), "unknown answer of a reading 'lambda'"),
        (
            lambda: reading_of("authors", unseen="shrunk"),
            "value of unseen 'shrunk'; did you mean 'shrink'",
        ),
        (lambda: reading_of("authors", eigenvectors="units"), "did you mean 'unit'"),
        (lambda: reading_of("authors", source_pass="averaged"), "did you mean 'average'"),
        (lambda: reading_of("authors", combine="votes"), "did you mean 'vote'"),
        (lambda: reading_of("authors", tau="printd"), "did you mean 'printed'"),
        (lambda: reading_of("authors", target_mean="warm-up"), "did you mean 'warmup'"),
        (lambda: reading_of("authors", projected="plane"), "did you mean 'plain'"),
        (lambda: reading_of("authors", inverse="pinvs"), "did you mean 'pinv'"),
        (lambda: reading_of("authors", guarantee="prooved"), "did you mean 'proved'"),
        (lambda: reading_of("authors", beta_rule="ln 3n"), "did you mean 'ln 2n'"),
        (lambda: reading_of("authors", lam=0), "lam=0: the ridge"),
        (lambda: reading_of("authors", lam=float("nan")), "lam=nan"),
        (lambda: reading_of("authors", refresh_every=0), "refresh_every=0: must be a whole number"),
        (lambda: reading_of("authors", refresh_every=1.5), "refresh_every=1.5"),
    ],
)
def test_what_cannot_be_made(make, words):
    with pytest.raises(InputError, match=words):
        make()


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        (np.empty((0, 6)), [], "0 sample"),
        (TASK.X[:2], np.ones((2, 2)), r"one label an instance.*\(2, 2\)"),
        (TASK.X[:2], None, "requires y to be passed"),
    ],
)
def test_rows_that_cannot_be_fitted(X, y, words):
    refused(model(), lambda clf: clf.fit(X, y), words, ValueError)


AWKWARD = {
    "each source without another class": TASK._replace(
        sources=[
            Domain(d.name, d.X, np.where(d.y == f"c{i}", "c2", d.y))
            for i, d in enumerate(TASK.sources)
        ]
    ),
    "no unlabelled rows": TASK._replace(warmup=None),
    "an empty domain of unlabelled rows": TASK._replace(
        warmup=split(Domain("t", TASK.X, TASK.y), warmup=0.0)[0]
    ),
    "one source": make_task(4, n=1, K=3),
    "one source, two classes": make_task(4, n=1, K=2),
    "two classes": make_task(4, n=3, K=2),
}


@pytest.mark.parametrize("case", AWKWARD)
@pytest.mark.parametrize("method", METHODS)
def test_awkward_tasks_are_learned(method, case):
    task = AWKWARD[case]
    clf = fitted(task, method, refresh_every=5)
    K = len(clf.classes_)
    assert (clf.predict_then_learn(task.X, task.y) == task.y).mean() > 0.5
    assert np.isfinite(clf.discrepancy_).all()
    assert clf.decision_function(task.X).shape == ((50,) if K == 2 else (50, K))


def spoiled(value, row=3, column=2):
    X = TASK.X[:10].copy()
    X[row, column] = value
    return X


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("value", "name"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")]
)
def test_nan_and_infinity_are_named_by_row_and_column(verb, value, name, sparse):
    X = spoiled(value)
    X = sp.csr_array(X) if sparse else X
    words = rf"contains {name} at row 3, column 2 \(1 such values in all\).*drop these rows"
    refused(model("homotlms"), verbs(X, TASK.y[:10])[verb], words)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_numbers_whose_squares_overflow(verb, dtype):
    value = 1e200 if dtype == "float64" else 1e25
    words = (
        rf"{value:g}".replace("+", r"\+")
        + rf" at row 3, column 2 is too large for {dtype}.*rescale"
    )
    refused(model(dtype=dtype), verbs(spoiled(value), TASK.y[:10])[verb], words)


def test_a_number_that_does_not_fit_into_float32_is_found_after_the_cast():
    clf = model(dtype="float32")
    refused(clf, lambda c: c.predict(spoiled(1e300)), "infinity at row 3, column 2")
    refused(clf, lambda c: c.learn_one(spoiled(1e300)[3], "c0"), "infinity at row 0, column 2")
    domains = [Domain("far", spoiled(1e100), TASK.y[:10])]
    refused(clf, lambda c: c.fit_domains(domains), "domain 'far'.*infinity at row 3")


def test_large_and_small_numbers_that_do_fit():
    for scale in (1e140, 1e-140):
        task = TASK._replace(
            sources=[Domain(d.name, scale * d.X, d.y) for d in TASK.sources],
            warmup=Domain("t", scale * TASK.warmup.X),
        )
        clf = fitted(task, "oddm", preprocess="row-minmax+unit")
        expected = fitted(TASK, "oddm", preprocess="row-minmax+unit")
        np.testing.assert_array_equal(
            clf.predict_then_learn(scale * TASK.X, TASK.y),
            expected.predict_then_learn(TASK.X, TASK.y),
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
    refused(
        model(),
        verbs(TASK.X[:10, :4], TASK.y[:10])[verb],
        "X has 4 features.*expecting 6",
        ValueError,
    )


def test_wrong_width_of_one_instance():
    for x in (np.ones(4), np.ones((1, 4)), np.ones((2, 6)), 3.0, sp.csr_array(np.ones((1, 4)))):
        refused(
            model(),
            lambda c, x=x: c.predict_one(x),
            "expected one instance of 6 features, got shape",
        )
        refused(
            model(),
            lambda c, x=x: c.learn_one(x, "c0"),
            "expected one instance of 6 features, got shape",
        )


@pytest.mark.parametrize("verb", VERBS)
def test_one_row_given_as_1d(verb):
    refused(model(), verbs(TASK.X[0], TASK.y[:1])[verb], r"(?s)1D array.*Reshape", ValueError)


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (["a"] * 6, "not a row of numbers: 'a' at column 0 is text"),
        (["1", 2.0, 3.0, 4.0, 5.0, 6.0], "'1' at column 0 is text; convert it to a number"),
        (np.array([1, 2, 3, 4, 5, "6"], dtype=object), "'6' at column 5 is text"),
        ([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]], r"got shape \(1, 6\); give one row, as X\[0\]"),
        (np.full(6, np.nan), "NaN at row 0, column 0"),
        (np.full(6, -np.inf), "infinity at row 0, column 0"),
        (np.full(6, 1e300), "too large"),
        ({"a": 1}, "without feature names"),
        ([[1, 2], [3]], "not a row of numbers"),
        (None, "not a row of numbers|expected one instance"),
    ],
)
def test_an_instance_that_is_none(x, words):
    refused(model(), lambda c: c.predict_one(x), words)
    refused(model(), lambda c: c.learn_one(x, "c0"), words)


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
    X = TASK.X.copy()
    y = TASK.y
    X[::3] = 0
    wrap = sp.csr_array if sparse else np.asarray
    sources = [
        Domain(d.name, wrap(np.where(np.arange(24)[:, None] % 5 == 0, 0, d.X)), d.y)
        for d in TASK.sources
    ]
    clf = classifier(method, preprocess=steps, refresh_every=10).fit_domains(
        sources, Domain("t", wrap(X))
    )
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
    agreement = clf.predict_then_learn(flat(TASK.X), TASK.y) == plain.predict_then_learn(
        TASK.X, TASK.y
    )
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
    assert (
        fitted(
            TASK._replace(sources=[Domain("a", low, TASK.y[:24])], warmup=None),
            method,
            preprocess=(),
        ).dim_
        == 1
    )


def test_sources_of_different_rank_share_one_width():
    rng = np.random.default_rng(0)
    line = Domain(
        "line", np.outer(rng.normal(size=24), np.arange(1.0, 7)) + np.eye(6)[0], TASK.y[:24]
    )
    clf = classifier("oddm", preprocess=(), refresh_every=3).fit_domains([line, TASK.sources[1]])
    assert [info.rank for info in clf.info_] == [2, 6]
    clf.predict_then_learn(TASK.X, TASK.y)
    assert not projections(clf)[0][:, 2:].any()


def test_rows_that_do_not_differ_have_no_direction():
    with pytest.raises(InputError, match=r"rows .* are the same.*aligner='identity'"):
        OnlineTransferClassifier("oddm", preprocess=()).fit(np.ones((5, 3)), [0, 1, 0, 1, 0])
    OnlineTransferClassifier("oddm", preprocess=(), options=PaperOptions(aligner="identity")).fit(
        np.ones((5, 3)), [0, 1, 0, 1, 0]
    )


@pytest.mark.parametrize("verb", ["fit", "partial_fit", "predict_then_learn"])
def test_labels_of_another_length(verb):
    refused(
        model(), verbs(TASK.X[:10], TASK.y[:9])[verb], "9 labels for 10 rows; give one label a row"
    )


@pytest.mark.parametrize(
    ("domains", "words"),
    [
        ([], "no domain given"),
        ([Domain("a", TASK.X[:10])], "source 'a' has no labels"),
        (
            [Domain("a", TASK.X[:2], ["x", "y"]), Domain("b", TASK.X[:2], [1, 2])],
            r"labels are text in a \(such as 'x'\) and numbers in b \(such as 1\): write them alike",
        ),
        (
            [Domain("a", np.ones((2, 2)), [0, 1]), Domain("b", np.ones((2, 3)), [0, 1])],
            "different width.*'a', 2.*'b', 3.*same features",
        ),
        ([TASK.X], "source '1' has no labels; name their column, label=.., or give"),
        (["gone.csv"], "gone.csv: no such file"),
        ([(TASK.X, TASK.y, 3)], r"1: a tuple of 3; give \(X, y\)"),
        (5, "sources of type int; give a list of domains, tables, file names"),
    ],
)
def test_domains_that_do_not_go_together(domains, words):
    refused(model(), lambda clf: clf.fit_domains(domains), words)


@pytest.mark.parametrize("form", ["mapping", "pairs", "frames", "files"])
def test_sources_and_warm_up_rows_in_every_form(form, tmp_path):
    """As `compare` takes them: what is learned is what the same rows give as domains."""
    names = [f"x{j}" for j in range(6)]
    frames = [pd.DataFrame(d.X, columns=names).assign(kind=d.y) for d in TASK.sources]
    rows = pd.DataFrame(TASK.warmup.X, columns=names)
    paths = [tmp_path / f"{d.name}.csv" for d in TASK.sources]
    for path, frame in zip([*paths, tmp_path / "rows.csv"], [*frames, rows], strict=True):
        frame.to_csv(path, index=False)
    given, warmup = {
        "mapping": ({d.name: (d.X, d.y) for d in TASK.sources}, TASK.warmup.X),
        "pairs": ([(d.X, d.y) for d in TASK.sources], TASK.warmup.X.tolist()),
        "frames": (frames, rows.assign(kind="?")),
        "files": (paths, tmp_path / "rows.csv"),
    }[form]
    clf = classifier("homotlms").fit_domains(given, warmup, label="kind")
    expected = classifier("homotlms").fit_domains(TASK.sources, TASK.warmup)
    assert_same_state(state_of(clf), state_of(expected))
    assert clf.source_names_ == (
        ["1", "2"] if form in ("pairs", "frames") else expected.source_names_
    )


def test_one_table_is_one_source():
    frame = pd.DataFrame(TASK.X).rename(columns=str).assign(kind=TASK.y)
    assert classifier("pa").fit_domains(frame, label="kind").source_names_ == ["1"]


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"fit"}))
def test_digits_that_are_text_are_no_numbers(verb):
    X = TASK.X[:10].astype(str)
    refused(
        model(), verbs(X, TASK.y[:10])[verb], "X: not a table of numbers: .* at row 0, column 0"
    )


@pytest.mark.parametrize("make", [OnlineTransferClassifier, OnlineTransferRegressor])
def test_a_first_row_without_sources_is_said(make):
    with pytest.warns(UserWarning, match="learn_one on a model that was not fitted: it has no"):
        assert make().learn_one([0.0, 1.0], 1).seen_ == 1
    make().partial_fit([[0.0, 1.0]], [1])  # which says nothing
    for x in ([[0.0, 1.0]], 3.0):
        with (
            pytest.warns(UserWarning, match="no sources"),
            pytest.raises(InputError, match="one instance, a 1-d array"),
        ):
            make().learn_one(x, 1)


def test_labels_of_mixed_types():
    mixed = ["a", 1] * 5
    words = r"labels of mixed types \(int, str\); make them all text or all numbers"
    refused(model(), lambda c: c.fit(TASK.X[:10], mixed), words)
    with pytest.raises(InputError, match=words):
        OnlineTransferClassifier("pa").partial_fit(TASK.X[:10], mixed)
    for verb in ("partial_fit", "predict_then_learn"):
        words = "label 7 is of type int, the classes so far are of type str; convert it"
        refused(model(), verbs(TASK.X[:2], ["c0", 7])[verb], words)
    refused(model(), lambda c: c.learn_one(TASK.X[0], (1, 2)), "label .1, 2. is of type tuple")
    start = OnlineTransferClassifier("pa").fit(TASK.X[:2], [None] * 2, sample_domain=[-1, -1])
    with pytest.raises(InputError, match=r"label 1 is of type int.*str"):
        start.partial_fit(TASK.X[:2], ["a", 1])
    assert start.classes_.tolist() == []


def test_labels_that_are_not_hashable():
    bad = np.empty(3, dtype=object)
    bad[:] = [[1], [2], [3]]
    refused(model(), lambda c: c.fit(TASK.X[:3], bad), "must be hashable")
    refused(model(), lambda c: c.partial_fit(TASK.X[:3], bad), "must be hashable")
    refused(model(), lambda c: c.learn_one(TASK.X[0], [1, 2]), "must be hashable")


def test_classes_that_cannot_be():
    for classes, words in ((["a", 1], "mixed types"), ([[1], [2]], "hashable")):
        with pytest.raises(InputError, match=words):
            OnlineTransferClassifier("pa", classes=classes).fit(TASK.X[:2], ["a", "a"])


@pytest.mark.parametrize(
    ("domain", "words"),
    [
        (np.zeros(9), r"sample_domain: shape \(9,\) for 10 rows"),
        (["a", 1] * 5, "1 among names; give whole numbers|'a' among names"),
        (np.zeros((10, 1)), r"shape \(10, 1\)"),
    ],
)
def test_source_numbers_that_cannot_be(domain, words):
    refused(model(), lambda c: c.fit(TASK.X[:10], TASK.y[:10], sample_domain=domain), words)


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


WHOLE = np.round(10 * TASK.X)
LAYOUTS = {
    "fortran": np.asfortranarray(WHOLE),
    "strided": np.repeat(np.repeat(WHOLE, 2, axis=0), 2, axis=1)[::2, ::2],
    "reversed": WHOLE[::-1, ::-1].copy()[::-1, ::-1],
    "big-endian": WHOLE.astype(">f8"),
    "integers": WHOLE.astype(np.int16),
    "list": WHOLE.tolist(),
}


@pytest.mark.parametrize("kind", [*LAYOUTS, "read-only file"])
@pytest.mark.parametrize("method", ["homotlms", "oddm"])
def test_arrays_of_every_layout(method, kind, tmp_path):
    np.save(tmp_path / "x.npy", WHOLE)
    given = LAYOUTS[kind] if kind in LAYOUTS else np.load(tmp_path / "x.npy", mmap_mode="r")
    for steps in ((), "zscore+unit"):
        expected, clf = (
            OnlineTransferClassifier(method, preprocess=steps).fit(X, TASK.y)
            for X in (WHOLE, given)
        )
        np.testing.assert_array_equal(
            clf.predict_then_learn(given, TASK.y), expected.predict_then_learn(WHOLE, TASK.y)
        )
        assert clf.predict_one(given[0]) == expected.predict_one(WHOLE[0])
        np.testing.assert_allclose(clf.learner_.W, expected.learner_.W, atol=1e-8)


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
    assert pool(
        [Domain("a", sp.csr_array([[1.0]]), ["x"]), Domain("b", [[2.0]], ["y"])]
    ).X.shape == (2, 1)


def test_every_error_of_ours_is_a_hedgerow_error_and_a_python_one():
    assert issubclass(InputError, HedgerowError)
    assert issubclass(InputError, ValueError)
    with pytest.raises(MissingExtra, match=r"pip install 'hedgerow\[live\]'") as error:
        require("a_module_that_is_not_there", extra="live")
    assert isinstance(error.value, ImportError)


def scrambled(X):
    """A CSR matrix of the same rows that names its first feature twice, out of order."""
    parts = [
        (np.append(x[1:], [x[0] + 1, -1.0]), np.append(np.arange(1, len(x)), [0, 0])) for x in X
    ]
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
    np.testing.assert_array_equal(
        clf.predict_then_learn(given, TASK.y), expected.predict_then_learn(X, TASK.y)
    )
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
    X = np.round(10 * TASK.X).astype(np.int64)
    codes = np.arange(len(TASK.X)) % 2
    before = X.copy()
    found = JDA(dim=2, rounds=2).fit(X, codes, X[:9]).projection.A
    np.testing.assert_array_equal(
        found, JDA(dim=2, rounds=2).fit(X.astype(float), codes, X[:9].astype(float)).projection.A
    )
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("method", ["hedgerow", "oddm"])
def test_text_in_lists_is_refused_with_the_value_and_the_remedy(method):
    words = "X: not a table of numbers: 'red' at row 0, column . is text; .* or give a data frame"
    with pytest.raises(InputError, match=words):
        OnlineTransferClassifier(method).fit([[1.0, "red"], [2.0, "blue"]], ["a", "b"])
    refused(model(), lambda clf: clf.predict([["red"] * TASK.X.shape[1]]), words)


@pytest.mark.parametrize("width", [20, 20_000])
def test_rows_of_zeros_are_fitted_whatever_their_width(width):
    X = np.zeros((60, width))
    y = np.arange(60) % 2
    clf = OnlineTransferClassifier().fit(X, y)
    clf.predict_then_learn(X[:3], y[:3])
    again = OnlineTransferClassifier.from_bytes(clf.to_bytes())
    assert np.array_equal(again.predict_proba(X[:2]), clf.predict_proba(X[:2]))


OPTIONS = [
    ("oddm", {"aligner": "jdaa"}, "unknown aligner 'jdaa'; did you mean 'jda'"),
    ("oddm", {"aligner": 3}, "aligner=3: give the name of an aligner, or an object"),
    ("oddm", {"aligner": JDA(rounds=0)}, "rounds=0"),
    ("oddm", {"head": "pa11"}, "unknown head 'pa11'; did you mean 'pa1'"),
    ("oddm", {"head": 3}, "head=3: give the name of a head"),
    ("oddm", {"mixer": "hegde"}, "unknown mixer 'hegde'; did you mean 'hedge'"),
    ("oddm", {"mixer": "single"}, "cannot combine 4 experts"),
    ("oddm", {"mixer": 3}, "mixer=3: give the name of a mixer"),
    ("oddm", {"preprocess": "zscores"}, "did you mean 'zscore'"),
    ("oddm", {"reading": "author"}, "did you mean 'authors'"),
    ("oddm", {"reading": Reading(combine="simplex")}, "unknown combine 'simplex'"),
    ("oddm", {"reading": Reading(split_rule="fixed")}, "a classifier does not split"),
    (
        "oddm",
        {"reading": Reading(preprocess=("unit",)), "preprocess": "zscore"},
        "give one of them",
    ),
    ("oddm", {"dim": 0}, "dim=0: must be a whole number, at least 1"),
    ("oddm", {"dim": 2.5}, "dim=2.5"),
    ("oddm", {"dim": "ten"}, "dim='ten': must be a finite number"),
    ("oddm", {"dim": True}, "dim=True"),
    ("oddm", {"C": 0}, "C=0: the aggressiveness"),
    ("oddm", {"mu": -1}, "mu=-1: .*cannot be negative"),
    ("oddm", {"beta": 1.0}, "beta=1.0: the discount must be between 0 and 1"),
    ("oddm", {"beta": 0}, "beta=0"),
    ("oddm", {"beta": "half"}, "beta='half'"),
    ("oddm", {"horizon": 0}, "horizon=0: .*must be positive"),
    ("oddm", {"horizon": float("inf")}, "horizon=inf"),
    ("oddm", {"beta": 0.5, "horizon": 10}, "give one"),
    ("oddm", {"dtype": "float16"}, "dtype='float16': use 'float32'"),
    (
        "oddm",
        {"rank": 3},
        "rank=3: method 'oddm' does not read it.*methods that do: hedgerow, hedgerow-linear",
    ),
    (3, {}, "method=3: give a name of hedgerow.METHODS, or a hedgerow.Recipe"),
    ("homotlsm", {}, "unknown method 'homotlsm'; did you mean 'homotlms'"),
]


@pytest.mark.parametrize(("method", "options", "words"), OPTIONS, ids=str)
def test_unknown_names_and_numbers_out_of_range(method, options, words):
    new = OnlineTransferClassifier(**arguments_of(method, options))
    with pytest.raises(InputError, match=words):
        new.fit_domains(TASK.sources, TASK.warmup)
    assert set(vars(new)) == set(new.get_params(deep=False))
    fitted_before = model().set_params(**arguments_of(method, options))
    refused(fitted_before, lambda clf: clf.fit_domains(TASK.sources, TASK.warmup), words)
