"""The fit of one run: sampled, evaluated, stored."""

from sde_grpo.fit.fit import Fit, fit_run

__all__ = ["Fit", "fit_run"]
