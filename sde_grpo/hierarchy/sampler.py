"""NUTS for the many unknowns of a sweep: adapted, chains side by side in one program.

The engine of a single run finds modes with a population of particles, which a hundred dimensions would need too many
of. In the coordinates of `guide.py` the runs' own unknowns are nearly standard normal and independent of the rest; the
few that the runs share get a dense metric.
"""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpyro.infer import NUTS
from numpyro.infer.hmc import HMCState
from numpyro.infer.util import constrain_fn, potential_energy
from tqdm import tqdm

from sde_grpo.hierarchy.design import SweepDesign
from sde_grpo.hierarchy.sweep_model import sweep_model
from sde_grpo.inference.engine import Draws, convergence
from sde_grpo.likelihood.links import to_unit
from sde_grpo.programs import Program

CHAINS = 4
BLOCK = 100  # transitions of every chain in one call of the compiled program
WARMUP, FEWEST, MOST = 5, 5, 40  # blocks: to adapt; of draws before convergence is asked; of draws at most
ACCEPTANCE, DEPTH = 0.9, 8
_NORMAL = ("each", "each_log_noise", "zeta")  # sites that are standard normal in their coordinates

Values = dict[str, Array]


def _start(key: Array, design: SweepDesign) -> Values:
    """Unconstrained values near the best fit of all runs; what a run has of its own is drawn."""
    from numpyro import handlers
    from numpyro.infer.util import unconstrain_fn

    args = (design, design.reward)
    trace = handlers.trace(handlers.seed(sweep_model, key)).get_trace(*args)
    drawn = {n: s["value"] for n, s in trace.items() if s["type"] == "sample" and not s["is_observed"]}
    key_shared, key_more = jax.random.split(key)
    centre = design.guide.centre + 0.1 * jax.random.normal(key_shared, (5,))
    names = ("fixed_point_unit", "log_relaxation_time", "start_unit", "log_inertia_ratio", "fast_weight")
    for value, name in zip(centre, names, strict=True):
        inside = jnp.clip(to_unit(design.link, value), 0.01, 0.99) if design.bounded else value
        drawn[name] = inside if name.endswith("unit") else value
    for i, name in enumerate(drawn):
        noise = jax.random.normal(jax.random.fold_in(key_more, i), jnp.shape(drawn[name]))
        if name.startswith("slope_"):
            drawn[name] = 0.1 * noise
        elif name == "folded_sd":
            drawn[name] = 0.05 * noise
    return unconstrain_fn(sweep_model, args, {}, drawn)


def _kernel(design: SweepDesign) -> NUTS:
    args = (design, design.reward)
    example = _start(jax.random.key(0), design)
    return NUTS(
        potential_fn=lambda z: potential_energy(sweep_model, args, {}, z),
        target_accept_prob=ACCEPTANCE,
        max_tree_depth=DEPTH,
        dense_mass=[tuple(name for name in example if name not in _NORMAL)],  # pyright: ignore[reportArgumentType]
    )


@Program
def _begin(keys: Array, design: SweepDesign) -> HMCState:
    kernel = _kernel(design)
    return kernel.init(keys, WARMUP * BLOCK, jax.vmap(lambda k: _start(k, design))(keys), (), {})


@Program
def _block(state: HMCState, design: SweepDesign) -> tuple[HMCState, dict[str, Array]]:
    """`BLOCK` transitions of every chain; what is recorded has axes (draw, chain)."""
    kernel = _kernel(design)
    kernel.init(state.rng_key, WARMUP * BLOCK, state.z, (), {})  # builds the kernel's functions; the result is not used

    def one(state: HMCState, _: None) -> tuple[HMCState, dict[str, Array]]:
        state = kernel.sample(state, (), {})
        kept = {"z": state.z, "diverging": state.diverging, "steps": state.num_steps}
        return state, kept | {"log_density": -state.potential_energy}

    return jax.lax.scan(one, state, None, length=BLOCK)


@Program
def _constrain(z: Values, design: SweepDesign) -> dict[str, Array]:
    one = lambda z: constrain_fn(sweep_model, (design, design.reward), {}, z, return_deterministic=True)  # noqa: E731
    sites = jax.vmap(jax.vmap(one))(z)
    return {n: jnp.swapaxes(v, 0, 1) for n, v in sites.items() if n not in _NORMAL}


def sample_sweep(key: Array, design: SweepDesign, *, progress: bool = False) -> Draws:
    """Sample the posterior of `sweep_model`.

    After `FEWEST` blocks of draws, blocks are added until R-hat and effective sample sizes of all scalars pass
    (`convergence`), `MOST` in all; the caller reports what was reached.
    """
    state = _begin(jax.random.split(key, CHAINS), design)
    recorded: list[dict[str, np.ndarray]] = []
    sites: list[dict[str, np.ndarray]] = []
    with tqdm(total=WARMUP + FEWEST, disable=not progress, file=sys.stderr, leave=False, desc="sampling") as bar:
        for index in range(WARMUP + MOST):
            state, new = jax.block_until_ready(_block(state, design))
            bar.update()
            if index < WARMUP:
                continue
            sites.append({n: np.asarray(v) for n, v in _constrain(new.pop("z"), design).items()})
            recorded.append({n: np.asarray(v).swapaxes(0, 1) for n, v in new.items()})
            if len(recorded) >= FEWEST and convergence(scalars(_joined(sites))).reached:
                break
    stats = _joined(recorded)
    return Draws(_joined(sites), stats["diverging"], stats["steps"], stats["log_density"], float("nan"), "nuts", None)


def scalars(sites: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every scalar by name, (chain, draw)."""
    found = {}
    for name, values in sites.items():
        flat = values.reshape(*values.shape[:2], -1)
        found |= {f"{name}[{i}]": flat[..., i] for i in range(flat.shape[-1])}
    return found


def _joined(blocks: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([b[name] for b in blocks], axis=1) for name in blocks[0]}
