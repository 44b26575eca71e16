"""Is it my environment or my algorithm? Diagnosis, prediction and what-if questions."""
