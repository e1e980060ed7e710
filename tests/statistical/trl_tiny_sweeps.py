"""Refresh interval and momentum in a real network: what each run did, for the theory to be set beside.

    uv run python -m tests.statistical.trl_tiny_sweeps [NAME ...] [--out FILE.json]

Mechanistic fits of runs of ../shared/traces/trl-tiny whose settings are all known. Only numbers are kept, none of the
logs; `notebooks/02_theory.ipynb` reads them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import jax
import numpy as np

from sde_grpo import Configuration, fit_run, read_run
from sde_grpo.intervals import describe

TRACES = Path(__file__).parents[3] / "shared" / "traces" / "trl-tiny"
REFRESH = ("b-K1-s1", "b-K1-s2", "b-K2-s1", "b-K2-s2", "b-K4-s1", "b-K4-s2", "b-K8-s1", "b-K16-s1")
MOMENTUM = (
    "d-sgd-lr0.01-mu0.0-s1",
    "d-sgd-lr0.1-mu0.0-s1",
    "d-sgd-lr0.1-mu0.0-s2",
    "d-sgd-lr0.01-mu0.9-s1",
    "d-sgd-lr0.003-mu0.97-s1",
    "d-sgd-lr0.003-mu0.97-s2",
    "d-sgd-lr0.01-mu0.97-s1",
    "d-sgd-lr0.01-mu0.9-K8-s1",
)


def settings(name: str) -> Configuration:
    """The settings of a run, from its config.json: SGD is plain heavy ball, AdamW an EMA."""
    record = json.loads((TRACES / name / "config.json").read_text(encoding="utf-8"))
    sgd = name.startswith("d-sgd")
    return Configuration(
        group_size=8,
        prompts_per_step=16,
        learning_rate=float(record["grpo_config"]["learning_rate"]),
        momentum=float(name.split("-mu")[1].split("-")[0]) if sgd else 0.9,
        momentum_kind="heavy_ball" if sgd else "ema",
        refresh_interval=int(record["optimizer_steps_per_refresh"]),
        reward_range=(0.0, 1.0),
    )


def account(name: str) -> dict[str, object]:
    """What is kept of a run: settings, what was seen, and its own mechanistic fit."""
    known = settings(name)
    run = read_run(TRACES / name / "trainer_state.json", options=known)
    fit = fit_run(run)
    summary = fit.summary()
    tenth = max(len(run.reward) // 10, 1)
    return {
        "settings": known.as_dict(),
        "points": len(run.reward),
        "first_tenth": float(np.mean(run.reward[:tenth])),
        "last_tenth": float(np.mean(run.reward[-tenth:])),
        "largest": float(np.max(run.reward)),
        "curvature": describe(fit.draws("curvature")),
        "relaxation_time": describe(fit.draws("relaxation_time") * float(fit.design.time_unit)),
        "fixed_point": describe(fit.draws("fixed_point")),
        "r2": summary["fit"],
        "flagged": [row["statistic"] for row in summary["checks"] if row["flagged"]],
        "converged": summary["sampler"]["converged"],
        "divergences": summary["sampler"]["divergences"],
    }


def main() -> None:
    """Fit what is named, or everything, and write after each fit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[*REFRESH, *MOMENTUM])
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    results: dict[str, object] = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    for name in arguments.names:
        results[name] = account(name)
        print(name, json.dumps(results[name]), flush=True)
        arguments.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
