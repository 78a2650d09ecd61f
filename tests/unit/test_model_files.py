"""Files that are damaged, made up, or of another schema are refused by name; none can crash the process.

`support/fuzz_models.py` makes the files; `tests/torture/test_fuzz.py` runs many more of them.
"""

from __future__ import annotations

import io
import json
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
from support import fuzz_models
from support.laws import assert_same_state, fitted, make_task, one_by_one

from hedgerow import OnlineTransferClassifier
from hedgerow.core.errors import InputError

FILES = Path(__file__).parents[1] / "files"
RECORDED = json.loads((FILES / "predictions.json").read_text())


# -- some bytes changed -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["hedgerow", "oddm"])
def test_the_error_names_the_file_as_the_user_did(model, tmp_path):
    data = bytearray(fuzz_models.models()[model]().to_bytes())
    data[-20] ^= 1
    path = tmp_path / "my-model.safetensors"
    path.write_bytes(data)
    for file in (path, str(path), path.open("rb")):
        with pytest.raises(InputError, match=r"my-model\.safetensors is damaged"):
            OnlineTransferClassifier.load(file)
        if isinstance(file, io.IOBase):
            file.close()
    with pytest.raises(InputError, match="the model is damaged"):
        OnlineTransferClassifier.from_bytes(bytes(data))


# -- another content with a right digest --------------------------------------------------------------------------


def test_what_is_signed_anew_is_read():
    """The files below are refused for their content, not for how they are written."""
    for model in ("hedgerow", "oddm", "fixed"):
        data = fuzz_models.models()[model]().to_bytes()
        header, arrays = fuzz_models.opened(data)
        again = fuzz_models.signed(header, arrays)
        found = fuzz_models.opened(OnlineTransferClassifier.from_bytes(again).to_bytes())
        assert found[0] == header
        assert_same_state(found[1], arrays)
        assert fuzz_models.tried(again, True) == "works"


def test_axes_of_half_precision_are_refused():
    """No fit makes them, and the loop that reads them has none."""
    X = np.random.default_rng(0).normal(size=(60, 12))
    y = np.arange(60) % 3
    clf = OnlineTransferClassifier("hedgerow-linear", rank=4).fit(X, y)
    header, arrays = fuzz_models.opened(clf.to_bytes())
    arrays["constants/axes"] = arrays["constants/axes"].astype(np.float16)
    with pytest.raises(InputError, match="'axes' is of type float16"):
        OnlineTransferClassifier.from_bytes(fuzz_models.signed(header, arrays))


CRASHED = {
    "hedgerow": [
        "target.totals",
        "mix.loss",
        "mix.members",
        "mix.H",
        "mix.a",
        "mix.counts",
    ],
    "oddm": [
        "target.totals",
        "W",
        "A",
        "expert_loss",
        "expert_mistakes",
        "target.counts",
    ],
}


@pytest.mark.parametrize(
    ("model", "name"), [(model, name) for model, names in CRASHED.items() for name in names]
)
def test_arrays_that_are_cut_are_refused(model, name):
    """Those that once made compiled loops read beyond their end."""
    header, arrays = fuzz_models.opened(fuzz_models.models()[model]().to_bytes())
    for axis in range(arrays[f"state/{name}"].ndim):
        cut = np.take(arrays[f"state/{name}"], [0], axis=axis)
        if cut.shape == arrays[f"state/{name}"].shape:
            continue
        with pytest.raises(InputError, match="has the shape"):
            OnlineTransferClassifier.from_bytes(
                fuzz_models.signed(header, arrays | {f"state/{name}": cut})
            )


def signed_with(model, **values):
    header, arrays = fuzz_models.opened(fuzz_models.models()[model]().to_bytes())
    for path, value in values.items():
        inner = header
        *outer, last = path.split("__")
        for key in outer:
            inner = inner[int(key) if isinstance(inner, list) else key]
        inner[last] = value
    return fuzz_models.signed(header, arrays)


