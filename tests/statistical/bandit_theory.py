"""Does the theory hold where it can be checked exactly? Stationary spread, ringing and instability of a sampled bandit.

    uv run python -m tests.statistical.bandit_theory [--replicates 1000] [--out FILE.json]

*Spread*: the standard deviation of the logit about the fixed point, for groups of 2 to 64, beside the exact
prediction and the leading 1/sqrt(G) law.

*Transitions*: the refresh interval (or lag) is swept at a learning rate for which the exact stiffness says that the
transition lies at `expected`; the sampled bandit shows where it does lie. Seen is the response to a small displacement
of the start, half the difference of two coupled runs from either side of the fixed point, averaged over replicates. Its
values y at successive refreshes obey y_{n+2} = t y_{n+1} - d y_n (y_{n+1} = t y_n without momentum, where one number is
the whole state), which gives the roots of the cycle. The policy *rings* where they are complex or negative, and is
*unstable* where one exceeds 1 in modulus.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import jax
import numpy as np
from jaxtyping import Float
from scipy.special import expit, logit

from sde_grpo.bandit import curvature, fixed_point, stationary_sd
from sde_grpo.bandit.testbed import Momentum, Training, train, two_armed
from sde_grpo.oscillator import LagSchedule, UpdateRule
from sde_grpo.stability import critical_stiffness, ringing_stiffness

GROUP_SIZES = (2, 4, 8, 16, 32, 64)
DISPLACEMENT = 0.05  # of the logit: the third-order term of the drift changes the rate by less than 0.2 %
PROMPTS = 1024  # a step, for the transitions: the noise that builds up near instability must stay in the linear range
PARTS = 10  # of the replicates, left out one at a time for the standard error of the place (jackknife)


@dataclass(frozen=True)
class Case:
    """One transition: which, in which bandit (p_ref, beta, G), and the interval where theory puts it."""

    transition: Literal["ringing", "instability"]
    surrogate: Literal["importance_ratio", "old_policy"]
    lag_schedule: LagSchedule
    momentum: float
    bandit: tuple[float, float, int]
    expected: int
    sweep: tuple[int, ...]

    def rule(self, interval: int, stiffness: float = 1.0) -> UpdateRule:
        """The linear update, with the bandit's own stale fraction; the stiffness stands in for the learning rate."""
        p_ref, kl_weight, group_size = self.bandit
        plateau = fixed_point(p_ref, kl_weight, group_size)
        now = kl_weight * plateau * (1 - plateau) / curvature(p_ref, kl_weight, group_size)
        stale = 1.0 if self.surrogate == "old_policy" else 1 - now
        return UpdateRule(stiffness, self.momentum, "heavy_ball", interval, self.lag_schedule, stale)

    def learning_rate(self) -> float:
        """eta at which the exact transition lies at `expected`."""
        limit = ringing_stiffness if self.transition == "ringing" else critical_stiffness
        return limit(self.rule(self.expected)) / curvature(*self.bandit)


# plateaus 0.69, 0.14 and 0.82; with importance ratios the stale fractions are -0.10, 0.58 and -0.87
HIGH, LOW, HIGHER = (0.5, 2.5, 8), (0.003, 0.7, 64), (0.5, 1.7, 64)
CASES = (
    Case("ringing", "old_policy", "periodic", 0.0, HIGH, 8, (6, 7, 8, 9, 10)),
    Case("instability", "old_policy", "periodic", 0.0, HIGH, 16, (13, 15, 16, 17, 19)),
    Case("ringing", "old_policy", "periodic", 0.5, HIGH, 8, (6, 7, 8, 9, 10)),
    Case("instability", "old_policy", "periodic", 0.5, HIGH, 16, (13, 15, 16, 17, 19)),
    Case("ringing", "old_policy", "constant", 0.0, HIGH, 8, (6, 7, 8, 9, 10)),
    Case("instability", "old_policy", "constant", 0.0, HIGH, 16, (13, 15, 16, 17, 19)),
    Case("ringing", "importance_ratio", "periodic", 0.0, LOW, 8, (6, 7, 8, 9, 10)),
    Case("instability", "importance_ratio", "periodic", 0.0, LOW, 16, (13, 15, 16, 17, 19)),
    Case("ringing", "importance_ratio", "periodic", 0.9, HIGHER, 8, (6, 7, 8, 9, 10)),  # the lag *ends* it
    Case("ringing", "importance_ratio", "constant", 0.0, LOW, 8, (6, 7, 8, 9, 10)),
    Case("instability", "importance_ratio", "constant", 0.0, LOW, 16, (13, 15, 16, 17, 19)),
)


