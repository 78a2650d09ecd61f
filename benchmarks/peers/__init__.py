"""Our learner against what people would use instead; `benchmarks/peers.py` is the door."""
