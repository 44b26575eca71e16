"""The algorithms by name. A new algorithm is one module with its spec, and one line here."""

from __future__ import annotations

from collections.abc import Iterator

from sqirl.algorithms.dqn.spec import DQNSpec
from sqirl.algorithms.gorp.spec import GORPSpec
from sqirl.algorithms.ppo.spec import PPOSpec
from sqirl.algorithms.spec import RESERVED_NAMES, AlgorithmSpec, Option
from sqirl.algorithms.sqirl.spec import SQIRLSpec
from sqirl.errors import SqirlError, UnknownAlgorithm

_registry: dict[str, AlgorithmSpec] = {}


def register(spec: AlgorithmSpec) -> AlgorithmSpec:
    """Make an algorithm known under its name; of two with the same name the later one counts.

    Options with the name of a field of configs or sweeps are refused, and so are two different options of one name.
    """
    for option in spec.options:
        if option.name in RESERVED_NAMES or option.sweep_key in RESERVED_NAMES:
            raise SqirlError(
                f"{spec.name} has an option '{option.name}', a name that configs and sweeps use themselves"
            )
        known = all_options().get(option.name)
        if known not in (None, option) and spec.name not in _registry:
            raise SqirlError(f"{spec.name} has an option '{option.name}' that differs from the option of that name")
    _registry[spec.name] = spec
    return spec


def algorithms() -> tuple[AlgorithmSpec, ...]:
    """All registered algorithms, in the order of registration."""
    return tuple(_registry.values())


def algorithm_names() -> tuple[str, ...]:
    return tuple(_registry)


def algorithm(name: str) -> AlgorithmSpec:
    """The algorithm of that name; an unknown name is an error that lists the known ones."""
    if name not in _registry:
        raise UnknownAlgorithm(f"unknown algorithm '{name}'; there are {', '.join(_registry)}")
    return _registry[name]


def all_options() -> dict[str, Option]:
    """Every option of every algorithm by name; algorithms that share a name share the option."""
    return {option.name: option for spec in algorithms() for option in spec.options}


def algorithms_with(option: str) -> Iterator[AlgorithmSpec]:
    return (spec for spec in algorithms() if any(option == own.name for own in spec.options))


SQIRL = register(SQIRLSpec())
GORP = register(GORPSpec())
PPO = register(PPOSpec())
DQN = register(DQNSpec())
