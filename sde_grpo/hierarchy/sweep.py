"""A sweep: runs that belong together, with what they are compared by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sde_grpo.errors import require
from sde_grpo.hierarchy.covariates import Covariate, confounding, find_covariates, setting
from sde_grpo.hierarchy.pairing import orders_from_noise, pair_correlations, shares_prompts
from sde_grpo.likelihood.links import Link
from sde_grpo.runs import Run
from sde_grpo.runs.source import safe

Paired = Literal["auto", "on", "off"]

_SHORT = {"group_size": "G", "learning_rate": "lr", "prompts_per_step": "P", "model_size": "size"}
_SEEDS = ("seed", "random_seed", "run_seed")


@dataclass(frozen=True, eq=False)
class Sweep:
    """Runs to be compared; every tuple and array has one entry a run.

    - `names`: distinct labels of the runs; `groups`: the run's setting of the covariates, such as ``"G=4"``.
    - `group_size`: G, or None where a run does not know it.
    - `covariates`: by name on the regression's scale, such as ``log2_group_size``; not centred.
    - `paired`: whether runs of one prompt order share a per-step effect; `orders`: the label of that order.
    - `link`: coordinate in which the oscillator lives.
    - `warnings`: sentences on what else varies with a covariate, and on what was found out about the pairing.
    """

    runs: tuple[Run, ...]
    names: tuple[str, ...]
    groups: tuple[str, ...]
    group_size: NDArray[np.float64] | None
    covariates: dict[str, NDArray[np.float64]]
    paired: bool
    orders: tuple[str, ...]
    link: Link
    warnings: tuple[str, ...]


def build_sweep(
    runs: Sequence[Run],
    *,
    names: Sequence[str] | None = None,
    by: Sequence[str] = ("group_size",),
    columns: Mapping[str, Sequence[float]] | None = None,
    paired: Paired = "auto",
    link: Link | None = None,
) -> Sweep:
    """Runs as a sweep.

    **Arguments**

    - `runs`: at least two, of one reward range and one step unit.
    - `names`: distinct labels; by default the run's key or its source.
    - `by`: settings to compare by: of the runs' configuration, or names of `columns`.
    - `columns`: further quantities, one value a run. Each is a covariate, ``model_size`` by its logarithm; except
      ``seed``, which tells the runs that saw the same prompts in the same order.
    - `paired`: ``"on"``, ``"off"``, or ``"auto"``: on where the noise of such runs correlates. Seeds come from the
      column or from the runs' keys; where there are none, from the noise itself.
    - `link`: ``"logit"`` where the runs have a reward range, unless told otherwise.

    Raises `InputError` for fewer than two runs, a covariate that is missing or the same in all, runs on different
    reward scales or step units, runs that cannot be fitted, and a pairing that no two runs can have.
    """
    runs = tuple(runs)
    require(len(runs) >= 2, f"{len(runs)} run given; a comparison needs at least two.")
    names = _names(runs, names)
    columns = {} if columns is None else columns
    _require_comparable(runs, names)
    found = find_covariates(runs, names, tuple(by), columns)
    range_known = runs[0].configuration.reward_range is not None
    require(
        link != "logit" or range_known,
        "The logit link needs a reward range, and these runs have none. Declare it, or use link='identity'.",
    )
    require(paired in ("auto", "on", "off"), f"paired is {paired!r}; allowed are 'auto', 'on' and 'off'.")
    orders, together, said = _pairing(runs, columns, paired)
    group_size = next((c.raw for c in found if c.label == "group_size"), setting(runs, "group_size"))
    return Sweep(
        runs=runs,
        names=names,
        groups=tuple(_group(found, i) for i in range(len(runs))),
        group_size=group_size if np.isfinite(group_size).all() else None,
        covariates={c.name: c.values for c in found},
        paired=together,
        orders=orders,
        link=link or ("logit" if range_known else "identity"),
        warnings=tuple([*confounding(runs, found), *said]),
    )


def _names(runs: tuple[Run, ...], names: Sequence[str] | None) -> tuple[str, ...]:
    if names is not None:
        require(
            len(names) == len(runs) and len(set(names)) == len(names),
            f"{len(names)} names ({len(set(names))} different) for {len(runs)} runs; give one distinct name a run.",
        )
        return tuple(names)
    labels = [run.label or safe(run.source) for run in runs]
    count = Counter(labels)
    return tuple(f"{name} #{i + 1}" if count[name] > 1 else name for i, name in enumerate(labels))


def _require_comparable(runs: tuple[Run, ...], names: tuple[str, ...]) -> None:
    for run, name in zip(runs, names, strict=True):
        require(not run.refusals, f"{name} cannot be fitted: {' '.join(run.refusals)} Leave it out.")
    scales = [run.configuration.reward_range for run in runs]
    _require_one("reward scales", scales, names, "Declare one reward_range for all")
    units = [run.configuration.step_unit or "optimizer" for run in runs]
    _require_one("step units", units, names, "Log all by optimizer step, or all by rollout")


def _require_one(what: str, values: Sequence[object], names: Sequence[str], advice: str) -> None:
    told = "; ".join(f"{v or 'none known'}: {names[values.index(v)]}" for v in dict.fromkeys(values))
    require(len(set(values)) == 1, f"The runs are on different {what} ({told}). {advice}, or compare those that agree.")


def _group(covariates: Sequence[Covariate], i: int) -> str:
    return " ".join(f"{_SHORT.get(c.label, c.label)}={c.raw[i]:g}" for c in covariates)


def _pairing(
    runs: tuple[Run, ...], columns: Mapping[str, Sequence[float]], paired: Paired
) -> tuple[tuple[str, ...], bool, list[str]]:
    """Prompt orders, whether to pair, and what there is to say about it."""
    seeds = _seeds(runs, columns)
    if paired == "off":
        return seeds or tuple(f"run {i}" for i in range(len(runs))), False, []
    orders = seeds or tuple(orders_from_noise(runs))
    possible = len(set(orders)) < len(runs)
    if paired == "on":
        if seeds is None and not possible:  # told to pair, and nothing tells who with whom
            orders, possible = ("all runs",) * len(runs), True
        require(
            possible,
            "paired='on', but no two runs have the same seed. Give columns={'seed': [...]} with equal seeds for runs "
            "that saw the same prompts in the same order.",
        )
        return orders, True, []
    if seeds is None:
        said = "Seeds are not known; runs whose noise goes together were taken to have seen the same prompts."
        return orders, possible, [said] if possible else []
    pairs = pair_correlations(runs, orders)
    if not shares_prompts(pairs):
        return orders, False, []
    mean = np.mean([p.correlation for p in pairs])
    return orders, True, [f"Runs of one seed share noise (mean correlation {mean:.2f}), and are compared as pairs."]


def _seeds(runs: tuple[Run, ...], columns: Mapping[str, Sequence[float]]) -> tuple[str, ...] | None:
    if "seed" in columns:
        require(
            len(columns["seed"]) == len(runs),
            f"Column seed has {len(columns['seed'])} values for {len(runs)} runs; give one for each.",
        )
        return tuple(f"seed {seed:g}" for seed in columns["seed"])
    found = [next((run.key[k] for k in _SEEDS if k in run.key), None) for run in runs]
    return None if any(s is None for s in found) else tuple(f"seed {s}" for s in found)
