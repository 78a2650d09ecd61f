"""The estimator: scikit-learn's and river's verbs over one learner, what users hand in, and model files."""

from __future__ import annotations

from hedgerow.estimator.classifier import OnlineTransferClassifier

__all__ = ["OnlineTransferClassifier"]
