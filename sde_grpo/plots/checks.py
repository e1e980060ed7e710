"""The picture of the checks: does a run drawn from the fit look like the run?"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from sde_grpo.fit import Fit

_BLUE, _RED, _GREY = "#1f6f9f", "#b02a2a", "#707070"


def plot_checks(fit: Fit) -> Figure:
    """Replicated traces, standardised residuals, one-step-ahead PIT, and every statistic against its replicates."""
    run, predictive, report = fit.run, fit.predictive, fit.checks
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    (traces, residuals), (pit, statistics) = figure.subplots(2, 2)

    replicates = predictive["reward"].to_numpy().reshape(-1, len(run.reward))
    for replicate in replicates[:: max(len(replicates) // 8, 1)][:8]:
        traces.plot(run.times, replicate, color=_BLUE, lw=0.5, alpha=0.35)
    traces.plot(run.times, run.reward, color="black", lw=0.9)
    traces.set_title("the run (black) and eight runs drawn from the fit", fontsize=10)
    traces.set(xlabel="step", ylabel="reward")

    ahead, spread = (predictive[n].to_numpy().mean((0, 1)) for n in ("ahead_mean", "ahead_sd"))
    residuals.plot(run.times, (run.reward - ahead) / spread, ".", color=_GREY, ms=3)
    for level in (-1.645, 0.0, 1.645):
        residuals.axhline(level, color=_BLUE, lw=0.8, ls="-" if level == 0 else "--")
    residuals.set_title("one-step-ahead residuals, in sd (90 % between the dashes)", fontsize=10)
    residuals.set(xlabel="step")

    values = np.sort(np.asarray(report.pit))
    expected = (np.arange(len(values)) + 0.5) / len(values)
    pit.plot(expected, values - expected, color=_BLUE)
    limit = 1.22 / np.sqrt(len(values))
    pit.axhspan(-limit, limit, color=_GREY, alpha=0.15, lw=0)
    pit.set_title(f"PIT minus uniform, 90 % band (p = {report.pit_p_value:.2g})", fontsize=10)
    pit.set(xlabel="expected quantile")

    rows = [row for row in report.rows if np.isfinite(row.q05)]
    for i, row in enumerate(rows):
        width = (row.q95 - row.q05) / 2 or 1.0
        middle = (row.q95 + row.q05) / 2
        statistics.plot([-1, 1], [i, i], color=_BLUE, lw=5, alpha=0.4, solid_capstyle="butt")
        place = float(np.clip((row.observed - middle) / width, -4, 4))
        statistics.plot(place, i, "o", color=_RED if row.flagged else "black")
        statistics.text(4.3, i, f"p {row.p_value:.2g}", va="center", fontsize=8)
    statistics.set_yticks(range(len(rows)), [row.statistic.replace("_", " ") for row in rows], fontsize=8)
    statistics.set(xlim=(-4.2, 5.8), xlabel="observed, against the 90 % interval of replicated runs (bars)")
    statistics.invert_yaxis()
    statistics.set_title("test statistics", fontsize=10)
    return figure
