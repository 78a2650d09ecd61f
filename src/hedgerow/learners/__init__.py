"""Learners on a stream: what they share, the paper's experts in aligned spaces, our ridge regressions."""
