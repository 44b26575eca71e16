"""The gradient step of deep SQIRL for a population: by Triton and as one CUDA graph, or in plain torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch as th

from sqirl.algorithms.population import plain
from sqirl.algorithms.population.batch import AdamSettings, DeviceBatch, Heads, Learner, LossSettings
from sqirl.algorithms.population.graph import captured
from sqirl.algorithms.population.grid_layout import Grid
from sqirl.algorithms.population.inputs import Inputs
from sqirl.algorithms.population.layout import ATARI, Layout, Picture
from sqirl.algorithms.population.networks import layout_for, torch_networks, uses_kernels
from sqirl.algorithms.population.replay import DeviceReplay
from sqirl.algorithms.sqirl.hyperparameters import PAPER

_LOSS, _ADAM = LossSettings(), AdamSettings()


@dataclass(frozen=True)
class StepSettings:
    """The settings of a gradient step. `picture` is what the networks see, and with it the kind of network."""

    heads: Heads
    batch_size: int = PAPER.batch_size
    picture: Picture | Grid = ATARI
    loss: LossSettings = _LOSS
    adam: AdamSettings = _ADAM


class SQIRLStep:
    """One gradient step of P members at each call: sample, evaluate s and s', targets, losses, gradients, Adam.

    Members may differ in k (see `Heads`) and in learning rate. A member whose `learner.running` is 0 is not changed.
    """

    def __init__(
        self, settings: StepSettings, learner: Learner, replay: DeviceReplay, screens: th.Tensor, seeds: th.Tensor, *,
        dtype: th.dtype = th.bfloat16, precision: str = "ieee", kernels: bool | None = None,
        inputs: Inputs | None = None,
    ) -> None:  # fmt: skip
        """Networks in `dtype`; see `make_networks` for `kernels` and `inputs`, and `TritonNetworks` for `precision`."""
        self.settings, self.learner, self.replay, self.seeds = settings, learner, replay, seeds
        heads, device = settings.heads, screens.device
        self.layout = layout_for(settings.picture, heads.num_outputs)
        key_length = replay.keys.shape[-1]
        self.batch = DeviceBatch.empty(
            len(seeds), settings.batch_size, key_length=key_length, with_next=heads.k > 1, device=device
        )
        self.kernels = uses_kernels(self.layout, device, kernels)
        if self.kernels:
            from sqirl.algorithms.population.triton_networks import Size, TritonNetworks

            assert isinstance(self.layout, Layout)
            size = Size(len(seeds), self.batch.keys.shape[1], settings.batch_size)
            self.networks = TritonNetworks(
                self.layout, screens, size, key_length=key_length, dtype=dtype, precision=precision
            )
            self.networks.load(learner.flat)
        else:
            self.plain = torch_networks(self.layout, screens, dtype, inputs)
        self._replay_graph: Callable[[], None] | None = None

    def run(self) -> None:
        """One step, launched kernel by kernel."""
        self.replay.sample(self.batch, self.seeds, self.learner.steps)
        if not self.kernels:
            s = self.settings
            plain.sqirl_step(self.plain, self.learner, s.heads, self.batch, s.loss, s.adam)
            return
        self.networks.forward(self.batch.keys)
        self.loss()
        self.networks.step(self.learner, self.batch.keys, self.settings.adam)

    def loss(self) -> None:
        """The gradient of the loss by the outputs of the networks; losses and their averages are updated."""
        import triton

        from sqirl.algorithms.population.step_kernels import sqirl_loss

        heads, batch, learner, net = self.settings.heads, self.batch, self.learner, self.networks
        sqirl_loss[(len(self.seeds),)](
            net.out, batch.actions, batch.rewards, batch.returns, batch.goes_on, learner.averages, learner.losses,
            learner.average_steps, learner.running, learner.k, net.dout, self.settings.loss.gamma, batch.size,
            net.size.rows, SMOOTHING=self.settings.loss.smoothing, K=heads.k, A=heads.num_actions,
            AP=triton.next_power_of_2(heads.num_actions), OUTS=net.layout.padded_outputs,
            BB=triton.next_power_of_2(batch.size), num_warps=4,
        )  # fmt: skip

    def capture(self) -> None:
        """Capture the step as a CUDA graph; the learner is as before."""
        self._replay_graph = captured(self.run, kept=self.learner.tensors())
        self.weights_changed()

    def weights_changed(self) -> None:
        """To be called after weights were set from outside (the place of a member was given to another run)."""
        if self.kernels:
            self.networks.load(self.learner.flat)

    def __call__(self) -> None:
        if self._replay_graph is None:
            self.run()
        else:
            self._replay_graph()
