"""What a fit knows of stability: its settings, and the posterior of its curvature."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from sde_grpo.errors import InputError, require
from sde_grpo.oscillator import UpdateRule, curvature_from_relaxation_time
from sde_grpo.precision import require_float64

if TYPE_CHECKING:
    from sde_grpo.fit import Fit

_NEEDED = ("learning_rate", "momentum", "refresh_interval")
_SETTINGS = (*_NEEDED, "momentum_kind", "lag_schedule")


def rule_of_fit(fit: Fit, **changes: Any) -> UpdateRule:
    """The settings of the fitted run, with `changes` (fields of `UpdateRule`) put in their place.

    Raises `InputError` where learning rate, momentum or refresh interval is neither in the run nor in `changes`, where
    a setting is out of range, and where `momentum_kind` is not the run's: under Adam the curvature is the one after
    preconditioning (theory note section 2), so one optimizer's says nothing of another's.
    """
    fitted = fit.run.configuration.momentum_kind or "heavy_ball"
    proposed = changes.get("momentum_kind", fitted)
    require(
        proposed == fitted,
        f"momentum_kind is {proposed!r}, but the run was fitted with {fitted!r}, and another optimizer sees another "
        "curvature. Fit a run that used it, or give the curvature itself.",
    )
    known = {name: value for name, value in fit.run.configuration.known().items() if name in _SETTINGS} | changes
    missing = [name for name in _NEEDED if name not in known]
    require(not missing, f"The fitted run does not say its {', '.join(missing)}; give the setting that is meant.")
    return UpdateRule(**known)


def curvature_of_fit(fit: Fit, stale_fraction: float = 1.0) -> Float[np.ndarray, " draw"]:
    """kappa = (1 - mu) / (eta (tau + phi m1)) for every draw of tau, with the settings of the fitted run.

    With `stale_fraction` phi = 1 these are the draws of ``curvature`` in the fit. Raises `InputError` for a fit that
    did not know learning rate, momentum and refresh interval, so that its time scale says nothing of the curvature,
    and where a negative phi leaves no positive curvature. Source: theory note section 3, tau = C/K.
    """
    require_float64()
    rule = fit.design.rule
    if rule is None:
        lacking = [name for name in _NEEDED if getattr(fit.run.configuration, name) is None]
        raise InputError(
            f"This fit has no curvature: it was made without {', '.join(lacking)}. Fit the log again with "
            f"--{lacking[0].replace('_', '-')} ..., or give the curvature itself.",
        )
    tau = fit.draws("relaxation_time") * float(fit.design.time_unit)
    draws = np.asarray(curvature_from_relaxation_time(dataclasses.replace(rule, stale_fraction=stale_fraction), tau))
    require(
        bool(np.all((draws > 0) & np.isfinite(draws))),
        f"stale_fraction is {stale_fraction}; with it, time scales of this fit as short as {tau.min():.3g} optimizer "
        "steps belong to no positive curvature. Choose one nearer to 1.",
    )
    return draws
