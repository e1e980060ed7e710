"""The likelihood: a Kalman filter of the oscillator, and the NumPyro distribution of a trace built on it."""

from sde_grpo.likelihood.kalman import Filtered, Observations, State, kalman_filter, log_likelihood, simulate, smooth
from sde_grpo.likelihood.trace import OscillatorTrace

__all__ = [
    "Filtered",
    "Observations",
    "OscillatorTrace",
    "State",
    "kalman_filter",
    "log_likelihood",
    "simulate",
    "smooth",
]
