"""Triton kernels: one step of all lanes, and the actions of a softmax policy. Each is one launch instead of some thirty."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch as th
import triton
import triton.language as tl

from sqirl.algorithms.population.draws import ACTIONS, EXPLORES, STICKY
from sqirl.mdp.tabular import END

if TYPE_CHECKING:
    from sqirl.algorithms.population.lanes import DeviceLanes


@triton.jit
def _bits(seeds, counts, p, i, STREAM: tl.constexpr):
    """The numbers of `draws.bits` for the lanes i of member p."""
    zero = i * 0
    step = tl.load(counts + p).to(tl.int32)
    bits, _, _, _ = tl.philox(tl.load(seeds + p).to(tl.uint64), i, zero + step, zero + STREAM, zero)
    return bits.to(tl.uint32)


@triton.jit
def _uniform(seeds, counts, p, i, STREAM: tl.constexpr):
    """The numbers of `draws.uniforms` for the lanes i of member p."""
    return (_bits(seeds, counts, p, i, STREAM) >> 8).to(tl.float32) * 5.9604644775390625e-08  # 2^-24


@triton.jit
def _step_kernel(
    states, executed, t, keys, cut, seeds, counts, actions, transitions, table_rewards, screen_of, start_key,
    rewards, ends, after, num, start_state, last_state, horizon, stickiness,
    A: tl.constexpr, K: tl.constexpr, CLOCK: tl.constexpr, STICKS: tl.constexpr, TRUNCATES: tl.constexpr,
    END_STATE: tl.constexpr, STREAM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    p = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = i < num
    at = p.to(tl.int64) * num + i
    played = tl.load(actions + at, mask=live, other=0)
    if STICKS:
        before = tl.load(executed + at, mask=live, other=-1)
        sticks = (_uniform(seeds, counts, p, i, STREAM) < stickiness) & (before >= 0)
        played = tl.where(sticks, before, played)
    edge = tl.load(states + at, mask=live, other=0).to(tl.int64) * A + played
    state = tl.load(transitions + edge, mask=live, other=0)
    tl.store(rewards + at, tl.load(table_rewards + edge, mask=live, other=0.0), mask=live)
    time = tl.load(t + at, mask=live, other=0) + 1
    over = state == END_STATE
    ended = over | (time >= horizon)
    tl.store(ends + at, ended, mask=live)
    if TRUNCATES:
        tl.store(cut + at, ended & (state != END_STATE), mask=live)
    newest = tl.load(screen_of + tl.where(over, last_state, state), mask=live, other=0)
    for part in tl.static_range(K):
        if part == K - 1:
            entry = time if CLOCK else tl.load(keys + at * K + part, mask=live, other=0)
        elif part == K - 2:
            entry = newest
        else:
            entry = tl.load(keys + at * K + part + 1, mask=live, other=0)
        tl.store(after + at * K + part, entry, mask=live)
        first = tl.load(start_key + part)
        tl.store(keys + at * K + part, tl.where(ended, first, entry), mask=live)
    tl.store(states + at, tl.where(ended, start_state, state), mask=live)
    tl.store(executed + at, tl.where(ended, -1, played), mask=live)
    tl.store(t + at, tl.where(ended, 0, time), mask=live)


def step_lanes(lanes: DeviceLanes, actions: th.Tensor) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
    """(rewards, ends, keys after the step), as `DeviceLanes.step` says."""
    table, members = lanes.table, len(lanes.seeds)
    rewards = th.empty(lanes.t.shape, dtype=table.rewards.dtype, device=lanes.t.device)
    ends, after = th.empty_like(lanes.cut), th.empty_like(lanes.keys)
    block = min(256, triton.next_power_of_2(lanes.num))
    _step_kernel[(triton.cdiv(lanes.num, block), members)](
        lanes.states, lanes.executed, lanes.t, lanes.keys, lanes.cut, lanes.seeds, lanes.counts,
        actions.int().contiguous(), table.transitions, table.rewards, table.screen_of, table.start_key,
        rewards, ends, after, lanes.num, table.start_state, len(table.screen_of) - 1, table.horizon, table.stickiness,
        A=table.num_actions, K=table.key_length, CLOCK=table.uses_clock, STICKS=table.stickiness > 0,
        TRUNCATES=table.truncates, END_STATE=END, STREAM=STICKY, BLOCK=block,
        num_warps=max(1, min(4, block // 32)),  # not more threads than lanes: two threads of one lane would race
    )  # fmt: skip
    lanes.counts += 1
    return rewards, ends, after


@triton.jit
def _outputs_of(outputs, p, i, a, live, stride_p, stride_l, A: tl.constexpr):
    """(BLOCK, WIDE) the outputs a of the network for the lanes i of member p; -inf beyond the A actions and the lanes."""
    place = p.to(tl.int64) * stride_p + i[:, None] * stride_l + a[None]
    return tl.load(outputs + place, mask=live[:, None] & (a < A)[None], other=float("-inf"))


@triton.jit
def _draw_kernel(
    outputs, seeds, counts, actions, logs, num, stride_p, stride_l,
    A: tl.constexpr, WIDE: tl.constexpr, STREAM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    p = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.arange(0, WIDE)
    live = i < num
    logits = _outputs_of(outputs, p, i, a, live, stride_p, stride_l, A)
    logits = tl.where(live[:, None], logits, tl.where((a < A)[None], 0.0, float("-inf")))
    shifted = logits - tl.max(logits, axis=1)[:, None]
    weights = tl.exp(shifted)
    total = tl.sum(weights, axis=1)
    below = tl.cumsum(weights, axis=1)
    chance = _uniform(seeds, counts, p, i, STREAM)
    action = tl.sum(((below < (chance * total)[:, None]) & (a < A)[None]).to(tl.int32), axis=1)
    action = tl.minimum(action, A - 1)
    chosen = tl.sum(tl.where(a[None] == action[:, None], shifted, 0.0), axis=1)
    at = p.to(tl.int64) * num + i
    tl.store(actions + at, action, mask=live)
    tl.store(logs + at, chosen - tl.log(total), mask=live)


def draw_softmax(lanes: DeviceLanes, outputs: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
    """((P, L) int32 actions, their log-probabilities) by the logits (P, L, A + 1), of which the last is not one."""
    num_actions = outputs.shape[-1] - 1
    actions = th.empty_like(lanes.t)
    logs = th.empty(lanes.t.shape, device=lanes.t.device)
    block = min(32, triton.next_power_of_2(lanes.num))
    _draw_kernel[(triton.cdiv(lanes.num, block), len(lanes.seeds))](
        outputs, lanes.seeds, lanes.counts, actions, logs, lanes.num, outputs.stride(0), outputs.stride(1),
        A=num_actions, WIDE=max(2, triton.next_power_of_2(num_actions)), STREAM=ACTIONS, BLOCK=block, num_warps=1,
    )  # fmt: skip
    return actions, logs


@triton.jit
def _explore_kernel(
    outputs, seeds, counts, actions, num, stride_p, stride_l, epsilon_steps, final_epsilon,
    A: tl.constexpr, WIDE: tl.constexpr, EXPLORES: tl.constexpr, ACTIONS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    p = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.arange(0, WIDE)
    live = i < num
    values = _outputs_of(outputs, p, i, a, live, stride_p, stride_l, A)
    greedy = tl.argmax(values, axis=1, tie_break_left=True)
    done = tl.minimum((tl.load(counts + p) * num).to(tl.float32) / epsilon_steps, 1.0)
    epsilon = 1.0 + done * (final_epsilon - 1.0)
    random = ((_bits(seeds, counts, p, i, ACTIONS).to(tl.int64) * A) >> 32).to(tl.int32)
    explores = _uniform(seeds, counts, p, i, EXPLORES) < epsilon
    tl.store(actions + p.to(tl.int64) * num + i, tl.where(explores, random, greedy.to(tl.int32)), mask=live)


def draw_exploring(lanes: DeviceLanes, outputs: th.Tensor, epsilon_steps: int, final_epsilon: float) -> th.Tensor:
    """(P, L) int32 actions that are ε-greedy for the values (P, L, A); ε as `DQNSettings.epsilons` says."""
    actions, num_actions = th.empty_like(lanes.t), outputs.shape[-1]
    block = min(32, triton.next_power_of_2(lanes.num))
    _explore_kernel[(triton.cdiv(lanes.num, block), len(lanes.seeds))](
        outputs, lanes.seeds, lanes.counts, actions, lanes.num, outputs.stride(0), outputs.stride(1),
        float(epsilon_steps), final_epsilon, A=num_actions, WIDE=max(2, triton.next_power_of_2(num_actions)),
        EXPLORES=EXPLORES, ACTIONS=ACTIONS, BLOCK=block, num_warps=1,
    )  # fmt: skip
    return actions
