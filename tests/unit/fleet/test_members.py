"""A key's state is its rows: whatever a model of its own would predict, it predicts."""

import numpy as np
import pytest
from support.laws import METHODS

from hedgerow import InputError, OnlineTransferClassifier, load, split
from hedgerow.fleet import Base, KeyState


@pytest.fixture(scope="module")
def digits():
    domains = load("digits")
    _, stream = split(domains["shifted"], warmup=0.3, seed=0)
    return [domains[name] for name in ("thin", "tilted")], stream


@pytest.mark.parametrize("method", METHODS)
def test_a_member_predicts_what_a_model_of_its_own_predicts(digits, method):
    sources, stream = digits
    base = Base.fit(sources, method)
    own = OnlineTransferClassifier(method).fit_domains(sources)
    state = None
    for a in (0, 1, 20, 60):
        b = {0: 1, 1: 20, 20: 60, 60: 100}[a]
        member = base.member(state)
        said = member.predict_then_learn(stream.X[a:b], stream.y[a:b])
        assert said.tolist() == own.predict_then_learn(stream.X[a:b], stream.y[a:b]).tolist()
        state = member.to_bytes()
    assert base.member(state).seen_ == 100


def test_a_class_that_no_source_has_is_kept(digits):
    sources, stream = digits
    base = Base.fit(sources, "hedgerow-linear")
    labels = [*stream.y[:5].tolist(), 77, None, 77]
    member = base.member().learn(stream.X[:8], labels)
    again = base.member(member.to_bytes())
    assert again.classes_.tolist()[-1] == 77
    assert again.seen_ == 7
    np.testing.assert_allclose(
        again.predict_proba(stream.X[10:20]), member.predict_proba(stream.X[10:20]), atol=1e-9
    )


def test_weights_are_kept(digits):
    sources, stream = digits
    base = Base.fit(sources, "hedgerow-linear")
    member = base.member().learn(stream.X[:5], stream.y[:5], sample_weight=[1, 2, 0, 0.5, 1])
    again = base.member(member.to_bytes())
    np.testing.assert_allclose(
        again.predict_proba(stream.X[10:20]), member.predict_proba(stream.X[10:20]), atol=1e-9
    )
    assert again.seen_ == 4


def test_many_rows_become_a_snapshot(digits):
    sources, stream = digits
    base = Base.fit(sources, "hedgerow-linear")
    member = base.member()
    X = np.tile(stream.X, (10, 1))
    y = np.tile(stream.y, 10)
    member.learn(X[:600], y[:600])
    state = member.to_bytes()
    assert KeyState.from_bytes(state, base.digest, "k").snapshot
    again = base.member(state)
    assert again.seen_ == 600
    assert again.predict(X[600:640]).tolist() == member.predict(X[600:640]).tolist()


def test_states_of_others_are_refused_by_name(digits):
    sources, stream = digits
    base = Base.fit(sources, "hedgerow-linear")
    other = Base.fit(sources[:1], "hedgerow-linear")
    state = base.member().learn(stream.X[:3], stream.y[:3]).to_bytes()
    with pytest.raises(InputError, match=r"key 'a'.*other sources.*forget"):
        other.member(state, "key 'a'")
    with pytest.raises(InputError, match=r"key 'a'.*format b'9'.*reads b'2'"):
        base.member(b"hrk9" + state[4:], "key 'a'")
    with pytest.raises(InputError, match=r"key 'a': its state is not a record.*restore"):
        base.member(b"what", "key 'a'")
    for place in range(len(state)):
        broken = bytearray(state)
        broken[place] ^= 4
        with pytest.raises(InputError, match="key 'a'"):
            base.member(bytes(broken), "key 'a'")
    for end in range(0, len(state), 7):
        with pytest.raises(InputError, match="key 'a'"):
            base.member(state[:end], "key 'a'")


def test_a_model_with_labels_is_no_base(digits):
    sources, stream = digits
    clf = OnlineTransferClassifier("pa").fit_domains(sources)
    clf.learn_one(stream.X[0], stream.y[0])
    with pytest.raises(InputError, match="1 labels of a target"):
        Base(clf)
