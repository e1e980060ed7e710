"""What a flag means and what to do next, in plain words: eight messages for ten checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Side = Literal["above", "below"]  # where the observed value lies among the replicated ones

REPRODUCED = "The model reproduces every feature of the reward curve that was checked."
STRAYS = (
    "The reward strays from the trajectory for longer, or by more in one direction, than the model does: the curve has "
    "another shape, such as a second phase or a change of curriculum or data. Do not rely on the plateau; fit the part "
    "after the change alone, or try --dynamics free if the dynamics were mechanistic."
)
ALTERNATES = (
    "Successive rewards alternate about the trajectory more than the model's do, as they must where prompts are drawn "
    "without replacement within an epoch. The noise is then not independent from step to step; average the reward over "
    "whole epochs and fit again."
)
FALLS = (
    "The reward falls further than noise explains: a collapse or a spike. Look at the run around its deepest fall, and "
    "fit the part before it, or the part after its recovery, alone."
)
TAILS = (
    "Rewards lie far from what the model predicts, more often or further than its noise allows: heavy tails, such as "
    "failed batches or a faulty grader, or more noise than the settings imply. Look at the steps with the largest "
    "residuals, and check group size and prompts per step; intervals are too narrow until this is resolved."
)
CALM = (
    "The reward scatters less than the model says: the log may be smoothed or forward-filled, or a value may average "
    "more completions than the settings say. Fit the raw log, and check group size, prompts per step and rows averaged."
)
GRID = (
    "One-step-ahead predictions have the right centre and width but not the right shape: rewards on a coarse grid (few "
    "completions a step), skewed near their limits, or a mixture of quiet and noisy stretches. Gaussian noise is a "
    "poor description of single steps; average neighbouring steps and fit again."
)

WANDERS = (
    "The reward wanders about the trajectory as sampling noise cannot, and the fit takes this for fluctuation of the "
    "policy. Public logs show no such fluctuation, so suspect the trajectory first: far from its plateau a run may "
    "follow another law. Do not rely on curvature or time scale; fit again with the other --link, with --dynamics "
    "free, or without the first part of the rise, and see whether they hold."
)

MESSAGES: Mapping[tuple[str, Side], str] = {
    ("autocorrelation", "above"): STRAYS,
    ("autocorrelation", "below"): ALTERNATES,
    ("wander", "above"): WANDERS,
    ("drawdown", "above"): FALLS,
    ("drawdown", "below"): CALM,
    ("band_share", "above"): CALM,
    ("band_share", "below"): TAILS,
    ("longest_run", "above"): STRAYS,
    ("longest_run", "below"): ALTERNATES,
    ("largest_residual", "above"): TAILS,
    ("largest_residual", "below"): CALM,
}


def changing_noise(larger: list[str], smaller: list[str]) -> str:
    """The message on the thirds of the run whose scatter is `larger` or `smaller` than the model's."""
    parts = [f"{word} in the {' and '.join(p)} third" for word, p in (("more", larger), ("less", smaller)) if p]
    return (
        f"The reward scatters about the trajectory {' and '.join(parts)} of the run than the model says: the noise "
        "changes along the run (batch size, curriculum, filtering of prompts). Find the step where the settings or the "
        "data changed and fit the parts on either side alone."
    )


def prediction_message(mean: float, spread: float) -> str:
    """The message on one-step-ahead predictions that fail, from the two numbers of `mean_and_spread`."""
    if max(abs(mean), abs(spread)) < 2:  # standard errors: neither is off
        return GRID
    if abs(mean) > abs(spread):
        return STRAYS
    return TAILS if spread > 0 else CALM


def verdict_messages(flags: Mapping[str, Side], prediction: tuple[float, float]) -> tuple[str, ...]:
    """One message per meaning, in the order of `flags` (statistic: side); `REPRODUCED` where there are none.

    `prediction` is the result of `mean_and_spread`, and matters where ``pit`` is flagged.
    """
    thirds: dict[Side, list[str]] = {"above": [], "below": []}
    found: list[str] = []
    for name, side in flags.items():
        if name.startswith("spread_"):
            thirds[side].append(name.removeprefix("spread_"))
        elif name == "pit":
            found.append(prediction_message(*prediction))
        else:
            found.append(MESSAGES[name, side])
    if len(thirds["above"]) == 3:
        found.append(TAILS)
    elif len(thirds["below"]) == 3:
        found.append(CALM)
    elif any(thirds.values()):
        found.append(changing_noise(thirds["above"], thirds["below"]))
    return tuple(dict.fromkeys(found)) or (REPRODUCED,)
