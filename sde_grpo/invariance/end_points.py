"""A table of end points, one row per run: does the final metric depend on the group size?

    y_i = a_s + (b + d_s) (x_i - mean of x in s) + e_i,    a_s ~ N(a, .),  d_s ~ N(0, .),  e_i ~ Student-t(nu, 0, .)

x = log2 G, and s the stratum of row i: the rows that agree in every other setting (model, data set, reward noise,
seed, ...). Only rows of one stratum are compared with each other, so no setting can pass for an effect of G, whatever
its own effect is; strata share what they say about b as far as their slopes agree, and single runs that failed weigh
little under the heavy tails.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray

from sde_grpo.errors import require
from sde_grpo.inference import convergence
from sde_grpo.inference.chains import nuts_chains
from sde_grpo.intervals import describe
from sde_grpo.invariance.slopes import SlopeTest, slope_test
from sde_grpo.invariance.verdict import Region
from sde_grpo.precision import require_float64
from sde_grpo.programs import Program
from sde_grpo.runs.cells import listed
from sde_grpo.runs.readers import read_log
from sde_grpo.runs.roles import SETTING_COLUMNS
from sde_grpo.runs.source import safe
from sde_grpo.runs.table import Table

# In units of the metric's range: per doubling of G, its spread between strata, the spread of the rows.
SLOPE_SD, SLOPE_SCATTER, NOISE = 0.1, 0.05, 0.2
REGION = 0.02  # half-width of practical equivalence, in the same units per doubling
_OUTCOME = re.compile(r"acc|reward|score|loss|pass|return|entropy|kl_?(mean)?$|grad|time|length|step|best|final", re.I)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s?[bB](?![a-zA-Z0-9])")
_CHAINS, _WARMUP, _DRAWS, _DEPTH = 4, 500, 1000, 6


@dataclass(frozen=True)
class EndPoints:
    """What a table says, row by row: `value`, `log2_group_size`, and which of the `strata` a row belongs to.

    A stratum is its values of the columns `names`.
    """

    source: str
    metric: str
    value: NDArray[np.float64]
    log2_group_size: NDArray[np.float64]
    stratum: NDArray[np.int64]
    strata: tuple[tuple[str, ...], ...]
    names: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class EndPointTest:
    """The slope of the metric per doubling of G, over all strata and for each value of each stratifying column."""

    table: EndPoints
    test: SlopeTest
    by_level: dict[str, dict[str, dict[str, float]]]
    scatter: dict[str, float]
    sampler: dict[str, Any]

    @property
    def record(self) -> dict[str, Any]:
        """Plain data for ``summary.json``."""
        return {
            "metric": self.table.metric,
            "rows": len(self.table.value),
            "strata": len(self.table.strata),
            "stratified_by": list(self.table.names),
            **self.test.as_dict(),
            "slope_by_level": self.by_level,
            "slope_scatter": self.scatter,
            "notes": list(self.table.notes),
            "sampler": self.sampler,
        }

    @property
    def sentence(self) -> str:
        """The finding in words."""
        t = self.test
        alike = f" within {len(self.table.strata)} sets alike in {', '.join(self.table.names)}"
        within = alike if self.table.names else ""
        return (
            f"{self.table.metric}: {t.mean:+.3f} [{t.q05:+.3f}, {t.q95:+.3f}] per doubling of G{within}, "
            f"{len(self.table.value)} runs; {100 * t.rope_mass:.0f} % inside +-{t.region.high:g}: {t.verdict}."
        )


def read_end_points(
    path: str | Path, metric: str, *, group_column: str | None = None, strata: Sequence[str] | None = None
) -> EndPoints:
    """The rows of a table in which metric and group size are numbers.

    `group_column` defaults to the first of the documented names of a group size, `strata` to every column of settings
    that takes several values, each more than once, and the model size (``0.5B``) where a column of names has one.
    Outcomes are recognised by their names and left out. Rows whose stratum holds a single G say nothing and are
    dropped; what was dropped stands in `notes`.

    Raises `InputError` for a missing column, a column that holds no numbers, or a G that never varies in a stratum.
    """
    path = Path(path)
    source = safe(path.name)
    names = read_log(path).table.names
    table = read_log(path, frozenset(names)).table
    known = [n for n in SETTING_COLUMNS["group_size"] if n in table]
    group_column = group_column or (known[0] if known else None)
    require(
        group_column is not None,
        f"{source}: no column tells the group size (looked for {listed(list(SETTING_COLUMNS['group_size']))}); the "
        f"columns are {listed(list(names), 60)}. Rename the one that does.",
    )
    assert group_column is not None
    for name in (metric, group_column, *(strata or ())):
        have = listed(list(names), 60)
        require(name in table, f"{source}: there is no column {safe(name)!r}; the columns are {have}.")
    for name in (metric, group_column):
        column = table[name]
        require(
            bool(column.finite.any()),
            f"{source}: the column {safe(name)!r} holds no numbers (its first value is {safe(column.text(0))!r}); "
            "name a column of numbers.",
        )
    usable = table[metric].finite & table[group_column].finite & (table[group_column].numbers >= 1)
    notes = []
    if not usable.all():
        notes.append(f"{int((~usable).sum())} of {len(table)} rows lack {metric} or {group_column} and were left out.")
    table = table.take(usable)
    labels = _settings(table, metric, group_column) if strata is None else {n: _texts(table, n) for n in strata}
    described = np.array([*labels.values()], dtype=str).reshape(len(labels), len(table))
    keys, member = np.unique(described, axis=1, return_inverse=True)
    x = np.log2(table[group_column].numbers)
    varies = np.array([np.ptp(x[member == s]) > 0 for s in range(keys.shape[1])])
    informative = varies[member]
    require(
        bool(informative.any()),
        f"{source}: {group_column} does not vary among rows that agree in {', '.join(labels) or 'everything else'} "
        f"(values {listed([f'{v:g}' for v in np.unique(2**x)])}): there is nothing to compare. "
        + ("Name fewer strata." if labels else "Add runs with another group size."),
    )
    if not informative.all():
        notes.append(f"{int((~informative).sum())} rows have no partner with another {group_column} and were left out.")
    return EndPoints(
        source,
        metric,
        table[metric].numbers[informative],
        x[informative],
        np.cumsum(varies)[member[informative]] - 1,
        tuple(tuple(str(v) for v in key) for key in keys.T[varies]),
        tuple(labels),
        tuple(notes),
    )


def _settings(table: Table, metric: str, group_column: str) -> dict[str, list[str]]:
    """The columns that are settings, as texts by name; of a column of names, the model size in it."""
    found = {}
    for name in table.names:
        if name in (metric, group_column) or name not in table or _OUTCOME.search(name):
            continue
        texts = _texts(table, name)
        count = len(set(texts))
        if count > len(table) / 2:
            sizes = [m.group(1) + "B" if (m := _SIZE.search(t)) else "unnamed" for t in texts]
            if len(set(sizes)) > 1:
                found[f"model size in {name}"] = sizes
        elif count > 1:
            found[name] = texts
    return found


def _texts(table: Table, name: str) -> list[str]:
    return [table[name].text(row) for row in range(len(table))]


def end_point_model(
    value: Float[Array, " row"], x: Float[Array, " row"], stratum: Int[Array, " row"], strata: Float[Array, " stratum"]
) -> None:
    """The model of this module, in units of the metric's range; x is centred within strata."""
    import numpyro
    from numpyro import distributions as dist

    count = strata.shape[0]
    slope = numpyro.sample("slope", dist.Normal(0.0, SLOPE_SD))
    scatter = jnp.abs(jnp.asarray(numpyro.sample("folded_scatter", dist.Normal(0.0, SLOPE_SCATTER))))
    numpyro.deterministic("scatter", scatter)
    unit = jnp.asarray(numpyro.sample("unit_slope", dist.Normal(jnp.zeros(count), 1.0).to_event(1)))
    own = numpyro.deterministic("slope_of_stratum", slope + scatter * unit)
    centre = numpyro.sample("level", dist.Normal(0.5, 0.5))
    spread = numpyro.sample("spread_of_levels", dist.LogNormal(np.log(0.15), 0.7))
    level = jnp.asarray(numpyro.sample("level_of_stratum", dist.Normal(centre * jnp.ones(count), spread).to_event(1)))
    noise = numpyro.sample("noise", dist.HalfNormal(NOISE))
    freedom = numpyro.sample("freedom", dist.Gamma(2.0, 0.1))
    mean = level[stratum] + jnp.asarray(own)[stratum] * x
    numpyro.sample("obs", dist.StudentT(1.0 + jnp.asarray(freedom), mean, noise).to_event(1), obs=value)


