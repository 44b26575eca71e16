"""The Triton kernels of populations against plain torch. They need a GPU with Triton."""

from __future__ import annotations

import pytest
import torch as th

from population_cases import (
    NUM_ACTIONS,
    PPO_SETTINGS,
    corridor,
    means_of,
    one_update,
    relative,
    some_dqn,
    some_ppo,
    some_replay,
    some_screens,
)
from sqirl.algorithms.population import plain
from sqirl.algorithms.population.batch import AdamSettings, DeviceBatch, Heads, Learner, LossSettings
from sqirl.algorithms.population.devices import has_triton
from sqirl.algorithms.population.gradient_step import SQIRLStep, StepSettings
from sqirl.algorithms.population.graph import captured
from sqirl.algorithms.population.layout import ATARI, PROCGEN, Layout, Picture, initial_weights
from sqirl.algorithms.population.ppo import PPOSettings, make_ppo
from sqirl.algorithms.population.table import device_table
from test_population import check_lanes

DEVICE = "cuda"
pytestmark = pytest.mark.skipif(
    not (th.cuda.is_available() and has_triton(th.device(DEVICE))), reason="there is no GPU with Triton here"
)

#: Gradients of the same minibatch in float32, where every ReLU is on the same side of zero in both.
EQUAL = 1e-4
#: A unit whose ReLU differs must be this near to zero, relative to the largest one of its layer: rounding decides its side.
ROUNDING = 1e-5


@pytest.fixture(autouse=True)
def exact_float32() -> None:
    th.backends.cuda.matmul.allow_tf32 = th.backends.cudnn.allow_tf32 = False


def pair_of_steps(
    dtype: th.dtype, *, batch_size: int, k: int, members: int, seed: int, precision: str, picture: Picture
) -> tuple[SQIRLStep, SQIRLStep]:
    """Triton in `dtype` and plain torch in float32, with the same weights and the same minibatch."""
    heads, screens = Heads(k, NUM_ACTIONS), some_screens(DEVICE, picture)
    layout, replay = Layout(heads.num_outputs, picture), some_replay(members, DEVICE)
    seeds = seed + th.arange(members, device=DEVICE)
    settings = StepSettings(heads, batch_size, picture, LossSettings(gamma=0.9))
    start = initial_weights(layout, list(range(members)), device=DEVICE)
    learners = [Learner.start(start.clone(), heads, rate=1e-3) for _ in range(2)]
    fast = SQIRLStep(settings, learners[0], replay, screens, seeds, dtype=dtype, precision=precision, kernels=True)
    slow = SQIRLStep(settings, learners[1], replay, screens, seeds, dtype=th.float32, kernels=False)
    for step in (fast, slow):
        step.replay.sample(step.batch, seeds, step.learner.steps)
    for buffer in (fast.networks.h1, fast.networks.h2, fast.networks.h3, fast.networks.dh1, fast.networks.dh2):
        buffer.fill_(float("nan"))
    return fast, slow


def flipped_relus(fast: SQIRLStep, slow: SQIRLStep) -> tuple[int, float]:
    """(units whose ReLU differs among the samples that are learned from, the largest of them relative to its layer)."""
    picture, members, size = fast.layout.picture, len(fast.seeds), fast.batch.size
    seen = plain.observations(slow.plain.screens, slow.batch.keys, picture)
    with th.no_grad():
        found = plain.activations(slow.layout, slow.learner.flat, seen)
    net, width = fast.networks, picture.width1
    blocks = net.h1.reshape(
        members, -1, width, width, 2, 2, 32
    )  # (P, R, block row, block column, row, column, channel)
    pairs = [
        (blocks.permute(0, 1, 6, 2, 4, 3, 5).reshape(members, -1, 32, 2 * width, 2 * width), found["conv1"]),
        (net.h2.unflatten(2, (picture.width2, -1)).permute(0, 1, 4, 2, 3), found["conv2"]),
        (net.h3.unflatten(2, (picture.width3, picture.width3, 64)).permute(0, 1, 4, 2, 3), found["conv3"]),
        (net.features, found["dense"].transpose(0, 1).flatten(1, 2)),
    ]
    count, largest = 0, 0.0
    for mine, plain_one in pairs:
        # (R, P·channels, …) → (P, R, channels, …); the first layer has positions that the second does not read
        theirs = plain_one.unflatten(1, (members, -1)).transpose(0, 1)
        if mine.ndim == 5:
            theirs = theirs[..., : mine.shape[-2], : mine.shape[-1]]
        mine, theirs = mine[:, :size], theirs[:, :size]
        differs = (mine > 0) != (theirs > 0)
        count += int(differs.sum())
        if differs.any():
            size_of_unit = th.maximum(mine.abs(), theirs.abs())
            largest = max(largest, float(size_of_unit[differs].max() / size_of_unit.max()))
    return count, largest


