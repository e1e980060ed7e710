"""Simulated traces: the truth beside them is what they show, and settings that do not fit are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sde_grpo.bandit import fixed_point, group_signal
from sde_grpo.errors import InputError
from sde_grpo.sde.trace import TraceSettings, simulate_traces

OSCILLATOR: dict[str, Any] = {"learning_rate": 0.05, "curvature": 0.5, "fixed_point": 0.7}


def test_stationary_oscillator_has_the_spread_and_the_noise_of_its_truth() -> None:
    traces = simulate_traces(TraceSettings(**OSCILLATOR, stationary_sd=0.02, steps=400), runs=200)
    truth = traces.truth
    assert truth.stationary_sd == pytest.approx(0.02)
    assert truth.relaxation_time == pytest.approx(1 / (0.05 * 0.5))
    assert traces.expected.mean() == pytest.approx(0.7, abs=0.003)
    assert traces.expected.std() == pytest.approx(0.02, rel=0.06)  # 200 runs of 10 relaxation times
    assert (traces.reward - traces.expected).std() == pytest.approx(truth.sampling_sd, rel=0.02)


def test_noise_of_groups_shrinks_with_prompts_and_noise_of_a_gradient_with_the_group() -> None:
    def sd(**settings) -> float:
        found = simulate_traces(TraceSettings(**OSCILLATOR, steps=1, **settings)).truth.stationary_sd
        assert found is not None
        return found

    assert sd(prompts_per_step=8) / sd(prompts_per_step=32) == pytest.approx(2)
    assert sd(gradient_noise=0.1, group_size=4) / sd(gradient_noise=0.1, group_size=16) == pytest.approx(2)
    ratio = group_signal(0.7, 4).variance / group_signal(0.7, 16).variance  # 4 to leading order in 1/G only
    assert sd(group_size=4) / sd(group_size=16) == pytest.approx(np.sqrt(ratio))


def test_periodic_refresh_logs_one_row_a_batch() -> None:
    settings = TraceSettings(**OSCILLATOR, steps=10, start=0.3, refresh_interval=4, stationary_sd=0.0)
    traces = simulate_traces(settings)
    assert traces.steps.tolist() == [1, 5, 9]
    assert traces.expected[0, 0] == pytest.approx(0.3)
    assert traces.truth.relaxation_time == pytest.approx(1 / 0.025 - 1.5)
    assert len(simulate_traces(TraceSettings(**OSCILLATOR, steps=10, start=0.3, lag_schedule="constant")).steps) == 10


def test_anchored_run_rises_from_the_reference_to_its_fixed_point() -> None:
    settings = TraceSettings(model="kl-anchored", learning_rate=0.1, kl_weight=2.5, steps=300, prompts_per_step=64)
    traces = simulate_traces(settings, runs=20)
    assert np.all(traces.expected[:, 0] == pytest.approx(0.5))
    assert traces.truth.fixed_point == pytest.approx(fixed_point(0.5, 2.5, 8))
    late = traces.expected[:, 200:]
    assert late.mean() == pytest.approx(traces.truth.fixed_point, abs=0.001)
    assert late.std() == pytest.approx(traces.truth.stationary_sd, rel=0.15)


REFUSED: dict[str, dict[str, Any]] = {
    r"model is 'adam'; allowed are 'oscillator', 'kl-anchored', 'kl-free'": {"model": "adam"},
    r"learning_rate is 0.0; it must be positive and finite": {"learning_rate": 0.0},
    r"momentum is 1.0; it must lie in \[0, 1\)": {"momentum": 1.0},
    r"refresh_interval is 0": {"refresh_interval": 0, "lag_schedule": "constant"},
    r"group_size is 1; it must be a whole number of at least 2": {"group_size": 1},
    r"prompts_per_step is 0; it must be a whole number of at least 1": {"prompts_per_step": 0},
    r"steps is 0; it must be a whole number of at least 1": {"steps": 0},
    r"curvature is -0.5; it must be positive and finite": {"curvature": -0.5},
    r"fixed_point is 1.5; it must lie strictly between 0 and 1": {"fixed_point": 1.5},
    r"start is 0.0; it must lie strictly between 0 and 1": {"start": 0.0},
    r"stationary_sd is -1.0; it must be finite and not negative": {"stationary_sd": -1.0},
    r"stationary_sd is 0.1 and gradient_noise 0.2; give one of them": {"stationary_sd": 0.1, "gradient_noise": 0.2},
    r"curvature is missing; the oscillator model needs it": {"curvature": None},
    r"kl_weight is 2.0, but the oscillator model does not take it; it is for kl-anchored": {"kl_weight": 2.0},
    r"kl_weight is missing; the kl-anchored model needs it": {
        "model": "kl-anchored",
        "curvature": None,
        "fixed_point": None,
    },
    r"fixed_point is 0.7, but the kl-free model does not take it": {"model": "kl-free", "curvature": None},
    r"refresh_interval is 2; the kl-free law has no fixed point": {
        "model": "kl-free",
        "curvature": None,
        "fixed_point": None,
        "refresh_interval": 2,
    },
}


@pytest.mark.parametrize("message", REFUSED)
def test_settings_that_are_refused(message: str) -> None:
    with pytest.raises(InputError, match=message):
        TraceSettings(**(OSCILLATOR | REFUSED[message]))


def test_runs_that_are_refused() -> None:
    unstable: dict[str, Any] = OSCILLATOR | {"refresh_interval": 100, "steps": 300}
    with pytest.raises(InputError, match=r"damping is -0.2375\d*; a stationary state needs it positive. Give a start"):
        simulate_traces(TraceSettings(**unstable))
    with pytest.raises(InputError, match=r"The expected reward is .* at step \d+; for 0/1 rewards it must lie in"):
        simulate_traces(TraceSettings(**unstable, start=0.3))
    with pytest.raises(InputError, match=r"no interior fixed point at p_ref = 0.9, kl_weight = 0.01"):
        simulate_traces(TraceSettings(model="kl-anchored", learning_rate=0.1, kl_weight=0.01, p_ref=0.9))
    with pytest.raises(InputError, match=r"runs is 0; it must be a whole number of at least 1"):
        simulate_traces(TraceSettings(**OSCILLATOR), runs=0)
    with pytest.raises(InputError, match=r"seed is -1; it must be a whole number of at least 0"):
        simulate_traces(TraceSettings(**OSCILLATOR), seed=-1)