@partial(Program, quick=True)
def _sample(key: Array, value: Array, x: Array, stratum: Array, strata: Array) -> dict[str, Array]:
    args = (value, x, stratum, strata)
    return nuts_chains(key, end_point_model, args, chains=_CHAINS, warmup=_WARMUP, draws=_DRAWS, depth=_DEPTH)


def range_of(values: NDArray[np.float64]) -> float:
    """1 for values in [0, 1], 100 for values in [0, 100] (percent), otherwise four times their spread."""
    if values.min() >= 0 and values.max() <= 1:
        return 1.0
    return 100.0 if values.min() >= 0 and 1 < values.max() <= 100 else 4 * float(np.std(values))


def compare_end_points(table: EndPoints, *, region: float = REGION, seed: int = 0) -> EndPointTest:
    """The posterior of b, judged against +-`region` (in units of the metric's range per doubling).

    Raises `InputError` where the metric is the same in all rows, and in single precision.
    """
    require_float64()
    width = range_of(table.value)
    require(
        bool(np.ptp(table.value) > 0),
        f"{table.source}: {table.metric} is {table.value[0]:g} in every row; name a metric that varies.",
    )
    count = len(table.strata)
    means = np.bincount(table.stratum, table.log2_group_size, count) / np.bincount(table.stratum, minlength=count)
    arrays = (table.value / width, table.log2_group_size - means[table.stratum], table.stratum, np.ones(count))
    draws = {n: np.asarray(v) for n, v in _sample(jax.random.key(seed), *map(jnp.asarray, arrays)).items()}
    reached = convergence({n: draws[n] for n in ("slope", "scatter", "noise")})
    slope = draws["slope"] * width
    density = 1 / (SLOPE_SD * width * np.sqrt(2 * np.pi))
    test = slope_test(slope, Region(0.0, region * width), SLOPE_SD * width, prior_density=density)
    own = draws["slope_of_stratum"] * width
    by_level: dict[str, dict[str, dict[str, float]]] = {}
    for place, name in enumerate(table.names):
        values = [key[place] for key in table.strata]
        if len(set(values)) <= 8:
            by_level[name] = {
                v: describe(own[..., [u == v for u in values]].mean(axis=-1)) for v in sorted(set(values))
            }
    sampler = {
        "rhat_max": reached.rhat_max,
        "ess_bulk_min": reached.ess_bulk_min,
        "divergences": int(draws["diverging"].sum()),
        "converged": reached.reached,
    }
    return EndPointTest(table, test, by_level, describe(draws["scatter"] * width), sampler)
