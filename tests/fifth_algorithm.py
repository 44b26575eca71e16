"""The description of an algorithm that the paper does not have, for the tests of the report. It is not registered."""

from __future__ import annotations

from sqirl.algorithms.spec import AlgorithmSpec


class RandomSearch(AlgorithmSpec):
    """A fifth algorithm, which the paper does not have."""

    name, label, colour, dark_colour = "random-search", "Random search", "#123456", "#abcdef"

    def presets(self, env):
        return {}

    def make_model(self, env, description, options, *, timesteps, seed, device):
        raise NotImplementedError

    def table_policy(self, model, table):
        raise NotImplementedError

    def state(self, model):
        raise NotImplementedError

    def restore(self, model, state):
        raise NotImplementedError
