"""The likelihood: a Kalman filter of the oscillator, and the NumPyro distribution of a trace built on it."""

from sde_grpo.likelihood.curve import Curve, Grid, OscillatorCurve, flip_variance
from sde_grpo.likelihood.kalman import Filtered, Observations, State, kalman_filter, log_likelihood, simulate, smooth
from sde_grpo.likelihood.links import Link
from sde_grpo.likelihood.trace import OscillatorTrace

__all__ = [
    "Curve",
    "Filtered",
    "Grid",
    "Link",
    "Observations",
    "OscillatorCurve",
    "OscillatorTrace",
    "State",
    "flip_variance",
    "kalman_filter",
    "log_likelihood",
    "simulate",
    "smooth",
]
