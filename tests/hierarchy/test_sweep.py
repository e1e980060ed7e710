"""Which runs make a sweep, what is said about confounding, and when runs are compared as pairs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from sde_grpo import Configuration, InputError, read_runs
from sde_grpo.hierarchy import build_sweep
from sde_grpo.hierarchy.pairing import SIZE
from tests.hierarchy.sweeps import made_run, simulate_runs

RNG = np.random.default_rng(0)


def noise(size: int, steps: int = 30, **known):
    return made_run(RNG.uniform(0.2, 0.8, steps), source=f"g{size}", group_size=size, **known)


def test_a_sweep_of_group_sizes() -> None:
    sweep = build_sweep([noise(4), noise(8), noise(8)])
    assert sweep.names == ("g4", "g8 #2", "g8 #3")
    assert sweep.groups == ("G=4", "G=8", "G=8")
    assert list(sweep.covariates) == ["log2_group_size"]
    np.testing.assert_allclose(sweep.covariates["log2_group_size"], [2, 3, 3])
    assert sweep.group_size is not None
    assert sweep.link == "logit"
    assert not sweep.paired
    assert not sweep.warnings


def test_columns_are_covariates() -> None:
    runs = [noise(8), noise(8), noise(8)]
    sweep = build_sweep(runs, by=(), columns={"model_size": [1, 2, 4], "depth": [3.0, 5.0, 4.0]})
    np.testing.assert_allclose(sweep.covariates["log_model_size"], np.log([1, 2, 4]))
    np.testing.assert_allclose(sweep.covariates["depth"], [3, 5, 4])
    assert sweep.groups[1] == "size=2 depth=5"


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (lambda: [noise(4)], {}, "1 run given; a comparison needs at least two"),
        (lambda: [noise(8), noise(8)], {}, "group_size is 8 in all 2 runs: one group only"),
        (lambda: [noise(4), made_run(RNG.uniform(0, 1, 30))], {}, "group_size is not known for made"),
        (lambda: [noise(4), noise(8)], {"by": ("learning_rate",)}, "learning_rate is not known for g4, g8"),
        (lambda: [noise(4), noise(8)], {"by": ("depth",)}, "depth is no setting of a run"),
        (lambda: [noise(4), noise(8)], {"by": ()}, "No covariate"),
        (lambda: [noise(4), noise(8)], {"columns": {"depth": [1, 1]}}, "depth is 1 in all 2 runs"),
        (lambda: [noise(4), noise(8)], {"columns": {"depth": [1]}}, "one for each|one value for each|for each"),
        (lambda: [noise(4), noise(8)], {"columns": {"depth": [1, 2]}}, "cannot be told apart"),
        (lambda: [noise(4), noise(8)], {"columns": {"model_size": [0, 2]}}, "logarithm is taken"),
        (lambda: [noise(4), noise(8, reward_range=(0.0, 2.0))], {}, "different reward scales .*reward_range"),
        (
            lambda: [noise(4, step_unit="rollout"), noise(8, step_unit="optimizer")],
            {},
            "different step units",
        ),
        (lambda: [noise(4), noise(8)], {"names": ["a", "a"]}, "one distinct name a run"),
        (lambda: [noise(4), noise(8)], {"paired": "yes"}, "paired is 'yes'"),
        (
            lambda: [noise(4), noise(8)],
            {"paired": "on", "columns": {"seed": [1, 2]}},
            "no two runs have the same seed",
        ),
    ],
)
def test_refusals(make, options, message) -> None:
    with pytest.raises(InputError, match=message):
        build_sweep(make(), **options)


@pytest.mark.parametrize(
    ("known", "named"),
    [
        ([{"prompts_per_step": 32}, {"prompts_per_step": 16}], "prompts_per_step"),
        ([{"learning_rate": 1e-3}, {"learning_rate": 2e-3}], "learning_rate"),
        ([{"steps": 60}, {"steps": 30}], "length"),
    ],
)
def test_confounders_are_named(known, named) -> None:
    (warning,) = build_sweep([noise(4, **known[0]), noise(8, **known[1])]).warnings
    assert f"group_size is confounded with {named}" in warning


def test_pairing_is_detected_with_its_size_and_power() -> None:
    """1 % of false alarms; at a correlation of 0.6 no miss with seeds, and few where the noise must tell the order."""
    repeats, seeds = 150, [1, 1, 1, 2, 2, 2]
    for shared, least, most in ((0.0, 0, binom.ppf(0.9999, repeats, SIZE)), (0.6, repeats - 1, repeats)):
        found = {"seeds": 0, "noise": 0}
        for i in range(repeats):
            runs = simulate_runs(np.random.default_rng([i, int(10 * shared)]), shared=shared)
            found["seeds"] += build_sweep(runs, columns={"seed": seeds}).paired
            found["noise"] += build_sweep(runs).paired
        assert least <= found["seeds"] <= most, found
        assert 0.75 * least <= found["noise"] <= most, found


def test_runs_of_one_seed_of_a_real_sweep_are_pairs(traces) -> None:
    log = traces / "tinker-gsize-sweep" / "groupsize_zvf_sweep.csv"
    sweep = build_sweep(read_runs(log, options=Configuration(prompts_per_step=16)))
    assert sweep.paired
    assert len(set(sweep.orders)) == 3
