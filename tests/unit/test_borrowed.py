"""What we use of other packages beyond their documented interfaces is still there, and as we use it.

These tests run first (`conftest.py`). One that fails names what is gone and the file that uses it: adapt that file, and
move the upper bound of the package in pyproject.toml.
"""

from __future__ import annotations

import ast
import inspect
import tomllib
from importlib.metadata import distribution, version
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult, Flags
from numba.core.options import DefaultOptions
from packaging.requirements import Requirement
from sklearn import utils
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.utils import validation

from hedgerow.ridge.trees import quick_bins

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
NODES = {"is_leaf", "feature_idx", "value", "num_threshold", "left", "right", "missing_go_to_left"}


def gone(package: str, what: str, file: str) -> str:
    return f"{package} {version(package)} has no {what}, or another one, which src/hedgerow/{file} uses"


@pytest.mark.parametrize(
    ("package", "extra"),
    [("numba", ""), ("scikit-learn", ""), ("msgspec", "live"), ("mlflow-skinny", "mlflow")],
)
def test_their_versions_are_bounded(package, extra):
    project = tomllib.loads(PROJECT.read_text())["project"]
    asked = project["optional-dependencies"][extra] if extra else project["dependencies"]
    (own,) = (each for each in map(Requirement, asked) if each.name == package)
    assert any(bound.operator == "<" for bound in own.specifier)
    assert version(package) in own.specifier


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (DefaultOptions, "_nrt forceinline no_cfunc_wrapper no_cpython_wrapper nogil fastmath"),
        (numba.njit(lambda: 1), "_cache get_call_template get_overload overloads stats"),
        (Compiler, "compile_extra"),
        (CompileResult, "_rebuild _reduce"),
        (FunctionCache, "_index_key load_overload save_overload cache_path"),
        (IndexDataCacheFile, "load save flush"),
        (
            JITCodeLibrary,
            "_ensure_finalized _finalize_dynamic_globals _get_module_for_linking codegen finalize",
        ),
        (JITCodeLibrary, "get_pointer_to_function"),
    ],
)
def test_numba_has_the_names_that_kernels_are_compiled_with(owner, names):
    for name in names.split():
        assert hasattr(owner, name), gone("numba", f"{owner}.{name}", "kernels/compiled.py")


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (IndexDataCacheFile.__init__, "self cache_path filename_base source_stamp"),
        (IndexDataCacheFile.load, "self key"),
        (IndexDataCacheFile.save, "self key data"),
        (FunctionCache.load_overload, "self sig target_context"),
        (FunctionCache.save_overload, "self sig data"),
        (FunctionCache._index_key, "self sig codegen"),
        (Compiler.compile_extra, "self func"),
        (Flags.__init__, "self copy_from"),
    ],
)
def test_numba_calls_them_as_we_do(function, parameters):
    name = function.__qualname__
    assert [*inspect.signature(function).parameters] == parameters.split(), gone(
        "numba", name, "kernels/compiled.py"
    )


@pytest.mark.parametrize("classes", [2, 3])
def test_boosted_trees_of_scikit_learn_can_be_read(classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    y = np.arange(90) % classes
    model = HistGradientBoostingClassifier(max_iter=4).fit(X, y)
    file = "ridge/trees.py"
    assert hasattr(model, "_predictors"), gone("scikit-learn", "_predictors", file)
    each = 1 if classes == 2 else classes
    assert [len(trees) for trees in model._predictors] == [each] * 4, gone(
        "scikit-learn", "_predictors", file
    )
    assert set(model._predictors[0][0].nodes.dtype.names) >= NODES, gone(
        "scikit-learn", "nodes of a tree", file
    )
    start = model._baseline_prediction
    assert np.size(start) == each, gone("scikit-learn", "_baseline_prediction", file)


def test_bins_of_scikit_learn_are_made_in_bin_data():
    """Weights are None there after the rows, so that bins do not look at them."""
    parameters = [*inspect.signature(HistGradientBoostingClassifier._bin_data).parameters]
    assert parameters[:2] == ["self", "X"], gone("scikit-learn", "_bin_data", "ridge/trees.py")
    X = np.random.default_rng(0).normal(size=(600, 1))
    weight = np.linspace(0.01, 9, 600)
    models = [
        quick_bins(HistGradientBoostingClassifier)(max_iter=1, max_leaf_nodes=2).fit(
            X, X[:, 0] > 0, sample_weight=w
        )
        for w in (weight, None)
    ]
    with_weight, without = (model._bin_mapper.bin_thresholds_[0] for model in models)
    np.testing.assert_array_equal(
        with_weight, without, gone("scikit-learn", "_bin_data", "ridge/trees.py")
    )


def test_helpers_of_scikit_learn_are_there():
    X = np.arange(6.0).reshape(3, 2)
    file = "pipeline.py"
    for owner, name in ((utils, "_safe_indexing"), (validation, "_is_fitted _num_samples")):
        for one in name.split():
            assert hasattr(owner, one), gone("scikit-learn", one, file)
    assert validation._num_samples(X) == 3
    assert utils._safe_indexing(X, np.array([2]))[0, 0] == 4
    assert not validation._is_fitted(StandardScaler())
    assert validation._is_fitted(StandardScaler().fit(X))


def test_mlflow_patches_methods_as_we_ask_it_to():
    """Its interface for flavours, which is not documented; read as text, since its import takes seconds."""
    installed = distribution("mlflow-skinny")
    folder = Path(str(installed.locate_file("mlflow/utils/autologging_utils")))
    safety = (folder / "safety.py").read_text(encoding="utf-8")
    patch = next(
        each for each in ast.parse(safety).body if getattr(each, "name", "") == "safe_patch"
    )
    names = [each.arg for each in patch.args.args]
    wanted = [
        "autologging_integration",
        "destination",
        "function_name",
        "patch_function",
        "manage_run",
    ]
    assert names[:5] == wanted, gone("mlflow-skinny", "safe_patch", "mlflow.py")
    integration = (folder / "__init__.py").read_text(encoding="utf-8")
    assert "def autologging_integration(name):" in integration, gone(
        "mlflow-skinny", "autologging_integration", "mlflow.py"
    )
