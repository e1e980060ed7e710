"""The stationary fluctuation about the fixed point: exact for the discrete map, closed forms for the oscillator."""

from sde_grpo.fluctuation.discrete import DiscreteFluctuation, discrete_fluctuation
from sde_grpo.fluctuation.langevin import OscillatorFluctuation, oscillator_fluctuation
from sde_grpo.fluctuation.spread import stationary_sd, step_noise
from sde_grpo.fluctuation.truncation import truncated_variance, truncation_error

__all__ = [
    "DiscreteFluctuation",
    "OscillatorFluctuation",
    "discrete_fluctuation",
    "oscillator_fluctuation",
    "stationary_sd",
    "step_noise",
    "truncated_variance",
    "truncation_error",
]