@pytest.mark.parametrize(
    "values",
    [
        {"params__max_classes": "ten"},
        {"params__options__C": float("nan")},
        {"params__method": 3},
        {"params__options__dtype": "float16"},
        {"params__options__reading": "nobody's"},
        {"params__preprocess": ["no such step"]},
        {"plan__refresh__every": 0},
        {"plan__refresh__mu": -1.0},
        {"plan__refresh__every": 2.5},
        {"plan__experts__0__space": 7},
        {"plan__experts__0__learns": 1},
        {"plan__mixer__name": "nobody's"},
        {"plan__head__options": {"rule": "pa1", "C": -1.0}},
        {"classes__values": ["c0", "c0", "c1", "c2"]},
        {"classes__values": ["c0", "c1"]},
        {"n_features": 5},
        {"learner": "ridge"},
        {"learner": "nobody's"},
        {"sources": ["only one"]},
        {"features": ["u"]},
    ],
    ids=str,
)
def test_wrong_values_are_refused_by_name(values):
    with pytest.raises(InputError, match="the model"):
        OnlineTransferClassifier.from_bytes(signed_with("oddm", **values))


def test_whole_numbers_stand_for_floats():
    """JSON may write 1.0 as 1, and compiled loops need one type."""
    clf = OnlineTransferClassifier.from_bytes(signed_with("oddm", plan__refresh__mu=2))
    assert type(clf.learner_.plan.refresh.mu) is float
    fuzz_models.used(clf)


def test_what_could_not_be_loaded_is_not_saved():
    clf = fuzz_models.models()["oddm"]().set_params(max_classes="ten")
    with pytest.raises(InputError, match="max_classes='ten'"):
        clf.to_bytes()


# -- files that were written before, and of other schemas ----------------------------------------------------------


@pytest.mark.parametrize("name", RECORDED)
def test_files_go_on_where_they_stopped(name):
    """Written at an earlier commit, with what it predicted for the next rows."""
    expected = RECORDED[name]
    clf = OnlineTransferClassifier.load(FILES / f"{name}.safetensors")
    X = np.array(expected["rows"])
    y = np.array(expected["labels"])
    assert (clf.seen_, clf.mistakes_) == (expected["seen"], expected["mistakes"])
    assert clf.classes_.tolist() == expected["classes"]
    assert clf.expert_names_ == expected["experts"]
    np.testing.assert_allclose(clf.bound_, expected["bound"], rtol=1e-12)
    np.testing.assert_allclose(clf.weights_, expected["weights"], rtol=1e-9)
    np.testing.assert_allclose(clf.discrepancy_, expected["discrepancy"], rtol=1e-6)
    np.testing.assert_allclose(clf.predict_proba(X), expected["proba"], atol=1e-10)
    again = OnlineTransferClassifier.from_bytes(clf.to_bytes())
    rows = deepcopy(clf)
    assert clf.predict_then_learn(X, y).tolist() == expected["predictions"]
    assert again.predict_then_learn(X, y).tolist() == expected["predictions"]
    assert one_by_one(rows, X, y).tolist() == expected["predictions"]
    assert clf.mistakes_ == rows.mistakes_ == expected["mistakes_after"]


@pytest.mark.parametrize("name", RECORDED)
def test_the_parameters_of_a_file_can_be_fitted_again(name):
    clf = OnlineTransferClassifier.load(FILES / f"{name}.safetensors")
    task = make_task(0)
    OnlineTransferClassifier(**clf.get_params(deep=False)).fit_domains(task.sources, task.warmup)


@pytest.mark.parametrize(
    ("schema", "remedy"),
    [(5, "fit the model again"), (99, "upgrade"), ("6", "fit the model again")],
)
def test_other_schemas_are_refused_with_what_to_do(schema, remedy):
    with pytest.raises(
        InputError, match=f"the model has schema {schema!r}, this hedgerow reads 6: {remedy}"
    ):
        OnlineTransferClassifier.from_bytes(signed_with("oddm", schema=schema))


