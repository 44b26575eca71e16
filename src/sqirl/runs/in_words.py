"""What is said of a run before it starts and after it has ended."""

from __future__ import annotations

from sqirl.envs.description import EnvDescription, describe
from sqirl.play.own_env import observed_as
from sqirl.runs.config import RunConfig
from sqirl.runs.record import RunRecord
from sqirl.runs.target import target_of


def lines_before(config: RunConfig) -> list[str]:
    """What the agent sees, where it is not what the env shows; what is known of the returns; what the budget covers."""
    description = describe(config.env_id, variant=config.variant)
    lines = [
        _seen(description),
        _known(description),
        config.spec.coverage(config.chosen, description, config.timesteps),
    ]
    return [line for line in lines if line is not None]


def lines_after(record: RunRecord) -> list[str]:
    """The summary, and what explains a run that is not solved: its share, and the iterations that it did not come to."""
    lines = [record.summary]
    if record.solved_at is None and record.error is None:
        lines += [f"  {line}" for line in (record.share_line, _iterations(record)) if line is not None]
    return lines


def _seen(description: EnvDescription) -> str | None:
    if description.is_bridge or description.is_full_length:
        return None
    env = description.make_env()
    seen = observed_as(env, description.name)
    env.close()
    return None if seen is None else f"{description.name} is observed as one vector: {seen}"


def _known(description: EnvDescription) -> str | None:
    target = target_of(description)
    if target.optimal is None:
        return None
    random = "" if target.random is None else f", random play {target.random:.4g}"
    return f"known of {description.name}: optimal return {target.optimal:.4g}{random}"


def _iterations(record: RunRecord) -> str | None:
    done = record.iterations
    config = record.config
    horizon = None if done is None else describe(config.env_id).horizon
    if done is None or horizon is None or done >= horizon:
        return None
    coverage = config.spec.coverage(config.chosen, describe(config.env_id), record.steps)
    advice = "" if coverage is None else f"; {coverage.rpartition('; ')[2]}"
    return f"{done:,} of {horizon:,} iterations are done; the actions of later steps are not fixed yet{advice}"
