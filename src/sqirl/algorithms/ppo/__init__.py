"""PPO of Stable-Baselines3 with the paper's hyperparameters."""
