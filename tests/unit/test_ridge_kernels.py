"""Our learner against its plain NumPy form (`ridge/plain.py`): the compiled mixture, and whole streams."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.laws import fitted, law, make_task, seeds
from support.ridge import mix

from hedgerow.kernels.rows import rows_dots, rows_times, symmetric_rows
from hedgerow.ridge import mixture
from hedgerow.ridge.plain import PlainLearner, centred, mix_row


@given(seeds, st.integers(1, 4), st.integers(2, 6), st.booleans())
@law(25)
def test_the_compiled_mixture_is_its_twin(seed, heads, K, new_class):
    rng = np.random.default_rng(seed)
    known = K - 1 if new_class and K > 2 else K
    F = centred(rng.normal(scale=rng.choice([0.1, 1.0]), size=(12, heads, K)))
    y = rng.integers(-1, K, size=12)
    compiled = mixture.initial(heads, K)
    plain = {name[4:]: array for name, array in mixture.initial(heads, K).items()}
    P, weights = mix(compiled, F, y, known)
    expected = [mix_row(plain, f, label, known) for f, label in zip(F, y, strict=True)]
    np.testing.assert_allclose(P, [p for p, _ in expected], atol=1e-9)
    np.testing.assert_allclose(weights, [w for _, w in expected], atol=1e-9)
    for name, array in plain.items():
        lower = (
            np.tril(np.ones(array.shape[-2:], bool)) if name == "H" else np.ones(array.shape, bool)
        )
        np.testing.assert_allclose(
            compiled[f"mix.{name}"] * lower, array * lower, rtol=1e-7, atol=1e-7, err_msg=name
        )


@given(seeds, st.integers(1, 23), st.integers(1, 6), st.integers(1, 9))
@law(25)
def test_compiled_products_are_their_twins_and_a_row_gets_what_it_gets_alone(seed, d, q, n):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.normal(size=(d, d)))
    P = upper + np.tril(rng.normal(size=(d, d)), -1)  # what is below the diagonal is not read
    M = rng.normal(size=(d, q)).astype(np.float32)
    Z = rng.normal(size=(n, d + 3))
    at = Z[:, 2 : 2 + d]
    work = {
        "symmetric": lambda Z, out: symmetric_rows(P, Z, len(Z), 2, out),
        "times": lambda Z, out: rows_times(Z, len(Z), 2, M, out, 1),
        "dots": lambda Z, out: rows_dots(np.ascontiguousarray(Z[:, 2:]), len(Z), M.T.copy(), out),
    }
    expected = {
        "symmetric": (slice(2, 2 + d), at @ (upper + np.triu(upper, 1).T)),
        "times": (slice(1, 1 + q), at @ M),
        "dots": (slice(q), at @ M),
    }
    for name, run in work.items():
        columns, twin = expected[name]
        out = np.zeros((n, d + q + 3))
        run(Z, out)
        np.testing.assert_allclose(out[:, columns], twin, atol=1e-12, err_msg=name)
        alone = np.zeros((1, d + q + 3))
        run(Z[:1], alone)
        np.testing.assert_array_equal(alone[0, columns], out[0, columns], err_msg=name)


def test_a_stack_that_forgets_follows_a_change():
    """Two heads; the one that is right changes. The mixture must come to believe the stack that forgot."""
    rng = np.random.default_rng(0)
    state = mixture.initial(2, 3)
    late = []
    for t in range(400):
        y = int(rng.integers(3))
        right = 0.2 * np.eye(3)[y]
        wrong = 0.2 * np.eye(3)[(y + 1) % 3]
        F = centred(np.array([right, wrong] if t < 200 else [wrong, right]))
        late.append(mix(state, F[None], [y])[0].argmax() != y)
    assert np.mean(late[:200]) < 0.1
    assert np.mean(late[300:]) < 0.1


@pytest.mark.parametrize(
    ("method", "m", "rooted"),
    [("hedgerow", 9, True), ("hedgerow", 40, False), ("hedgerow-linear", 9, None)],
)
def test_a_stream_in_blocks_is_the_plain_form_one_by_one(method, m, rooted):
    task = make_task(11, n=3, m=m, stream=170)
    clf = fitted(task, method)
    y = np.searchsorted(clf.classes_, task.y)
    plain = PlainLearner(clf.learner_)
    expected = [plain.step(x, label) for x, label in zip(task.X, y, strict=True)]
    np.testing.assert_array_equal(clf.learner_.run(task.X, y).predictions, expected)
    for space, twin in zip(clf.learner_.spaces, plain.spaces, strict=True):
        if space.settings.name == "kernel":
            assert (space.map.A is not None) == rooted
        pending = clf.learner_.stored()["space.0.G"]
        regression = space.regression
        n = len(pending)
        known = regression.M + regression.G[:n].T @ regression.E[:n]
        np.testing.assert_allclose(known, twin.M, atol=1e-7)
