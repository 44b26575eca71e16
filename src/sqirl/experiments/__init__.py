"""The paper's experiments: the protocol of a run and of a search, sweeps, their scheduling and their cost."""
