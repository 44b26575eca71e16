"""GORP: `algorithm.py` has its loop, `spec.py` what others need to know of it."""
