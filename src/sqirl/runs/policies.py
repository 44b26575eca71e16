"""Policies on disk: what a run has learned, beside its record, in the format of checkpoints (which runs no code)."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stable_baselines3.common.base_class import BaseAlgorithm

from sqirl.algorithms.checkpoints import read_checkpoint, write_checkpoint
from sqirl.algorithms.sb3 import quiet_logger
from sqirl.envs.description import EnvDescription, describe
from sqirl.envs.naming import split_name
from sqirl.errors import MissingExtra, SqirlError, WorkFailed
from sqirl.play.training_env import training_env
from sqirl.runs.config import RunConfig
from sqirl.runs.store import policy_path

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv

#: Larger policies are not kept: SQIRL has one network for each step of an episode.
LARGEST_POLICY = 500 << 20
#: The start of the digest of a run.
_DIGEST = re.compile(r"[0-9a-f]{4,16}")


def save_policy(path: Path, config: RunConfig, model: BaseAlgorithm) -> None:
    """Keep what the model has learned. A policy that is too large, or has no room, is left out with a warning."""
    weights = model.policy.state_dict()
    size = sum(tensor.numel() * tensor.element_size() for tensor in weights.values() if hasattr(tensor, "numel"))
    reason = f"its {size / 1e6:,.0f} MB are more than {LARGEST_POLICY / 1e6:,.0f} MB" if size > LARGEST_POLICY else None
    if reason is None:
        try:
            path.unlink(missing_ok=True)
            write_checkpoint(path, {"config": config.to_dict(), "steps": model.num_timesteps, "policy": weights})
        except (OSError, RuntimeError) as error:  # torch raises RuntimeError for a full disk
            reason = (getattr(error, "strerror", None) or str(error)).splitlines()[0]
    if reason is not None:
        warnings.warn(f"the policy is not kept in '{path}': {reason}", stacklevel=2)


def names_a_run(name: str) -> bool:
    """Is this a file, or digits of a run? Else it is the name of an environment."""
    path = Path(name)
    return path.suffix in (".zip", ".policy", ".json") or path.is_file() or bool(_DIGEST.fullmatch(name))


def find_policy(name: str, folder: Path) -> Path:
    """The file of a policy that is named by its path, its record, the start of its run's digest, or its env.

    Of several policies of an env the newest one is taken.
    """
    path = Path(name)
    if path.suffix in (".policy", ".json") or path.is_file():
        path = path.with_suffix(".policy") if path.suffix == ".json" else path
        if not path.is_file():
            raise SqirlError(f"no saved policy '{path}'; `sqirl train` saves one beside the record of a run")
        return path
    if _DIGEST.fullmatch(name):
        found = sorted(folder.glob(f"{name}*.policy"))
        if len(found) > 1:
            raise SqirlError(f"{len(found)} policies in '{folder}' begin with {name}; give more digits")
    else:
        wanted = describe(name).name
        saved = list(saved_policies(folder))
        found = [each for each, config in saved if config.env_id == wanted]
        # A run with --horizon, --hold or --env-kwargs has them in the name of its env
        found = found or [each for each, config in saved if split_name(config.env_id)[0] == wanted]
        found = sorted(found, key=lambda each: each.stat().st_mtime)[-1:]
    if not found:
        raise SqirlError(f"no saved policy of '{name}' in '{folder}'; train one with `sqirl train ALGORITHM ENV`")
    return found[0]


def saved_policies(folder: Path) -> Iterator[tuple[Path, RunConfig]]:
    """The policies of runs whose records are in a folder."""
    from sqirl.runs.store import RecordStore

    for record in RecordStore(folder).all():
        path = policy_path(folder, record.config)
        if path.is_file():
            yield path, record.config


def load_policy(path: Path) -> tuple[BaseAlgorithm, RunConfig]:
    """A model with the policy in the file, on the CPU, and the run that it is of."""
    try:
        state = read_checkpoint(path)
        config = RunConfig.from_dict(state["config"])
        weights = dict(state["policy"])
    except WorkFailed as error:  # to name such a file is a wrong call
        raise SqirlError(str(error)) from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SqirlError(f"'{path}' is not a policy that `sqirl train` saved") from error
    description = describe(config.env_id, variant=config.variant)
    model = new_model(config, description)
    try:
        model.policy.load_state_dict(weights)
    except (RuntimeError, KeyError) as error:
        raise SqirlError(f"'{path}' does not fit {config.env_id} any more: its spaces have changed") from error
    return model, config


def new_model(config: RunConfig, description: EnvDescription) -> BaseAlgorithm:
    """A model of the run that has learned nothing, over one env."""
    env = env_of_one_lane(description)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Stable-Baselines3's advice for training
        model = config.spec.make_model(
            env, description, config.chosen, timesteps=config.timesteps, seed=config.seed, device="cpu"
        )
    model.set_logger(quiet_logger())
    return model


def env_of_one_lane(description: EnvDescription) -> VecEnv:
    """The live game, or its table where its emulator is not installed."""
    try:
        return training_env(description, live=True)
    except MissingExtra:
        return training_env(description)


def load_model(path: Path) -> Any:
    """A model in the format of Stable-Baselines3, of SQIRL, GORP, PPO or DQN. Reading it runs code that the file contains."""
    from sqirl.algorithms.gorp.algorithm import GORP
    from sqirl.algorithms.sqirl.algorithm import SQIRL

    for ours in (SQIRL, GORP):
        try:
            ours._check_saved(path)
        except SqirlError:
            continue
        return ours.load(path, device="cpu")
    return _load_baseline(path)


def _load_baseline(path: Path) -> Any:
    import json
    import zipfile

    from stable_baselines3 import DQN, PPO

    try:
        with zipfile.ZipFile(path) as archive:
            data = json.loads(archive.read("data"))
        fields = set(data)
    except (OSError, zipfile.BadZipFile, LookupError, TypeError, ValueError, RecursionError) as error:
        raise SqirlError(f"'{path}' is not a model saved by Stable-Baselines3 or sqirl") from error
    made = PPO if "clip_range" in fields else DQN if "exploration_rate" in fields else None
    if made is None:
        raise SqirlError(f"'{path}' holds no model of SQIRL, GORP, PPO or DQN")
    return made.load(path, device="cpu")
