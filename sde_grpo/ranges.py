"""Range checks of arguments: each message names the argument, its value and what is allowed."""

from __future__ import annotations

import math
import numbers

from sde_grpo.errors import require


def require_probability(name: str, value: float) -> None:
    """0 < value < 1, or `InputError`."""
    require(0 < value < 1, f"{name} is {value}; it must lie strictly between 0 and 1.")


def require_positive(name: str, value: float) -> None:
    """0 < value < infinity, or `InputError`."""
    require(0 < value < math.inf, f"{name} is {value}; it must be positive and finite.")


def require_not_negative(name: str, value: float) -> None:
    """0 <= value < infinity, or `InputError`."""
    require(0 <= value < math.inf, f"{name} is {value}; it must be finite and not negative.")


def require_momentum(value: float) -> None:
    """0 <= mu < 1, or `InputError`."""
    require(0 <= value < 1, f"momentum is {value}; it must lie in [0, 1).")


def require_count(name: str, value: int | float, least: int) -> None:
    """A whole number of at least `least`, or `InputError`."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    require(whole and value >= least, f"{name} is {value}; it must be a whole number of at least {least}.")


def require_group_size(value: int) -> None:
    """G >= 2, or `InputError`: the advantage of a lone completion is zero."""
    require_count("group_size", value, 2)
