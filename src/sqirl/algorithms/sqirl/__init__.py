"""Deep SQIRL: `algorithm.py` has its loop, `gradient_step.py` its loss, `spec.py` what others need to know of it."""
