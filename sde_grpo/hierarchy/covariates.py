"""What a sweep varies: the covariates of its regression, and the settings that vary along with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sde_grpo.errors import require
from sde_grpo.runs import Run

Vector = NDArray[np.float64]

CONFOUNDED = 0.25  # share of a setting's variance that goes with a covariate
_SETTINGS = (
    "group_size",
    "prompts_per_step",
    "learning_rate",
    "momentum",
    "refresh_interval",
    "kl_weight",
    "rows_averaged",
)
_SCALES: dict[str, tuple[str, Callable[[Vector], Vector]]] = {
    "group_size": ("log2_group_size", np.log2),
    "prompts_per_step": ("log2_prompts_per_step", np.log2),
    "refresh_interval": ("log2_refresh_interval", np.log2),
    "learning_rate": ("log_learning_rate", np.log),
    "model_size": ("log_model_size", np.log),
}


class Covariate(NamedTuple):
    """A setting `label` with its `raw` values (one a run), and the regression's `name` and `values` of it."""

    label: str
    raw: Vector
    name: str
    values: Vector


def setting(runs: Sequence[Run], name: str) -> Vector:
    """A setting of every run, NaN where it is not known; ``"length"`` is the number of logged values."""
    if name == "length":
        return np.array([float(len(run.reward)) for run in runs])
    known = [getattr(run.configuration, name) for run in runs]
    return np.array([np.nan if value is None else float(value) for value in known])


def find_covariates(
    runs: Sequence[Run], names: Sequence[str], by: Sequence[str], columns: Mapping[str, Sequence[float]]
) -> tuple[Covariate, ...]:
    """The settings `by`, from `columns` or from the runs, then the other columns but ``seed``.

    Counts go in as log2, learning rate and model size as natural logarithms, the rest as given. Raises `InputError`
    where a covariate is unknown, missing in a run, not finite, constant, or fixed by the others.
    """
    labels = [*dict.fromkeys([*by, *(c for c in columns if c != "seed")])]
    require(
        bool(labels),
        "No covariate: nothing to compare the runs by. Name settings in by=, such as 'group_size', or give columns=.",
    )
    found = tuple(_covariate(runs, names, label, columns) for label in labels)
    matrix = np.array([c.values - c.values.mean() for c in found])
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    require(
        np.linalg.matrix_rank(matrix, tol=1e-6) == len(found),
        f"The covariates {', '.join(labels)} cannot be told apart: within these runs one is fixed by the others. "
        "Leave one out, or add runs in which they vary separately.",
    )
    return found


def _covariate(
    runs: Sequence[Run], names: Sequence[str], label: str, columns: Mapping[str, Sequence[float]]
) -> Covariate:
    if label in columns:
        raw = np.asarray(columns[label], dtype=float)
        require(
            raw.shape == (len(runs),),
            f"Column {label} has shape {raw.shape}, but there are {len(runs)} runs; give one value for each.",
        )
    else:
        require(
            label in _SETTINGS,
            f"{label} is no setting of a run, and no column of this name is given. Settings are "
            f"{', '.join(_SETTINGS)}; give any other quantity in columns=.",
        )
        raw = setting(runs, label)
    unknown = [name for name, value in zip(names, raw, strict=True) if not np.isfinite(value)]
    require(
        not unknown,
        f"{label} is not known for {', '.join(unknown)}. Give it in columns= (one value a run), or with the run's "
        "configuration.",
    )
    require(
        np.ptp(raw) > 0,
        f"{label} is {raw[0]:g} in all {len(runs)} runs: one group only, and nothing to compare. "
        "Add runs in which it differs, or choose another covariate.",
    )
    name, scale = _SCALES.get(label, (label, None))
    require(
        scale is None or bool(np.all(raw > 0)),
        f"{label} is {raw.min():g} in one run; its logarithm is taken, so it must be above 0.",
    )
    return Covariate(label, raw, name, raw if scale is None else scale(raw))


def confounding(runs: Sequence[Run], covariates: Sequence[Covariate]) -> list[str]:
    """Sentences on the settings that vary with a covariate, so that its slope may be theirs."""
    labels = [c.label for c in covariates]
    sentences = []
    for c in covariates:
        for other in (*_SETTINGS, "length"):
            if other in labels:
                continue
            values = setting(runs, other)
            known = np.isfinite(values)
            if known.sum() < 2 or np.ptp(values[known]) == 0 or np.ptp(c.values[known]) == 0:
                continue
            share = np.corrcoef(c.values[known], _log(values[known]))[0, 1] ** 2
            if share >= CONFOUNDED:
                pairs = sorted({(a, b) for a, b in zip(c.raw[known], values[known], strict=True)})
                seen = ", ".join(f"{a:g} with {b:g}" for a, b in pairs[:6]) + (", ..." if len(pairs) > 6 else "")
                sentences.append(
                    f"{c.label} is confounded with {other} ({c.label} {seen}): a slope may be due to either, and "
                    "these runs cannot tell."
                )
    sentences += [
        f"{a.label} and {b.label} nearly go together in these runs: their slopes are hard to tell apart, and their "
        "intervals say so."
        for a, b in combinations(covariates, 2)
        if abs(np.corrcoef(a.values, b.values)[0, 1]) > 0.9
    ]
    return sentences


def _log(values: Vector) -> Vector:
    return np.log(values) if np.all(values > 0) else values
