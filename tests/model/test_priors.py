"""The table in the docs is the table in the code."""

from __future__ import annotations

from pathlib import Path

from sde_grpo.model import PRIORS


def test_the_readme_states_every_prior_with_its_reason() -> None:
    text = (Path(__file__).parents[2] / "sde_grpo" / "model" / "README.md").read_text(encoding="utf-8")
    for name, prior in PRIORS.items():
        assert f"| `{name}` | {prior.symbol} | {prior.prior} | {prior.reason} |" in text
