"""`make bench`: the analysis against QuantEcon, against this machine's memory, and against size.

Everything that is compared is measured in this one run, on this one machine, after compilation. The peak memory of one analysis
alone, by `python benchmarks/bench_analysis.py --peak STATES ACTIONS [GB]`: the last number is the memory that it may take.
"""

from __future__ import annotations

import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np

from sqirl.analysis.analyze import analyze
from sqirl.analysis.backward import backward_pass, value
from sqirl.mdp.convert import expand_sticky
from sqirl.mdp.reach import reachable_sets
from sqirl.mdp.tabular import TabularMDP
from sqirl.runtime.memory import available_memory

OUT = Path("out")
HORIZON, NUM_ACTIONS, MAX_K = 10, 6, 5

#: The memory of the analyses with little memory: bytes for each state and action, by the number of actions. Part of it is one
#: spare slot, which is shared by all actions.
SCARCE = {6: 124.0, 18: 118.0}

#: States whose transitions are drawn together.
PART = 100_000

#: Peak memory for each state of the sticky MDP while its product is made and solved, as measured.
QUANTECON_BYTES = 14_000


def sticky_mdp(num_states: int, horizon: int = HORIZON, num_actions: int = NUM_ACTIONS) -> TabularMDP:
    """A sticky MDP whose states are all reachable at every step but the first few.

    Successors lie near each other, as in a breadth-first enumeration, with every tenth one anywhere at all. The tables are made
    in parts, so that this takes no more memory than they do.
    """
    rng = np.random.default_rng(0)
    transitions = np.empty((num_states, num_actions), np.int32)
    rewards = np.empty((num_states, num_actions))
    for first in range(0, num_states, PART):
        here = np.arange(first, min(first + PART, num_states))[:, None]
        near = here + rng.integers(0, 2000, (len(here), num_actions))
        far = rng.integers(0, num_states, near.shape)
        transitions[first : first + PART] = np.where(rng.random(near.shape) < 0.1, far, near) % num_states
        rewards[first : first + PART] = rng.random(near.shape) < 0.01
    everywhere = np.arange(num_states, dtype=np.int32)
    return TabularMDP.deterministic(
        transitions,
        rewards,
        horizon=horizon,
        start_states=everywhere,
        start_probabilities=np.full(num_states, 1 / num_states),
    ).sticky(0.25)


def best_of(function: Callable[[], object], repeats: int = 3) -> float:
    """Seconds of the fastest of a few runs, because noise only makes a run slower."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)


def bandwidth() -> float:
    """Bytes per second of a plain parallel copy of arrays far larger than the cache (read + write)."""
    source, target = np.ones(1 << 27), np.empty(1 << 27)
    _copy(source, target)
    return 2 * source.nbytes / best_of(lambda: _copy(source, target))


@numba.njit(parallel=True)
def _copy(source, target):  # type: ignore[no-untyped-def]
    for i in numba.prange(len(source)):
        target[i] = source[i]


def moved_bytes(mdp: TabularMDP, horizon: int) -> int:
    """The least that one pass for the optimal values must move: tables in, U in by gather, U out, for every step."""
    rows = mdp.num_states * mdp.num_actions
    return horizon * rows * (4 + 8 + 8 + 8)


def against_quantecon(num_states: int) -> tuple[float, float]:
    """Seconds per state for the optimal values alone: ours on the sticky view, QuantEcon's on the explicit product."""
    from quantecon.markov import DiscreteDP
    from quantecon.markov.ddp import backward_induction
    from scipy import sparse

    mdp = sticky_mdp(num_states)
    product = expand_sticky(mdp)
    outcomes = product.outcomes
    assert outcomes is not None
    shape = (product.num_states * NUM_ACTIONS, product.num_states)
    matrix = sparse.csr_matrix((outcomes.probabilities, outcomes.next_states, outcomes.indptr), shape=shape)
    s_indices, a_indices = np.divmod(np.arange(shape[0]), NUM_ACTIONS)
    ddp = DiscreteDP(product.rewards.ravel(), matrix, 1.0, s_indices, a_indices)
    values = backward_induction(ddp, HORIZON)[0][0]
    assert abs(product.start_probabilities @ values[product.start_states] - value(mdp, HORIZON)) < 1e-9
    theirs = best_of(lambda: backward_induction(ddp, HORIZON), repeats=2)
    sets = reachable_sets(mdp, HORIZON)
    ours = best_of(lambda: value(mdp, HORIZON, sets=sets))
    return ours / num_states, theirs / num_states


def cost_against_size() -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
    """Seconds of the whole backward pass to K = 5 against S (T = 10) and against T (S = 30,000)."""

    def seconds(num_states: int, horizon: int) -> float:
        mdp = sticky_mdp(num_states, horizon)
        sets = reachable_sets(mdp, horizon)
        return best_of(lambda: backward_pass(mdp, horizon, max_k=MAX_K, sets=sets))

    by_states = [(size, seconds(size, HORIZON)) for size in (10_000, 30_000, 100_000, 300_000, 1_000_000)]
    by_horizon = [(horizon, seconds(30_000, horizon)) for horizon in (10, 30, 100, 300)]
    return by_states, by_horizon


