"""
A head of your own
==================

A head is the update rule of a linear expert. This one is a perceptron with a decreasing step. It works in any method of
the paper, is tested by ``hedgerow.testing``, and is saved with the model.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt

from hedgerow import OnlineTransferClassifier, PaperOptions, load, split
from hedgerow.extend import StepwiseHead, register_head
from hedgerow.testing import check_head


@dataclass(frozen=True)
class Careful(StepwiseHead):
    """A perceptron whose step is inversely proportional to the length of what it knows."""

    rate: float = 1.0

    def step(self, W, z, y, f):
        said = f.argmax()
        if said != y:
            size = self.rate / (1.0 + (W[y] ** 2).sum() ** 0.5)
            W[y] += size * z
            W[said] -= size * z


register_head("careful", Careful)
check_head(Careful())  # an AssertionError would name the law that is broken

domains = load("digits")
warmup, stream = split(domains["shifted"], warmup=0.3, seed=0)
sources = [domain for name, domain in domains.items() if name != "shifted"]
rates = {}
for head in ("careful", "perceptron", "pa1", "arow"):
    clf = OnlineTransferClassifier("homotlms", options=PaperOptions(head=head)).fit_domains(
        sources, warmup
    )
    rates[head] = 100 * (clf.predict_then_learn(stream.X, stream.y) != stream.y).mean()

figure, panel = plt.subplots()
panel.bar_label(panel.barh(list(rates), list(rates.values())), fmt="%.1f")
panel.set(xlabel="mistakes of HomOTLMS with this head, %", xlim=(0, 30))
