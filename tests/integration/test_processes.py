"""What holds in a process of its own: nothing was imported there, registered or fitted before."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support.laws import fitted, make_task

PLUGIN = """
from dataclasses import dataclass
from hedgerow.heads import StepwiseHead, register_head

@dataclass(frozen=True)
class Plugged(StepwiseHead):
    rate: float = 0.1

    def step(self, W, z, y, f):
        W[y] += self.rate * z

register_head("plugged", Plugged)
"""

USE = """
import sys
import numpy as np
from hedgerow import OnlineTransferClassifier, PaperOptions
X, y = np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 3
if sys.argv[1] == "save":
    clf = OnlineTransferClassifier("homotlms", options=PaperOptions(head="plugged")).fit(X, y).partial_fit(X, y)
    assert type(clf.learner_.plan.head).__module__ == "hedgerow_plugin_plugged"
    clf.save(sys.argv[2])
else:
    assert "hedgerow_plugin_plugged" not in sys.modules
    clf = OnlineTransferClassifier.load(sys.argv[2])
    assert clf.learn_one(X[0], 1).seen_ == 31
    assert "hedgerow_plugin_plugged" in sys.modules
"""


def test_a_plug_in_file_is_run_when_one_of_its_names_is_asked_for(tmp_path):
    """Its head can be asked for, and a model file that has it can be read, in a process that imports nothing of it."""
    plugin = tmp_path / "plugged.py"
    plugin.write_text(PLUGIN)
    (tmp_path / "use.py").write_text(USE)
    known = {**os.environ, "HEDGEROW_PLUGINS": str(plugin)}
    for verb in ("save", "load"):
        command = [sys.executable, str(tmp_path / "use.py"), verb, str(tmp_path / "model")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=known)
        assert done.returncode == 0, done.stderr
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert "the head 'plugged', which is not registered here" in done.stderr


@pytest.mark.parametrize("method", ["hedgerow", "oddm"])
def test_a_new_process_loads_what_this_one_saved(method, tmp_path):
    """Nothing was fitted there before, so nothing was imported on the way."""
    task = make_task(0)
    fitted(task, method).partial_fit(task.X, task.y).save(tmp_path / "model")
    script = f"from hedgerow import OnlineTransferClassifier as C; print(C.load({str(tmp_path / 'model')!r}).seen_)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300
    )
    assert (done.stdout, done.stderr) == ("50\n", "")


def test_a_bare_core_is_enough_for_the_library():
    """None of the extras' packages is imported by fitting, predicting, saving and loading."""
    code = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"cyclopts", "rich", "h5py", "pyarrow", "matplotlib", "starlette", "pandas"}:
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import hedgerow
domains = hedgerow.load("digits")
warmup, stream = hedgerow.split(domains["thin"], warmup=0.3, seed=0)
clf = hedgerow.OnlineTransferClassifier("homotlms").fit_domains([domains["faded"]], warmup)
clf.predict_then_learn(stream.X[:50], stream.y[:50])
hedgerow.OnlineTransferClassifier.from_bytes(clf.to_bytes()).predict(stream.X[50:60])
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_pipeline_without_skops_says_what_to_install():
    code = """
import sys
sys.modules["skops"] = None
import numpy as np
from hedgerow import OnlineTransferClassifier, PaperOptions
from hedgerow.pipeline import make_online_pipeline
X = np.random.default_rng(0).normal(size=(20, 3))
make_online_pipeline("passthrough", OnlineTransferClassifier("pa")).fit(X, X[:, 0] > 0).save("here")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'hedgerow[pipeline]'" in done.stderr
