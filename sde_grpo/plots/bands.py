"""The picture of a fit: data, trajectory, where it goes, and the plateau."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from sde_grpo.fit import Fit
from sde_grpo.intervals import interval

HORIZON = 0.3  # of the run's length, drawn ahead
_BLUE, _ORANGE, _GREY = "#1f6f9f", "#c8641c", "#707070"


def plot_bands(fit: Fit) -> Figure:
    """Rewards, 90 % bands of trajectory and of one logged reward, forecast, and the plateau with its band."""
    run, predictive = fit.run, fit.predictive
    times = run.times
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots()
    axes.plot(times, run.reward, ".", color=_GREY, ms=3, alpha=0.7, label="logged reward")

    def band(x, values, color, alpha, label=None):
        low, high = interval(values.reshape(-1, values.shape[-1]), axis=0)
        axes.fill_between(x, low, high, color=color, alpha=alpha, lw=0, label=label)

    band(times, predictive["reward"].to_numpy(), _BLUE, 0.15, "one logged reward, 90 %")
    band(times, predictive["mean"].to_numpy(), _BLUE, 0.45, "trajectory, 90 %")
    axes.plot(times, np.median(predictive["mean"].to_numpy(), axis=(0, 1)), color=_BLUE, lw=1.5)
    ahead = np.linspace(0, HORIZON * (times[-1] - times[0]), 61)[1:] + times[-1]
    future = fit.forecast(ahead)
    band(ahead, future["reward"].to_numpy(), _ORANGE, 0.15)
    band(ahead, future["mean"].to_numpy(), _ORANGE, 0.45, "forecast")
    low, high = interval(fit.draws("fixed_point"))
    middle = float(np.median(fit.draws("fixed_point")))
    axes.axhspan(low, high, color=_GREY, alpha=0.12, lw=0)
    axes.axhline(middle, color=_GREY, ls="--", lw=1, label=f"plateau {middle:.3g} [{low:.3g}, {high:.3g}]")
    axes.axvline(times[-1], color=_GREY, lw=0.6)
    bottom, top = np.min(run.reward), np.max(run.reward)
    room = 0.15 * (top - bottom)
    axes.set(xlabel="step", ylabel=run.reward_column, ylim=(bottom - room, max(top, min(high, top + 3 * room)) + room))
    axes.set_title(run.source, loc="left", fontsize=10, parse_math=False)
    axes.legend(loc="lower right", fontsize=8, framealpha=0.9)
    return figure