def errors_of(fast: SQIRLStep, slow: SQIRLStep) -> dict[str, float]:
    """The relative difference of the outputs, the averages of losses and the gradient of each layer."""
    heads, layout = slow.settings.heads, slow.layout
    expected = plain.sqirl_gradient(slow.plain, slow.learner, heads, slow.batch, slow.settings.loss)
    out = fast.networks.forward(fast.batch.keys)[..., : heads.num_outputs].clone()
    fast.loss()
    fast.networks.backward(fast.batch.keys)
    found = fast.networks.whole_gradient(fast.learner)
    errors = {"q": relative(out, slow.plain.forward(slow.learner.flat, slow.batch.keys))}
    errors["averages"] = relative(fast.learner.averages, slow.learner.averages)
    for name in layout.segments:
        errors[name] = relative(layout.weight(found, name), layout.weight(expected, name))
        errors[f"{name} bias"] = relative(layout.bias(found, name), layout.bias(expected, name))
    return errors


@pytest.mark.parametrize(
    ("batch_size", "k", "members", "precision", "picture"),
    [
        (6, 1, 2, "ieee", ATARI),
        (37, 3, 2, "ieee", ATARI),
        (128, 2, 1, "ieee", ATARI),
        (37, 3, 2, "tf32x3", ATARI),
        (37, 3, 2, "ieee", PROCGEN),
    ],
)
def test_gradients_in_float32(batch_size: int, k: int, members: int, precision: str, picture: Picture) -> None:
    """Gradients are equal where no ReLU differs. Where one does, its input is zero up to rounding."""
    compared = 0
    for seed in range(3):
        fast, slow = pair_of_steps(
            th.float32, batch_size=batch_size, k=k, members=members, seed=seed, precision=precision, picture=picture
        )
        errors = errors_of(fast, slow)
        flipped, largest = flipped_relus(fast, slow)
        worst = max(errors, key=lambda name: errors[name])
        print(
            f"\nfloat32 {precision} side {picture.side} B={batch_size} k={k} seed {seed}: largest error {errors[worst]:.1e}"
            f" ({worst}), q {errors['q']:.1e}, ReLUs that differ {flipped} (relative size {largest:.1e})", end="",
        )  # fmt: skip
        assert largest < ROUNDING
        if not flipped:
            compared += 1
            assert errors[worst] < EQUAL
    assert compared


@pytest.mark.parametrize(
    ("batch_size", "k", "members", "picture"),
    [(6, 1, 2, ATARI), (37, 3, 2, ATARI), (128, 2, 3, ATARI), (37, 2, 2, PROCGEN)],
)
def test_gradients_in_bfloat16(batch_size: int, k: int, members: int, picture: Picture) -> None:
    steps = pair_of_steps(
        th.bfloat16, batch_size=batch_size, k=k, members=members, seed=0, precision="ieee", picture=picture
    )
    errors = errors_of(*steps)
    worst = max(errors, key=lambda name: errors[name])
    print(
        f"\nbfloat16 side {picture.side} B={batch_size} k={k}: largest error {errors[worst]:.1e} ({worst}), q {errors['q']:.1e}, "
        f"ReLUs that differ {flipped_relus(*steps)[0]}", end="",
    )  # fmt: skip
    assert errors["q"] < 0.02 and errors[worst] < 0.2


