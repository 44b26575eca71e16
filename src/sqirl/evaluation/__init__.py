"""Exact and sampled returns of any policy."""
