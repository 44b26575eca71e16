"""Populations on a GPU: P runs of SQIRL, PPO or DQN on one table, all of whose data stay on the device.

`sqirl.py`, `ppo.py` and `dqn.py` have the three algorithms. `sqirl train` and `sqirl sweep` do not use this package yet. It needs
torch; Triton is imported only where a GPU is used, and everything also runs on a CPU in plain torch.
"""