@pytest.mark.parametrize(
    ("max_norm", "picture"), [(None, ATARI), (0.5, ATARI), (0.5, PROCGEN), (0.5, Picture(side=36, stacked=1))]
)
def test_captured_steps(max_norm: float | None, picture: Picture) -> None:
    """Weights after four captured steps in float32; one of three members does not run, one has a smaller k."""
    heads, screens, members = Heads(2, NUM_ACTIONS), some_screens(DEVICE, picture), 3
    replay, seeds = some_replay(members, DEVICE), th.arange(members, device=DEVICE)
    settings = StepSettings(heads, 16, picture, LossSettings(gamma=0.9), AdamSettings(max_norm=max_norm))
    start = initial_weights(Layout(heads.num_outputs, picture), [0, 1, 2], device=DEVICE)
    learners = [Learner.start(start.clone(), heads, rate=1e-3, k=[2, 1, 2]) for _ in range(2)]
    steps = [
        SQIRLStep(settings, learner, replay, screens, seeds, dtype=th.float32, kernels=fast)
        for learner, fast in zip(learners, (True, False), strict=True)
    ]
    for learner in learners:
        learner.running[2] = 0
    steps[0].capture()
    for _ in range(4):
        steps[0](), steps[1]()
    moved = [learner.flat - start for learner in learners]
    error = relative(moved[0], moved[1])
    print(
        f"\nside {picture.side}, max_norm {max_norm}: relative difference of the change of the weights {error:.1e}",
        end="",
    )
    assert error < 2e-3  # Adam divides by the root of squares that may be tiny
    assert not moved[0][2].any() and learners[0].steps.tolist() == [4, 4, 0]
    assert relative(learners[0].averages, learners[1].averages) < 1e-4


def test_lanes_and_samples_equal_those_of_the_cpu() -> None:
    check_lanes(DEVICE)
    batches = []
    for device in ("cpu", DEVICE):
        replay, batch = some_replay(2, device), DeviceBatch.empty(2, 40, key_length=5, with_next=True, device=device)
        replay.sample(batch, th.tensor([1 << 40, 2], device=device), th.tensor([3, 5], device=device))
        batches.append(batch)
    for name in ("keys", "actions", "rewards", "returns", "goes_on"):
        assert th.equal(getattr(batches[0], name), getattr(batches[1], name).cpu()), name


def test_gradients_of_ppo_and_dqn() -> None:
    fast, slow = (some_ppo(DEVICE, kernels=kernels) for kernels in (True, False))
    one_update(fast), one_update(slow)
    assert th.equal(fast.samples.actions, slow.samples.actions) and th.equal(fast.order, slow.order)
    errors = [relative(fast.learner.first, slow.learner.first)]
    quick, plain_dqn = (some_dqn(DEVICE, kernels=kernels) for kernels in (True, False))
    for dqn in (quick, plain_dqn):
        for _ in range(5):
            dqn.act()
        dqn.descend()
    errors.append(relative(quick.learner.first, plain_dqn.learner.first))
    print("\nrelative differences of gradients, PPO and DQN:", *(f"{error:.1e}" for error in errors), end="")
    assert max(errors) < EQUAL


def test_graphs_continue_at_each_replay() -> None:
    ppo = some_ppo(DEVICE, th.bfloat16, kernels=True)
    act = captured(ppo.act, kept=ppo.lanes.tensors())
    assert not ppo.lanes.counts.any()
    for _ in range(PPO_SETTINGS.rollout):
        act()
    assert ppo.lanes.counts.tolist() == [PPO_SETTINGS.rollout] * 2


def test_captured_updates_of_ppo_and_dqn_equal_those_without_graphs() -> None:
    for make, parts in ((some_ppo, ("play", "learn")), (some_dqn, ("round",))):
        runs = [make(DEVICE, th.bfloat16, kernels=True) for _ in range(2)]
        start = runs[0].learner.flat.clone()
        runs[0].capture()
        assert th.equal(runs[0].learner.flat, start)
        for run in runs:
            for _ in range(2):
                for part in parts:
                    getattr(run, part)()
        moved = [run.learner.flat - start for run in runs]
        assert relative(moved[0], moved[1]) < 1e-3 and moved[0].any()


def test_ppo_solves_a_corridor_in_bfloat16() -> None:
    table = device_table(corridor(), reward_factor=10.0, device=DEVICE)
    ppo = make_ppo(table, [0, 1], PPOSettings(rollout=32), num_lanes=8)
    for _ in range(20):
        ppo.play()
        ppo.learn()
    assert ppo.precision == "bfloat16" and means_of(ppo, corridor()) == [10.0, 10.0]
