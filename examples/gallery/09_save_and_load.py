"""
Save and resume a stream
========================

A model is one file without pickle. After loading it continues bit by bit as if it had never stopped. Models fitted on
the same sources share their constants, so their own files are small.
"""

import tempfile
from pathlib import Path

import numpy as np

from hedgerow import OnlineTransferClassifier, load, split

domains = load("digits")
warmup, stream = split(domains["shifted"], warmup=0.3, seed=0)
sources = [domain for name, domain in domains.items() if name != "shifted"]
clf = OnlineTransferClassifier().fit_domains(sources, warmup)
clf.partial_fit(stream.X[:100], stream.y[:100])

folder = Path(tempfile.mkdtemp())
clf.save(folder / "model.safetensors")
again = OnlineTransferClassifier.load(folder / "model.safetensors")
same = np.array_equal(
    clf.predict_then_learn(stream.X[100:], stream.y[100:]),
    again.predict_then_learn(stream.X[100:], stream.y[100:]),
)
print("the same predictions on the rest of the stream:", same)

# %%
# What stays the same for all models of one fit can be kept once:

whole, own = clf.to_bytes(), clf.to_bytes(constants=False)
print(
    f"a whole model: {len(whole) / 1e6:.1f} MB; without the shared constants: {len(own) / 1e6:.1f} MB"
)
back = OnlineTransferClassifier.from_bytes(own, constants=clf.constants_)
print("predicts as before:", np.array_equal(back.predict(stream.X), clf.predict(stream.X)))
