"""Write the bandit data set: `python -m sde_grpo.bandit.write [DIR]`, the same bytes every time."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from sde_grpo.bandit.exact import curvature, fixed_point, stationary_sd
from sde_grpo.bandit.simulate import BanditSettings, Simulation, simulate

_COLUMNS = ("group_size", "prompts_per_step", "learning_rate", "momentum", "refresh_interval", "kl_weight")
_P_REF, _KL_WEIGHT, _STEPS = 0.5, 2.5, 300
_NEAR_DISTANCE = 0.07  # in p, below the fixed point: the linearised decay holds to 0.004
_SEEDS = 4
_SIGNIFICANT_DIGITS = 10  # in the JSON file: well inside what different builds of LAPACK agree on

_README = """\
# Simulated GRPO runs with known answers

Reward traces of GRPO on the two-armed softmax bandit: sampled groups, so the traces have both the fluctuation of the
policy and the sampling noise of a real log, and the plateau, the curvature and the stationary spread are known exactly.

Written by

    python -m sde_grpo.bandit.write data/bandit

with fixed seeds: the same bytes every time (numpy may change its random streams between versions; a test compares).
Nothing here comes from elsewhere. Licence: Apache-2.0, as the package.

| files | what they are |
|---|---|
| `near-G{2,4,8,16,32}-s{0..3}.csv` | start 0.07 below the fixed point, no momentum, 64 prompts a step |
| `far-G8-s{0..3}.csv` | start at 0.1, heavy ball with momentum 0.9, 32 prompts a step: rises and saturates |
| `true_parameters.json` | the truth for every file |

The `near` runs share one learning rate; their relaxation time is 33 steps at G = 2 and 46 at G = 32, because the
curvature depends on G. Near is not infinitesimal: the second-order term of the drift makes the best single exponential
of the noise-free curve faster than `relaxation_time`, by 5 % at G = 2, 9 % at G = 8 and 11 % at G = 32.

Columns, one row per optimizer step; the settings are repeated in every row, so that a log describes itself:

| column | meaning |
|---|---|
| `step` | optimizer step, from 1 |
| `reward` | mean 0/1 reward of the batch sampled at that step, before its update; six decimals |
| `group_size` | G, completions per prompt |
| `prompts_per_step` | P, prompts per batch |
| `learning_rate` | eta |
| `momentum` | mu, heavy ball |
| `refresh_interval` | optimizer steps per sampled batch |
| `kl_weight` | beta, weight of the KL term to the reference policy (success probability 0.5) |

In `true_parameters.json`, for each file: `settings` (all of `BanditSettings`), `seed`, and at that group size
`fixed_point` (reward), `curvature` (1 / learning rate), `relaxation_time` = (1 - mu)/(eta kappa) in steps, and
`stationary_sd` of the policy's success probability, without the sampling noise of a batch.

All prompts are alike, so `prompt_correlation` is 0: given p, a row has variance p(1 - p)/(G P). Runs share no prompts
and no random numbers; there is no effect common to the runs of one step.
"""


class Run(NamedTuple):
    """One file of the data set."""

    name: str
    settings: BanditSettings
    seed: tuple[int, ...]


def runs() -> Iterator[Run]:
    """Every run of the data set, in the order of the files."""
    for group_size in (2, 4, 8, 16, 32):
        plateau = fixed_point(_P_REF, _KL_WEIGHT, group_size)
        near = BanditSettings(
            p_ref=_P_REF,
            kl_weight=_KL_WEIGHT,
            p_start=round(plateau - _NEAR_DISTANCE, 4),
            group_size=group_size,
            prompts_per_step=64,
            learning_rate=0.05,
            steps=_STEPS,
        )
        yield from (Run(f"near-G{group_size}-s{s}", near, (0, group_size, s)) for s in range(_SEEDS))
    far = BanditSettings(
        p_ref=_P_REF,
        kl_weight=_KL_WEIGHT,
        p_start=0.1,
        group_size=8,
        prompts_per_step=32,
        learning_rate=0.0045,
        momentum=0.9,
        steps=_STEPS,
    )
    yield from (Run(f"far-G8-s{s}", far, (1, 8, s)) for s in range(_SEEDS))


def write(directory: Path) -> None:
    """Write the traces, `true_parameters.json` and `README.md` into `directory`, which is created if need be."""
    directory.mkdir(parents=True, exist_ok=True)
    truth = {}
    for run in runs():
        write_text(directory / f"{run.name}.csv", _trace(run.settings, simulate(run.settings, seed=run.seed)))
        truth[f"{run.name}.csv"] = truth_of(run)
    write_text(directory / "true_parameters.json", json.dumps(truth, indent=1) + "\n")
    write_text(directory / "README.md", _README)


def _trace(settings: BanditSettings, simulation: Simulation) -> str:
    config = ",".join(str(getattr(settings, column)) for column in _COLUMNS)
    rows = [
        f"{step},{reward:.6f},{config}" for step, reward in zip(simulation.steps, simulation.reward[0], strict=True)
    ]
    return "\n".join([",".join(("step", "reward", *_COLUMNS)), *rows, ""])


def truth_of(run: Run) -> dict[str, Any]:
    s = run.settings
    bandit = (s.p_ref, s.kl_weight, s.group_size)
    kappa = curvature(*bandit)
    sd = stationary_sd(*bandit, prompts_per_step=s.prompts_per_step, learning_rate=s.learning_rate, momentum=s.momentum)
    return {
        "settings": asdict(s),
        "seed": list(run.seed),
        "fixed_point": _rounded(fixed_point(*bandit)),
        "curvature": _rounded(kappa),
        "relaxation_time": _rounded((1 - s.momentum) / (s.learning_rate * kappa)),
        "stationary_sd": _rounded(sd.p),
        "prompt_correlation": 0.0,
    }


def _rounded(value: float) -> float:
    return float(f"{value:.{_SIGNIFICANT_DIGITS}g}")


def write_text(path: Path, text: str) -> None:
    """The same bytes on every system."""
    path.write_text(text, encoding="utf-8", newline="\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of the module."""
    parser = argparse.ArgumentParser(prog="python -m sde_grpo.bandit.write", description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=Path("data/bandit"), help="default: %(default)s")
    write(parser.parse_args(arguments).directory)


if __name__ == "__main__":
    main()
