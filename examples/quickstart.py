"""A target that starts to stream, with four sources: predict, see the label, learn."""

from hedgerow import OnlineTransferClassifier, load, split

domains = load("digits")
warmup, stream = split(
    domains["shifted"], warmup=0.3, seed=0
)  # shuffles; seed=None keeps an order in time
sources = [domain for name, domain in domains.items() if name != "shifted"]
clf = OnlineTransferClassifier().fit_domains(sources, warmup)

wrong = 0
for t, (x, label) in enumerate(zip(stream.X, stream.y, strict=True), 1):
    wrong += clf.predict_one(x) != label
    clf.learn_one(x, label)
    if t % 50 == 0:
        trusted = max(clf.weights_, key=clf.weights_.get)
        print(f"{t:4d} labels, {wrong / t:.1%} mistakes so far, most trusted: {trusted}")
print(
    f"{wrong / len(stream):.1%} mistakes on {len(stream)} rows, each predicted before its label was seen"
)
