"""What aligners, heads, mixers and methods of your own are built from. The default method `hedgerow` uses none of them.

They are parts of the methods of the paper's kind (`oddm`, `homotlms`, `pa` and the others, or a `hedgerow.Recipe`). A
part is a frozen dataclass of its options:

- an aligner has `fit(source, codes, target)` and returns an `Alignment`: a `Projection` that is m x d for m features
  (rows may be sparse: `dense` makes them an array; there may be no target rows), and an `Info`;
- a head is a `StepwiseHead` with `step(W, z, y, f)`, or a `Head` with `block` and `averaged`;
- a mixer is a `Mixer` with `losses`, `advice`, `rates`, `bound` and `guarantee`.

`PaperOptions(head=Gentle())` takes the object; a registered class can be named (`PaperOptions(head="gentle")`), and its
models can be loaded. The checks of `hedgerow.testing` say which law a part breaks.

>>> from dataclasses import dataclass
>>> from hedgerow import OnlineTransferClassifier, PaperOptions
>>> from hedgerow.extend import StepwiseHead
>>> @dataclass(frozen=True)
... class Gentle(StepwiseHead):
...     rate: float = 0.1
...     def step(self, W, z, y, f):
...         if f.argmax() != y:
...             W[y] += self.rate * z
...             W[f.argmax()] -= self.rate * z
>>> clf = OnlineTransferClassifier("homotlms", options=PaperOptions(head=Gentle()))
>>> clf.fit([[0.0], [1.0], [0.1], [0.9]], [0, 1, 0, 1]).predict([[0.8]]).tolist()
[1]
"""

from __future__ import annotations

from hedgerow.align import Aligner, Alignment, Info, Projection, register_aligner
from hedgerow.core.arrays import dense
from hedgerow.heads import Head, StepwiseHead, register_head
from hedgerow.mix import Hedge, Mixer, register_mixer, simplex_projection, softmax

__all__ = [
    "Aligner",
    "Alignment",
    "Head",
    "Hedge",
    "Info",
    "Mixer",
    "Projection",
    "StepwiseHead",
    "dense",
    "register_aligner",
    "register_head",
    "register_mixer",
    "simplex_projection",
    "softmax",
]
