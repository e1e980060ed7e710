"""Fit the real logs of ../shared/traces: does the sampler converge, and does the held-out half fall in its interval?

    uv run python -m tests.statistical.real_traces [NAME ...] [--out FILE.json]

Only numbers are kept, none of the logs. *Held out*: fitted to the first half, the 90 % interval of the mean of the last
fifth is set beside it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import jax
import numpy as np

from sde_grpo import Configuration, NothingToFitError, fit_run, read_run
from sde_grpo.intervals import interval

TRACES = Path(__file__).parents[3] / "shared" / "traces"
BATCH = {"group_size": 8, "prompts_per_step": 16}
ADAM = BATCH | {"momentum": 0.9, "momentum_kind": "ema"}
CASES: dict[str, tuple[str, dict, dict[str, str]]] = {
    "cs336-refresh1": ("on_policy_e1_tb256.metrics.jsonl", {}, {}),
    "cs336-refresh4-e2tb128": ("focused_e2_tb128.metrics.jsonl", {}, {}),
    "cs336-refresh4-e4tb256": ("focused_e4_tb256.metrics.jsonl", {}, {}),
    "cs336-lr1e-5": ("grpo_on_policy_lr1e-5.metrics.jsonl", {}, {}),
    "tinker-gsize-sweep": (
        "groupsize_zvf_sweep.csv",
        {"prompts_per_step": 16},
        {"group_size": "4", "seed": "42"},
    ),
    "trl-verilog-8b": ("trainer_state.json", {}, {}),
    "trl-wordle": ("trainer_state.json", {}, {}),
    "trl-tiny/a-G8-s1": ("trainer_state.json", ADAM | {"refresh_interval": 1}, {}),
    "trl-tiny/b-K4-s1": ("trainer_state.json", ADAM | {"refresh_interval": 4}, {}),
    "trl-tiny/d-sgd-lr0.01-mu0.9-s1": (
        "trainer_state.json",
        BATCH | {"momentum": 0.9, "momentum_kind": "heavy_ball", "refresh_interval": 1},
        {},
    ),
    "trl-tiny/c-lr0.01-s1": ("trainer_state.json", ADAM | {"refresh_interval": 1}, {}),
    "verl-alfworld-zero": ("training_metrics_grpo.csv", {}, {}),
    "verl-babyai-dapo": ("training_metrics_dapo.csv", {}, {}),
}
HELD_OUT = tuple(name for name in CASES if name.startswith("cs336"))


def account(fit) -> dict[str, object]:
    """What is kept of a fit."""
    summary = fit.summary()
    kept = ("divergences", "draws", "rhat_max", "ess_bulk_min", "ess_tail_min", "converged", "seconds", "log_evidence")
    return {
        "model": [summary["model"][n] for n in ("link", "dynamics", "noise")],
        "sampler": {n: summary["sampler"][n] for n in kept},
        "parameters": {n: [d["q05"], d["q50"], d["q95"]] for n, d in summary["parameters"].items()},
        "fit": summary["fit"],
        "flagged": [c["statistic"] for c in summary["checks"] if c["flagged"]],
    }


def main() -> None:
    """Fit what is named, or everything, and write after each fit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(CASES))
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    results: dict[str, object] = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    for name in arguments.names:
        file, known, select = CASES[name]
        try:
            run = read_run(TRACES / name / file, options=Configuration(**known), select=select)
        except NothingToFitError as refusal:
            results[name] = {"refused": str(refusal)}
        else:
            results[name] = account(fit_run(run))
            if name in HELD_OUT:
                half = run.truncated(float(run.steps[len(run.steps) // 2 - 1]))
                fit = fit_run(half)
                ahead = fit.forecast(run.times[len(half.times) :])["reward"].to_numpy()
                fifth = len(run.reward) // 5
                low, high = interval(ahead[:, -fifth:].mean(1))
                observed = float(np.mean(run.reward[-fifth:]))
                held_out = {
                    "interval": [float(low), float(high)],
                    "observed": observed,
                    "sampler": account(fit)["sampler"],
                }
                results[name]["held_out_last_fifth"] = held_out  # pyright: ignore[reportIndexIssue]
        print(name, json.dumps(results[name]), flush=True)
        arguments.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
