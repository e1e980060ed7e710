"""The answers a fit gives: where the run levels off, when, how sure, and how much of the data is explained."""

from sde_grpo.answers.explained import explained, step_noise_variance
from sde_grpo.answers.summary import forecast, summarise
from sde_grpo.answers.trajectory import mean_at, mean_now, share_done, steps_to_share, still_to_come

__all__ = [
    "explained",
    "forecast",
    "mean_at",
    "mean_now",
    "share_done",
    "step_noise_variance",
    "steps_to_share",
    "still_to_come",
    "summarise",
]
