"""Populations: P runs of SQIRL, PPO or DQN on one table, all of whose data stay on one device.

`sqirl.py`, `ppo.py` and `dqn.py` have the three algorithms. `sqirl.runs.population_run` makes records of them. The package needs
torch; Triton is imported only where a GPU is used. `docs/gpu.md` says what each module holds.
"""