def response(case: Case, interval: int, replicates: int, seed: int) -> Float[np.ndarray, "replicate record"]:
    """Half the difference of coupled runs from either side of the fixed point, in units of the displacement.

    Every refresh from the start under periodic refresh; under constant lag, where L + 1 numbers are the state, at
    strides of about L/2, late enough for the slowest pair of roots to be left and early enough for it to be seen
    (after 2 L steps at the onset of ringing, where it decays; after 3 L steps at the onset of instability).
    """
    p_ref, kl_weight, group_size = case.bandit
    plateau = logit(fixed_point(*case.bandit)) - logit(p_ref)
    constant = case.lag_schedule == "constant"
    stride = max(interval // 2, 1) if constant else interval
    first = (4 if case.transition == "ringing" else 6) if constant else 0
    last = first + (2 if case.momentum == 0 and not constant else 6)
    training = Training(
        optimizer=Momentum(case.learning_rate(), case.momentum),
        group_size=group_size,
        prompts_per_step=PROMPTS,
        steps=last * stride,
        kl_weight=kl_weight,
        refresh_interval=interval,
        lag_schedule=case.lag_schedule,
        surrogate=case.surrogate,
    )
    up, down = (
        train(
            two_armed(p_ref),
            training,
            replicates=replicates,
            seed=seed,
            start=plateau + sign * DISPLACEMENT,
            record_every=stride,
        ).logits[:, first:, 0, 1]
        for sign in (1, -1)
    )
    return np.asarray(up - down) / (2 * DISPLACEMENT)


def beyond(case: Case, mean: Float[np.ndarray, " record"]) -> float:
    """How far past the transition the response is: zero at it, negative before."""
    if len(mean) == 2:
        root = mean[1] / mean[0]
        return -root if case.transition == "ringing" else abs(root) - 1
    design = np.stack([mean[1:-1], -mean[:-2]], axis=-1)
    trace, determinant = np.linalg.lstsq(design, mean[2:], rcond=None)[0]
    if case.transition == "ringing":
        return determinant - trace**2 / 4
    return float(np.max(np.abs(np.roots([1, -trace, determinant])))) - 1


def located(case: Case, responses: list[Float[np.ndarray, "replicate record"]]) -> float:
    """The interval at which `beyond` changes sign, by linear interpolation over the sweep; NaN where it does not."""
    values = np.array([beyond(case, r.mean(axis=0)) for r in responses])
    change = np.flatnonzero(values[:-1] * values[1:] <= 0)
    if change.size != 1:
        return math.nan
    i = change[0]
    low, high = case.sweep[i], case.sweep[i + 1]
    return float(low + (high - low) * values[i] / (values[i] - values[i + 1]))


def transition(case: Case, replicates: int, seed: int) -> dict[str, object]:
    """Where theory puts the transition and where the sampled bandit shows it."""
    responses = [response(case, interval, replicates, seed) for interval in case.sweep]
    part = np.arange(replicates) % PARTS
    without = [located(case, [r[part != i] for r in responses]) for i in range(PARTS)]
    place = located(case, responses)
    rule = case.rule(case.expected)
    return {
        "transition": case.transition,
        "surrogate": case.surrogate,
        "lag_schedule": case.lag_schedule,
        "momentum": case.momentum,
        "bandit": case.bandit,
        "stale_fraction": float(rule.stale_fraction),
        "stiffness_per_step": case.learning_rate() * curvature(*case.bandit),
        "expected": case.expected,
        "located": place,
        "standard_error": float(np.std(without) * math.sqrt(PARTS - 1)),
        "relative_error": place / case.expected - 1,
    }


def spread(group_size: int, replicates: int, seed: int, *, times: float = 40.0) -> dict[str, float]:
    """Simulated, exact and leading-order standard deviation of the logit: P = 4, eta = 0.02, no momentum.

    Ten relaxation times are left out, and `times` of them are averaged over.
    """
    p_ref, kl_weight, eta, prompts = 0.5, 2.5, 0.02, 4
    plateau, tau = fixed_point(p_ref, kl_weight, group_size), 1 / (eta * curvature(p_ref, kl_weight, group_size))
    stride = math.ceil(tau / 5)
    training = Training(
        optimizer=Momentum(eta),
        group_size=group_size,
        prompts_per_step=prompts,
        steps=math.ceil((10 + times) * tau),
        kl_weight=kl_weight,
    )
    history = train(
        two_armed(p_ref),
        training,
        replicates=replicates,
        seed=seed,
        start=logit(plateau) - logit(p_ref),
        record_every=stride,
    )
    theta = np.asarray(history.logits[:, math.ceil(10 * tau / stride) :, 0, 1])
    exact = stationary_sd(p_ref, kl_weight, group_size, prompts_per_step=prompts, learning_rate=eta).theta
    many = fixed_point(p_ref, kl_weight)
    leading = abs(1 - 2 * many) * math.sqrt(eta / (8 * group_size * curvature(p_ref, kl_weight) * prompts))
    simulated = float(theta.std())
    by_replicate = np.mean((theta - theta.mean()) ** 2, axis=1)
    error = float(by_replicate.std() / math.sqrt(replicates) / (2 * simulated**2))
    return {
        "group_size": group_size,
        "simulated": simulated,
        "relative_standard_error": error,
        "exact": exact,
        "exact_relative_error": simulated / exact - 1,
        "leading": leading,
        "leading_relative_error": leading / simulated - 1,
        "mean_reward": float(expit(theta).mean()),
        "fixed_point": plateau,
    }


def main() -> None:
    """Run everything and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=1000, help="half of them for the transitions")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    result: dict[str, list[dict[str, object]]] = {"transitions": [], "spread": []}
    for case in CASES:
        result["transitions"].append(transition(case, arguments.replicates // 2, seed=1))
        print(result["transitions"][-1], flush=True)
    for group_size in GROUP_SIZES:
        result["spread"].append({**spread(group_size, arguments.replicates, seed=2)})
        print(result["spread"][-1], flush=True)
    arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
