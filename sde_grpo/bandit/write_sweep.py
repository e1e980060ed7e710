"""Write the group-size sweep of the bandit, the same bytes always: `python -m sde_grpo.bandit.write_sweep [DIR]`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from sde_grpo.bandit.exact import fixed_point
from sde_grpo.bandit.simulate import BanditSettings, simulate
from sde_grpo.bandit.write import Run, truth_of, write_text

GROUP_SIZES = (2, 4, 8, 16, 32, 64)
_SEEDS = 4
_CONSTANT = ("prompts_per_step", "learning_rate", "momentum", "refresh_interval", "kl_weight")
_P_REF, _KL_WEIGHT = 0.3, 1.2  # a soft fixed point: its level and its curvature depend much on G
_DISTANCE = 0.08  # in p, below the fixed point of each G

_README = """\
# A group-size sweep with known answers

Sampled GRPO on the two-armed softmax bandit, G = 2 to 64, four seeds each, 200 steps, all else equal. Both the level
at which a run ends and its relaxation time depend on G here, by an amount that finite groups cause and that is known
exactly (theory note, section 5): a test of group-size invariance must find the change, and find it gone once the
exact finite-G correction is made.

Written by

    python -m sde_grpo.bandit.write_sweep data/bandit-group-size

with fixed seeds: the same bytes every time. Nothing here comes from elsewhere. Licence: Apache-2.0, as the package.

| file | what it is |
|---|---|
| `sweep.csv` | all runs in one file, told apart by `group_size` and `seed` |
| `true_parameters.json` | the truth for every group size and for every run, keyed `G<group size>-s<seed>` |

Every run starts 0.08 below its own fixed point. `sweep.csv` has `group_size`, `seed`, `step` (from 1), `reward` (mean
of the batch before the update, six decimals), and the settings that all runs share; the KL weight is 1.2 to a
reference that succeeds with probability 0.3. All prompts are alike, and runs share no random numbers: there is
nothing to pair, and given p a row has variance p(1 - p)/(G P).

| G | 2 | 4 | 8 | 16 | 32 | 64 |
|---|---|---|---|---|---|---|
{table}

The start is not infinitesimally near: the best single exponential of the noise-free logit is faster than
`relaxation_time`, by 5 % at G = 2 and 18 % at G = 64 (the second-order term of the drift).
"""


def runs() -> Iterator[Run]:
    """Every run of the sweep, in the order of the file."""
    for group_size in GROUP_SIZES:
        settings = BanditSettings(
            p_ref=_P_REF,
            kl_weight=_KL_WEIGHT,
            p_start=round(fixed_point(_P_REF, _KL_WEIGHT, group_size) - _DISTANCE, 4),
            group_size=group_size,
            prompts_per_step=128,
            learning_rate=0.3,
            steps=200,
        )
        yield from (Run(f"G{group_size}-s{s}", settings, (2, group_size, s)) for s in range(_SEEDS))


def write(directory: Path) -> None:
    """Write `sweep.csv`, `true_parameters.json` and `README.md` into `directory`, which is created if need be."""
    directory.mkdir(parents=True, exist_ok=True)
    lines = [",".join(("group_size", "seed", "step", "reward", *_CONSTANT))]
    truth = {}
    for run in runs():
        simulation = simulate(run.settings, seed=run.seed)
        constant = ",".join(str(getattr(run.settings, column)) for column in _CONSTANT)
        lines += [
            f"{run.settings.group_size},{run.seed[-1]},{step},{reward:.6f},{constant}"
            for step, reward in zip(simulation.steps, simulation.reward[0], strict=True)
        ]
        truth[run.name] = truth_of(run)
    write_text(directory / "sweep.csv", "\n".join([*lines, ""]))
    write_text(directory / "true_parameters.json", json.dumps(truth, indent=1) + "\n")
    rows = [
        f"| {label} | " + " | ".join(f"{truth[f'G{g}-s0'][name]:.{digits}f}" for g in GROUP_SIZES) + " |"
        for label, name, digits in (
            ("fixed point", "fixed_point", 3),
            ("relaxation time, steps", "relaxation_time", 1),
            ("stationary sd", "stationary_sd", 4),
        )
    ]
    write_text(directory / "README.md", _README.format(table="\n".join(rows)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of the module."""
    parser = argparse.ArgumentParser(prog="python -m sde_grpo.bandit.write_sweep", description=__doc__)
    default = Path("data/bandit-group-size")
    parser.add_argument("directory", nargs="?", type=Path, default=default, help="default: %(default)s")
    write(parser.parse_args(arguments).directory)


if __name__ == "__main__":
    main()