def slope(points: list[tuple[int, float]]) -> float:
    """Slope of the least-squares line in log-log."""
    x, y = np.log(np.array(points, float)).T
    return float(np.polyfit(x, y, 1)[0])


def draw(by_states: list[tuple[int, float]], by_horizon: list[tuple[int, float]]) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.6), layout="constrained")
    for axes, points, name in zip(
        figure.subplots(1, 2), (by_states, by_horizon), ("states S", "horizon T"), strict=True
    ):
        x, y = np.array(points, float).T
        axes.loglog(x, y, "o-", color="#2f6fb0", label=f"measured, slope {slope(points):.2f}")
        axes.loglog(x, y[-1] * x / x[-1], ":", color="#7a7a7a", label="slope 1")
        axes.set_xlabel(name)
        axes.set_ylabel("seconds, backward pass to K = 5")
        axes.legend(frameon=False)
    OUT.mkdir(exist_ok=True)
    path = OUT / "bench-analysis.png"
    figure.savefig(path, dpi=144)
    return path


def one_million() -> None:
    million = sticky_mdp(1_000_000)
    sets = reachable_sets(million, HORIZON)
    optimal = best_of(lambda: value(million, HORIZON, sets=sets))
    whole = best_of(lambda: backward_pass(million, HORIZON, max_k=MAX_K, sets=sets), repeats=2)
    copy = bandwidth()
    moved = moved_bytes(million, HORIZON) / optimal
    print(
        f"sticky MDP, S = 1,000,000, A = 6, T = 10: optimal values {optimal:.2f} s, whole backward pass to K = 5 {whole:.2f} s"
    )
    print(
        f"memory: copy {copy / 1e9:.1f} GB/s; optimal values {moved / 1e9:.1f} GB/s = {100 * moved / copy:.0f} % of it"
    )
    plain = best_of(lambda: analyze(million, search_k=MAX_K, tolerances=()), repeats=2)
    tolerant = best_of(lambda: analyze(million, search_k=MAX_K), repeats=2)
    print(
        f"analyze(max_k=5, search_k=5), witness and planning window included: {plain:.1f} s, {tolerant:.1f} s with the effective "
        "horizon within 10 %"
    )


def peak(num_states: int, num_actions: int, gigabytes: float | None) -> None:
    """Print seconds and the peak memory of one analysis besides its MDP, for each state and action."""
    compile_all()
    mdp = sticky_mdp(num_states, num_actions=num_actions)
    before, began = _resident(), time.perf_counter()
    analyze(mdp, search_k=MAX_K, memory=None if gigabytes is None else gigabytes * 1e9)
    seconds = time.perf_counter() - began
    most = _most_resident()
    limit = "" if gigabytes is None else f", which may take {gigabytes:g} GB"
    print(
        f"analyze(max_k=5, search_k=5){limit}, S = {num_states:,}, A = {num_actions}, T = {HORIZON}: {seconds:.1f} s, peak "
        f"{most / 2**30:.2f} GiB, of which the MDP {mdp.rewards.nbytes * 1.5 / 2**30:.2f}: "
        f"{(most - before) / (num_states * num_actions):.0f} bytes for each (state, action) besides the MDP"
    )


def _resident() -> int:
    """The bytes of this process that are in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _most_resident() -> int:
    """The most bytes of this process that were in memory at once. Not `ru_maxrss`: a child begins with its parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024


def peaks() -> None:
    """The peak memory of analyses in processes of their own: as they like, and with little memory."""
    for states, actions, gigabytes in (
        (1_000_000, 6, None),
        (1_000_000, 6, SCARCE[6] * 6e-3),
        (300_000, 18, SCARCE[18] * 5.4e-3),
    ):
        limit = [] if gigabytes is None else [f"{gigabytes:g}"]
        command = [sys.executable, __file__, "--peak", str(states), str(actions), *limit]
        print(subprocess.run(command, check=True, capture_output=True, text=True).stdout, end="")


def compile_all() -> None:
    small = sticky_mdp(100)
    value(small, HORIZON)
    analyze(small)


def main() -> None:
    if sys.argv[1:2] == ["--peak"]:
        limits = [float(given) for given in sys.argv[4:]]
        peak(int(sys.argv[2]), int(sys.argv[3]), limits[0] if limits else None)
        return
    compile_all()
    print(f"{numba.get_num_threads()} threads")

    one_million()
    peaks()
    for num_states in (100_000, 300_000, 1_000_000):
        if num_states * QUANTECON_BYTES > (available_memory() or math.inf):
            print(f"QuantEcon's product at S = {num_states:,} does not fit into the memory that is free")
            break
        ours, theirs = against_quantecon(num_states)
        print(
            f"optimal values at S = {num_states:,}: {1e9 * ours:.0f} ns/state, QuantEcon on the product "
            f"{1e9 * theirs:.0f} ns/state: {theirs / ours:.0f}x"
        )

    by_states, by_horizon = cost_against_size()
    print("S: " + ", ".join(f"{s:,}: {t:.3f} s" for s, t in by_states) + f"; slope {slope(by_states):.3f}")
    print("T: " + ", ".join(f"{s:,}: {t:.3f} s" for s, t in by_horizon) + f"; slope {slope(by_horizon):.3f}")
    print(draw(by_states, by_horizon))


if __name__ == "__main__":
    main()
