"""A user's program under `mypy --strict`: every mistake in it is found, and nothing else is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import hedgerow

PROGRAM = """
from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

import hedgerow
from hedgerow import Domain, OnlineTransferClassifier, OnlineTransferRegressor, Reading, load_model, reading_of
from hedgerow.estimator import Explanation, Explanations, NamedValues
from hedgerow.learner import Prediction, Trace
from hedgerow.regressor import NumberExplanation

rows: npt.NDArray[np.float64] = np.zeros((4, 2))
sources = [Domain("a", rows, ["x", "y", "x", "y"])]
clf = OnlineTransferClassifier("oddm", reading=reading_of("authors", lam=1.0)).fit_domains(sources)
label: Hashable = clf.predict_one(rows[0])
shares: dict[Hashable, float] = clf.predict_proba_one(rows[0])
weights: NamedValues = clf.learn_one(rows[0], "x").weights_
trusted: float = weights["target via a"]
column: npt.NDArray[np.float64] = weights.array
explanation: Explanation = clf.explain_one(rows[0])
explanations: Explanations = clf.explain_then_learn(rows, ["x"] * 4)
mistakes: int = clf.mistakes_ + clf.seen_
data: bytes = clf.set_params(max_classes=3).to_bytes()
again: OnlineTransferClassifier = OnlineTransferClassifier.from_bytes(data)
prediction: Prediction = clf.learner_.predict_row(rows[0])
trace: Trace = clf.learner_.run(rows, np.zeros(4, dtype=np.int64))

reg = OnlineTransferRegressor(coverage=(0.9, 0.5)).fit(rows, [0.5, 1.5, 2.5, 3.5])
predicted: float = reg.partial_fit(rows, [1.0] * 4).predict_one(rows[0])
low, high = reg.predict_interval_one(rows[0], 0.5)
reasons: NumberExplanation = reg.explain_one(rows[0])
covered: dict[float, float] = reg.coverage_
shared: NamedValues = reg.learn_one(rows[0], 2.5).weights_
either: OnlineTransferClassifier | OnlineTransferRegressor = load_model("model")

clf.predict_on(rows[0])  # wrong: no such method
hedgerow.OnlineTransferClasifier()  # wrong: no such name
OnlineTransferClassifier(metod="pa")  # wrong: no such parameter
OnlineTransferClassifier(dim="ten")  # wrong: a parameter's type
number: int = clf.predict_one(rows[0])  # wrong: a label is of any hashable kind
listed: list[float] = clf.predict_proba_one(rows[0])  # wrong: a dict
first: float = clf.weights_[0]  # wrong: by name
far: str = clf.discrepancy_["a"]  # wrong: a number
vote: int = explanation.votes["target"]  # wrong: a label
text: str = clf.to_bytes()  # wrong: bytes
clf.seen_.append(3)  # wrong: an int
clf.fit_domains(rows)  # wrong: domains
code: str = prediction.code  # wrong: an int
trace.prediction  # wrong: no such attribute
Reading(lam="one")  # wrong: an answer's type
model: Domain = OnlineTransferClassifier.load("model")  # wrong: a classifier
reg.mistakes_  # wrong: of classes
reg.predict_proba(rows)  # wrong: of classes
OnlineTransferRegressor(coverage="0.9")  # wrong: a number
word: str = reg.predict_one(rows[0])  # wrong: a number
only: OnlineTransferRegressor = load_model("model")  # wrong: it may be a classifier
"""


def test_a_type_checker_finds_the_mistakes_of_a_program_and_no_others(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    source = Path(hedgerow.__file__).parents[1]
    call = ["-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=", f"--cache-dir={tmp_path / 'cache'}"]
    done = subprocess.run(
        [sys.executable, *call, str(program)],
        env={"MYPYPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )
    wrong = {i for i, line in enumerate(PROGRAM.splitlines(), 1) if "# wrong" in line}
    reported = {int(line) for line in re.findall(r"program\.py:(\d+): error", done.stdout)}
    assert len(wrong) == 21
    assert reported == wrong, done.stdout + done.stderr