def test_an_empty_file_says_that_it_is_empty(tmp_path):
    (tmp_path / "model").touch()
    with pytest.raises(InputError, match=r"model is empty \(0 bytes\)"):
        OnlineTransferClassifier.load(tmp_path / "model")


@pytest.mark.parametrize("place", ["params__friendliness", "plan__spaces__0__friendliness"])
def test_a_file_of_a_newer_version_says_so_and_one_of_this_version_is_damaged(place):
    with pytest.raises(
        InputError,
        match=r"model was written by hedgerow 99\.1\.0, and this is .*: upgrade hedgerow",
    ):
        OnlineTransferClassifier.from_bytes(signed_with("hedgerow", version="99.1.0", **{place: 3}))
    with pytest.raises(InputError, match="the model is damaged"):
        OnlineTransferClassifier.from_bytes(signed_with("hedgerow", **{place: 3}))


def test_a_file_of_a_newer_version_that_can_be_read_is_read():
    assert (
        OnlineTransferClassifier.from_bytes(signed_with("oddm", version="99.1.0")).method == "oddm"
    )


# -- constants that many models share -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method", ["hedgerow", "hedgerow-linear", "oddm", "oddm-fixed", "homotlms"]
)
def test_models_of_one_fit_share_their_constants(method):
    task = make_task(0, stream=80)
    clf = fitted(task, method)
    twin = deepcopy(clf)
    whole = len(clf.to_bytes())
    clf.partial_fit(task.X, task.y)
    third = OnlineTransferClassifier.from_bytes(clf.to_bytes(), constants=twin.constants_)
    for other in (twin, third):
        assert other.constants_.digest == clf.constants_.digest
        for name in clf.constants_:
            if clf.constants_[name].size:
                assert np.shares_memory(clf.constants_[name], other.constants_[name]), name
            assert not clf.constants_[name].flags.writeable
    assert len(twin.to_bytes(constants=False)) < whole


@pytest.mark.parametrize(
    "method", ["hedgerow", "hedgerow-linear", "oddm", "oddm-fixed", "homotlms"]
)
def test_a_file_without_constants(method, tmp_path):
    task = make_task(0, stream=80)
    clf = fitted(task, method).partial_fit(task.X[:40], task.y[:40])
    path = tmp_path / "state"
    clf.save(path, constants=False)
    assert not any(
        name.startswith("constants/") for name in fuzz_models.opened(path.read_bytes())[1]
    )
    with pytest.raises(InputError, match=r"state: .*no constants; pass constants="):
        OnlineTransferClassifier.load(path)
    other = fitted(make_task(1), method)
    with pytest.raises(InputError, match=r"state: .*belongs to other constants"):
        OnlineTransferClassifier.load(path, constants=other.constants_)
    loaded = OnlineTransferClassifier.load(path, constants=deepcopy(clf).constants_)
    assert_same_state(loaded.learner_.arrays(), clf.learner_.arrays())
    np.testing.assert_array_equal(
        loaded.predict_then_learn(task.X[40:], task.y[40:]),
        clf.predict_then_learn(task.X[40:], task.y[40:]),
    )


def test_constants_of_a_loaded_model_read_other_states():
    """A file leaves out priors that the state has replaced; such constants cannot start a model that needs them."""
    task = make_task(0, stream=120)
    fresh = fitted(task, "hedgerow")
    late = deepcopy(fresh).partial_fit(task.X, task.y)
    start = fresh.to_bytes(constants=False)
    end = late.to_bytes(constants=False)
    loaded = OnlineTransferClassifier.from_bytes(late.to_bytes())
    assert OnlineTransferClassifier.from_bytes(end, constants=loaded.constants_).seen_ == 120
    if not loaded.constants_.complete:
        with pytest.raises(InputError, match="the model"):
            OnlineTransferClassifier.from_bytes(start, constants=loaded.constants_)
    assert OnlineTransferClassifier.from_bytes(start, constants=fresh.constants_).seen_ == 0


def test_the_same_model_is_the_same_file():
    clf = fuzz_models.models()["oddm"]()
    assert len({clf.to_bytes() for _ in range(20)}) == 1
