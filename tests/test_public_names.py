"""Every public name is documented, with an example that runs (doctests are part of the suite)."""

from __future__ import annotations

import inspect

import pytest

import hedgerow

DATA = {"METHODS", "__version__"}  # tables and numbers: documented where they are made


@pytest.mark.parametrize("name", sorted(set(hedgerow.__all__) - DATA))
def test_it_has_a_docstring_with_an_example(name):
    text = inspect.getdoc(getattr(hedgerow, name)) or ""
    assert len(text) > 20, f"hedgerow.{name} has no docstring"
    assert ">>>" in text, f"hedgerow.{name} has no example"


def test_public_methods_and_properties_of_the_estimator_are_documented():
    ours = [cls for cls in hedgerow.OnlineTransferClassifier.__mro__ if cls.__module__.startswith("hedgerow.")]
    written = {name for cls in ours for name in vars(cls) if not name.startswith("_")}
    assert {"fit", "fit_domains", "predict", "learn_one", "weights_", "save"} <= written
    for name in sorted(written):
        member = getattr(hedgerow.OnlineTransferClassifier, name)
        assert not (callable(member) or isinstance(member, property)) or inspect.getdoc(member), name


def test_every_keyword_of_the_estimator_is_documented():
    documented = inspect.getdoc(hedgerow.OnlineTransferClassifier)
    for name in inspect.signature(hedgerow.OnlineTransferClassifier).parameters:
        assert name in documented, name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        hedgerow.nonsense  # noqa: B018
