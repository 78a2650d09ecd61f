"""A user's program under `mypy --strict`: every mistake in it is found, and nothing else is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import hedgerow

PROGRAM = """
import numpy as np
import numpy.typing as npt

import hedgerow
from hedgerow import Domain, OnlineTransferClassifier, OnlineTransferRegressor, PaperOptions, Reading
from hedgerow import load_model, reading_of
from hedgerow.client import AsyncClient, Client, Prediction
from hedgerow.estimator import Explanation, Explanations, NamedValues
from hedgerow.fleet import Fleet
from hedgerow.learner import Prediction as Step
from hedgerow.learner import Trace
from hedgerow.live import Answer, LabelResult, LiveModel
from hedgerow.regressor import NumberExplanation

rows: npt.NDArray[np.float64] = np.zeros((4, 2))
sources = [Domain("a", rows, ["x", "y", "x", "y"])]
options = PaperOptions(reading=reading_of("authors", lam=1.0))
clf = OnlineTransferClassifier("oddm", options=options).fit_domains(sources)
label: str = clf.predict_one(rows[0])  # of the labels' own type, without a cast
shares: dict[str, float] = clf.predict_proba_one(rows[0])
vote: str = clf.explain_one(rows[0]).votes["target via a"]
clf.fit_domains([(rows, label), "b.csv"], rows, label="kind").fit_domains({"a": sources[0]})
weights: NamedValues = clf.learn_one(rows[0], "x").weights_
trusted: float = weights["target via a"]
column: npt.NDArray[np.float64] = weights.array
explanation: Explanation = clf.explain_one(rows[0])
explanations: Explanations = clf.explain_then_learn(rows, ["x"] * 4)
mistakes: int = clf.mistakes_ + clf.seen_
data: bytes = clf.set_params(max_classes=3).to_bytes()
again: OnlineTransferClassifier = OnlineTransferClassifier.from_bytes(data)
prediction: Step = clf.learner_.predict_row(rows[0])
trace: Trace = clf.learner_.run(rows, np.zeros(4, dtype=np.int64))

reg = OnlineTransferRegressor(coverage=(0.9, 0.5)).fit(rows, [0.5, 1.5, 2.5, 3.5])
predicted: float = reg.partial_fit(rows, [1.0] * 4).predict_one(rows[0])
low, high = reg.predict_interval_one(rows[0], 0.5)
reasons: NumberExplanation = reg.explain_one(rows[0])
covered: dict[float, float] = reg.coverage_
shared: NamedValues = reg.learn_one(rows[0], 2.5).weights_
either: OnlineTransferClassifier | OnlineTransferRegressor = load_model("model")


def told(live: LiveModel, client: Client, fleet: Fleet) -> None:
    answer: Answer = live.predict({"x": 1.0})
    answer = live.predict(rows[0], "id")
    answer = live.predict_then_learn([1.0, 2.0], "x")
    answers: list[Answer] = live.predict([[1.0, 2.0]])
    answers = live.predict(rows, ["a", "b", "c", "d"])
    answer, answers = fleet.predict("k", rows[0], "id"), fleet.predict(["k"], rows, ["id"])
    result: LabelResult = fleet.label("k", "id", "x")
    model, shops = client.model("m"), client.fleet("f")
    said: Prediction = model.predict({"x": 1.0})
    many: list[Prediction] = model.predict([[1.0, 2.0]], ["a"], explain=True)
    said, many = shops.predict("k", [1.0, 2.0]), shops.predict("k", [{"x": 1.0}])
    many = shops.predict_then_learn(["k"], [[1.0, 2.0]], ["x"])
    status: str = shops.label("k", "id", "x").status
    there: list[str] = model.forget("a", "b")
    answers = live.predict([1.0])  # wrong: one
    said = model.predict([[1.0]])  # wrong: many
    many = shops.predict("k", {"x": 1.0})  # wrong: one
    model.predict([[1.0]], explain="x")  # wrong: a parameter's type
    result = fleet.label("id", "x")  # wrong: no key


async def awaited(live: LiveModel, client: AsyncClient) -> None:
    answer: Answer = await live.aio.predict([1.0, 2.0])
    answers: list[Answer] = await live.aio.predict([[1.0, 2.0]])
    said: Prediction = await client.model("m").predict({"x": 1.0})
    many: list[Prediction] = await client.fleet("f").predict(["k"], [[1.0]], ["id"])
    said = client.model("m").predict({"x": 1.0})  # wrong: it is awaited


clf.predict_on(rows[0])  # wrong: no such method
hedgerow.OnlineTransferClasifier()  # wrong: no such name
OnlineTransferClassifier(metod="pa")  # wrong: no such parameter
OnlineTransferClassifier(options=PaperOptions(dim="ten"))  # wrong: a parameter's type
listed: list[float] = clf.predict_proba_one(rows[0])  # wrong: a dict
first: float = clf.weights_[0]  # wrong: by name
far: str = clf.discrepancy_["a"]  # wrong: a number
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
    call = [
        "-m",
        "mypy",
        "--strict",
        "--follow-imports=silent",
        "--config-file=",
        f"--cache-dir={tmp_path / 'cache'}",
    ]
    done = subprocess.run(
        [sys.executable, *call, str(program)],
        env={"MYPYPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )
    wrong = {i for i, line in enumerate(PROGRAM.splitlines(), 1) if "# wrong" in line}
    reported = {int(line) for line in re.findall(r"program\.py:(\d+): error", done.stdout)}
    assert len(wrong) == 25
    assert reported == wrong, done.stdout + done.stderr
