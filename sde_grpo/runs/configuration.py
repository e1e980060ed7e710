"""What is known of a run's settings: from the log, from a TOML file beside it, from the command line."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass, fields, replace
from math import isfinite
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal

from sde_grpo.errors import InputError, require
from sde_grpo.runs.cells import listed

MomentumKind = Literal["heavy_ball", "ema"]
LagSchedule = Literal["periodic", "constant"]
StepUnit = Literal["optimizer", "rollout"]

WORDS: dict[str, tuple[str, ...]] = {
    "momentum_kind": ("heavy_ball", "ema"),
    "lag_schedule": ("periodic", "constant"),
    "step_unit": ("optimizer", "rollout"),
}
COUNTS = ("group_size", "prompts_per_step", "refresh_interval")


@dataclass(frozen=True)
class Configuration:
    """The settings that the model of a run needs; every field is None where it is not known.

    **Arguments**

    - `group_size`: G >= 1, completions per prompt.
    - `prompts_per_step`: P >= 1, prompts per sampled batch, so that a batch holds G P completions.
    - `learning_rate`: eta > 0, constant over the run.
    - `momentum`: mu in [0, 1); for Adam, beta1.
    - `momentum_kind`: ``"heavy_ball"`` (SGD), or ``"ema"`` (Adam and its kin).
    - `refresh_interval`: K_ref >= 1, optimizer updates between refreshes of the sampling policy.
    - `lag_schedule`: ``"periodic"`` (the lag runs 0 ... K_ref - 1) or ``"constant"``.
    - `kl_weight`: beta >= 0, weight of the KL term to the reference policy.
    - `rows_averaged`: >= 1, sampled batches averaged in one logged value.
    - `reward_range`: (low, high), low < high, the least and greatest possible reward of one completion.
    - `step_unit`: what one unit of the step column is, an ``"optimizer"`` update or a ``"rollout"`` batch.

    Raises `InputError` that names the field, the value and the allowed range.
    """

    group_size: int | None = None
    prompts_per_step: int | None = None
    learning_rate: float | None = None
    momentum: float | None = None
    momentum_kind: MomentumKind | None = None
    refresh_interval: int | None = None
    lag_schedule: LagSchedule | None = None
    kl_weight: float | None = None
    rows_averaged: float | None = None
    reward_range: tuple[float, float] | None = None
    step_unit: StepUnit | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                object.__setattr__(self, field.name, _checked(field.name, value))

    def merged(self, other: Configuration) -> Configuration:
        """A copy in which every field that `other` knows has `other`'s value."""
        return replace(self, **other.known())

    def known(self) -> dict[str, Any]:
        """The fields that are not None."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def as_dict(self) -> dict[str, Any]:
        """All fields, ready for JSON: None is kept, the reward range is a list of two numbers."""
        values = asdict(self)
        if self.reward_range is not None:
            values["reward_range"] = list(self.reward_range)
        return values

    @classmethod
    def from_toml(cls, path: str | Path) -> Configuration:
        """Read the fields from a TOML file, where they stand flat or in a ``[run]`` table.

        Raises `InputError` for a file that cannot be read, an unknown key, a wrong type or a value out of range.
        """
        path = Path(path)
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            problem = error.strerror or type(error).__name__
            raise InputError(
                f"{path.name}: the configuration file cannot be read ({problem}); check --config."
            ) from error
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path.name} is not valid TOML ({error}); write lines such as group_size = 8.") from error
        table = values.pop("run", {})
        require(isinstance(table, dict), f"{path.name}: run is {table!r}; it must be a table, headed by [run].")
        twice = sorted(table.keys() & values.keys())
        require(not twice, f"{path.name}: {listed(twice)} given both in [run] and outside it; keep one.")
        values |= table
        allowed = [field.name for field in fields(cls)]
        unknown = [key for key in values if key not in allowed]
        require(
            not unknown,
            f"{path.name}: unknown {'key' if len(unknown) == 1 else 'keys'} {listed(unknown)}; "
            f"allowed are {', '.join(allowed)}.",
        )
        try:
            return cls(**values)
        except InputError as error:
            raise InputError(f"{path.name}: {error}") from error


def _checked(name: str, value: Any) -> Any:
    """`value` as a plain Python object of the field's type."""
    if name in WORDS:
        allowed = " or ".join(repr(word) for word in WORDS[name])
        require(isinstance(value, str) and value in WORDS[name], f"{name} is {value!r}; it must be {allowed}.")
        return value
    if name == "reward_range":
        pair = isinstance(value, (tuple, list)) and len(value) == 2 and all(_is_number(end) for end in value)
        require(pair and value[0] < value[1], f"reward_range is {value!r}; it must be two numbers, low < high.")
        return float(value[0]), float(value[1])
    if name in COUNTS:
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        require(whole and int(value) >= 1, f"{name} is {value!r}; it must be a whole number, at least 1.")
        return int(value)
    inside, allowed = {
        "learning_rate": (lambda x: x > 0, "a number above 0"),
        "momentum": (lambda x: 0 <= x < 1, "a number in [0, 1)"),
        "kl_weight": (lambda x: x >= 0, "a number, at least 0"),
        "rows_averaged": (lambda x: x >= 1, "a number, at least 1"),
    }[name]
    require(_is_number(value) and inside(value), f"{name} is {value!r}; it must be {allowed}.")
    return float(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)


NOTHING_KNOWN = Configuration()
