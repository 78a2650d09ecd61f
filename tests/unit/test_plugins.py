"""Plug-in files: parts and recipes of one's own on the command line and in other processes."""

from __future__ import annotations

import os

import numpy as np
import pytest

from hedgerow import OnlineTransferClassifier
from hedgerow.core.errors import InputError
from hedgerow.core.registry import PLUGINS, use_plugins
from hedgerow.estimator import arguments_of
from hedgerow.heads import HEADS, make_head
from hedgerow.methods import METHODS

FILE = """
from dataclasses import dataclass
from hedgerow import Recipe, register_head
from hedgerow.heads import StepwiseHead

@dataclass(frozen=True)
class Plain(StepwiseHead):
    def step(self, W, z, y, f):
        W[y] += z

register_head("plain-for-test", Plain)
for_test = Recipe("For test", "per-source", aligner="coral", frozen="each", head="plain-for-test")
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    monkeypatch.setenv(PLUGINS, "")
    yield path
    HEADS.unregister("plain-for-test")
    METHODS.unregister("for_test")


def test_names_of_a_file_are_known_once_it_is_in_use(file):
    with pytest.raises(InputError, match="unknown head 'plain-for-test'"):
        make_head("plain-for-test")
    assert "for_test" not in METHODS
    use_plugins([file])
    use_plugins([file])
    assert os.environ[PLUGINS] == str(file)
    assert type(make_head("plain-for-test")).__name__ == "Plain"
    assert METHODS["for_test"].title == "For test"
    assert "for_test" in list(METHODS)


def test_a_model_holds_the_recipe_itself(file):
    use_plugins([file])
    X = np.random.default_rng(0).normal(size=(40, 3))
    y = np.arange(40) % 2
    clf = OnlineTransferClassifier(**arguments_of("for_test", {})).fit(X, y)
    METHODS.unregister("for_test")
    again = OnlineTransferClassifier.from_bytes(clf.to_bytes())
    assert again.method == clf.method
    assert again.method_ == "For test"
    assert again.predict_then_learn(X, y).tolist() == clf.predict_then_learn(X, y).tolist()


def test_a_file_that_is_not_there_or_fails(file, tmp_path):
    with pytest.raises(InputError, match=r"no plug-in file at .*nowhere\.py"):
        use_plugins([tmp_path / "nowhere.py"])
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            use_plugins([broken])
    assert os.environ[PLUGINS] == ""
