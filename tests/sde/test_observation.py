"""Sampling noise of a logged batch: its variance, its lattice, and what is refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sde_grpo.errors import InputError
from sde_grpo.sde import observe

KEY, ROWS = jax.random.key(0), 8000


@pytest.mark.parametrize("correlation", [0.0, 0.3])
def test_variance_of_a_row(correlation: float) -> None:
    """p(1-p) [rho + (1 - rho)/G] / P, at two values of p at once; at rho = 0 rows are counts of G P rewards."""
    p = jnp.array([[0.25], [0.7]]) * jnp.ones((2, ROWS))
    y = np.asarray(observe(KEY, p, group_size=8, prompts_per_step=4, prompt_correlation=correlation))
    expected = p[:, 0] * (1 - p[:, 0]) * (correlation + (1 - correlation) / 8) / 4
    assert np.max(np.abs(y.var(axis=1) / expected - 1)) < 5 * np.sqrt(2 / ROWS)
    assert np.max(np.abs(y.mean(axis=1) - p[:, 0]) / np.sqrt(expected / ROWS)) < 4
    counts = y * 32
    assert np.max(np.abs(counts - np.round(counts))) < 1e-9


@pytest.mark.parametrize("correlation", [0.0, 0.3])
def test_certainty_has_no_noise(correlation: float) -> None:
    p = jnp.array([[0.0], [1.0]]) * jnp.ones((2, ROWS))
    assert np.array_equal(observe(KEY, p, group_size=8, prompts_per_step=4, prompt_correlation=correlation), p)


def test_what_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"The expected reward is 1.2 at step 2; for 0/1 rewards it must lie in \[0, 1\]"
    ):
        observe(KEY, np.array([0.1, 0.5, 1.2]), group_size=8, prompts_per_step=4)
    with pytest.raises(InputError, match=r"The expected reward is nan at step 0"):
        observe(KEY, np.array([np.nan]), group_size=8, prompts_per_step=4)
    with pytest.raises(InputError, match=r"prompt_correlation is 1.0; it must lie in \[0, 1\)"):
        observe(KEY, 0.5, group_size=8, prompts_per_step=4, prompt_correlation=1.0)
    with pytest.raises(InputError, match=r"group_size is 0; it must be a whole number of at least 1"):
        observe(KEY, 0.5, group_size=0, prompts_per_step=4)
