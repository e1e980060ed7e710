"""Settings that the tests of this folder run through: rule, epochs, at curvature 1."""

from __future__ import annotations

from sde_grpo.oscillator import UpdateRule

SETTINGS = {
    "no lag": (UpdateRule(0.3), 1),
    "momentum": (UpdateRule(0.2, 0.6), 1),
    "refresh, fresh noise": (UpdateRule(0.12, 0.3, "heavy_ball", 6), 1),
    "refresh, one batch": (UpdateRule(0.12, 0.3, "heavy_ball", 6), 6),
    "refresh, three mini-batches twice": (UpdateRule(0.12, 0.3, "heavy_ball", 6), 2),
    "beyond the paper's threshold": (UpdateRule(0.35, 0.0, "heavy_ball", 4), 4),
    "refresh, Adam, part stale": (UpdateRule(0.5, 0.8, "ema", 4, "periodic", 0.4), 1),
    "refresh, negative stale fraction": (UpdateRule(0.2, 0.0, "heavy_ball", 5, "periodic", -0.3), 5),
    "lag": (UpdateRule(0.1, 0.3, "heavy_ball", 4, "constant"), 1),
    "long lag": (UpdateRule(0.05, 0.0, "heavy_ball", 12, "constant"), 1),
    "lag, negative stale fraction": (UpdateRule(0.2, 0.5, "heavy_ball", 2, "constant", -0.2), 1),
    "mixed lag": (UpdateRule(0.15, 0.2, "heavy_ball", 3, "constant", 0.9, (0.1, 0.2, 0.3, 0.4)), 1),
}
