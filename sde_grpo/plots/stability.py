"""The picture of stability: learning rate against refresh interval, where it rings and where it is unstable."""

from __future__ import annotations

import dataclasses

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from sde_grpo.errors import require
from sde_grpo.intervals import interval
from sde_grpo.stability import StabilityReport, critical_stiffness, paper_stiffness, ringing_stiffness

_CALM, _RINGING, _UNSTABLE, _GREY = "#dcecf4", "#f6dfb8", "#efc1bb", "#404040"
_ORANGE, _RED = "#c8641c", "#b02a2a"
_TOP = 32  # the least refresh interval at which the picture may end
_ROWS = 25  # refresh intervals at which the boundaries are computed, at most
_BELOW = 0.85  # the foot of the picture, so that an interval of 1 does not lie on the frame


def plot_stability(report: StabilityReport) -> Figure:
    """Boundaries of ringing and instability over learning rate and refresh interval, with the setting of `report`.

    Boundaries are at the median curvature; where the report holds draws of it, each has its 90 % band. Beyond the first
    limit of stability there may be stable windows, which are not drawn. Under the constant schedule the interval is
    the lag, from 1 up. Raises `InputError` for a mixed lag, which has no single one.
    """
    rule, here = report.rule, float(report.rule.learning_rate)
    require(
        rule.lag_weights is None,
        f"lag_weights is {rule.lag_weights}; the picture has one refresh interval per row. Leave lag_weights out.",
    )
    top = max(_TOP, 2 * rule.refresh_interval)
    intervals = np.unique(np.round(np.geomspace(1, top, _ROWS)).astype(int))
    rules = [dataclasses.replace(rule, refresh_interval=int(k)) for k in intervals]
    rate_per_stiffness = here / report.stiffness_per_step
    middle = float(np.median(rate_per_stiffness))

    def boundary(limit):
        """Its learning rates, carried on to the foot of the picture."""
        rates = [middle * limit(r) for r in rules]
        return np.array([rates[0], *rates])

    rows = np.array([_BELOW, *intervals])
    unstable, paper = boundary(critical_stiffness), boundary(paper_stiffness)[1:]
    ringing = np.minimum(boundary(ringing_stiffness), unstable)
    low, high = min(here, ringing.min()) / 4, max(here, unstable.max()) * 3

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    edges = [np.full(rows.shape, low), ringing, unstable, np.full(rows.shape, high)]
    for left, right, color in zip(edges[:-1], edges[1:], (_CALM, _RINGING, _UNSTABLE), strict=True):
        axes.fill_betweenx(rows, left, right, color=color, lw=0)
    for edge, color, label in ((ringing, _ORANGE, "ringing begins"), (unstable, _RED, "instability begins")):
        axes.plot(edge[1:], intervals, "o-", ms=2.5, color=color, lw=1.6, label=label)
        if report.curvature.ndim:
            narrow, wide = interval(rate_per_stiffness) / middle
            axes.fill_betweenx(rows, narrow * edge, wide * edge, color=color, alpha=0.25, lw=0, label="90 %")
    if np.isfinite(paper).all():
        axes.plot(paper, intervals, color=_RED, lw=1.1, ls="--", label="the paper's limit")
    axes.plot(here, max(rule.refresh_interval, _BELOW), "o", color="black", ms=8, mec="white", label="this setting")
    _name_regions(axes, rows, edges, rule.refresh_interval)
    axes.set_xscale("log")
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    periodic = rule.lag_schedule == "periodic"
    axes.set(
        xlim=(low, high),
        ylim=(_BELOW, top),
        xlabel="learning rate",
        ylabel="updates per rollout" if periodic else "lag of the sampling policy, steps",
    )
    kind = "heavy ball" if rule.momentum_kind == "heavy_ball" else "EMA"
    curvature = float(np.median(report.curvature))
    phi = float(rule.stale_fraction)
    axes.set_title(
        f"{kind} momentum {float(rule.momentum):g}, curvature {curvature:.3g}"
        + ("" if phi == 1 else f", stale fraction {phi:g}"),
        loc="left",
        fontsize=10,
    )
    figure.legend(loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    return figure


def _name_regions(axes: Axes, rows: np.ndarray, edges: list[np.ndarray], taken: int) -> None:
    """A word in the middle of each region, at a height away from the setting."""
    heights = [int(np.argmin(np.abs(rows - rows[-1] ** share))) for share in (0.75, 0.35)]
    row = max(heights, key=lambda i: abs(np.log(rows[i] / max(taken, 1))))
    for left, right, word in zip(edges[:-1], edges[1:], ("settles", "rings", "unstable"), strict=True):
        if right[row] > 2 * left[row]:
            place = np.sqrt(left[row] * right[row])
            axes.text(place, rows[row], word, color=_GREY, ha="center", va="center", fontsize=11, style="italic")
