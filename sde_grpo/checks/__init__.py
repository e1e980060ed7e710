"""Posterior predictive checks: which features of a reward curve the fitted model does and does not reproduce."""

from sde_grpo.checks.verdict import CheckReport, CheckRow, check_fit, rows_as_records

__all__ = ["CheckReport", "CheckRow", "check_fit", "rows_as_records"]
