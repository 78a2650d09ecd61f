"""`hedgerow run`: rows come in, predictions go out, labels are learned, and nothing is lost on the way."""
