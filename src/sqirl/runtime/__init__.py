"""Worker processes, files, locks and memory. Nothing here knows reinforcement learning."""
