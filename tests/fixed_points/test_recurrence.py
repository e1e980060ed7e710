"""The recurrence against the optimum of its round found by brute force, and its fixed points against iteration."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, kl_div, logit

from sde_grpo.errors import InputError
from sde_grpo.fixed_points import Recurrence, fixed_points
from sde_grpo.groups import GroupRule

MEAN_ONLY = GroupRule(scale="none", baseline="leave_one_out")


def divergence(p: float, q: float) -> float:
    return float(kl_div(p, q) + kl_div(1 - p, 1 - q))


def mean_advantages(p: float, group_size: int, rule: GroupRule) -> tuple[float, float]:
    """Expected advantage of a success and of a failure, group by group."""
    success, failure = 0.0, 0.0
    for others in range(group_size):
        chance = math.comb(group_size - 1, others) * p**others * (1 - p) ** (group_size - 1 - others)
        for own in (0, 1):
            rewards = np.array([own] + [1] * others + [0] * (group_size - 1 - others))
            spread = 1.0 if rule.scale == "none" else rewards.std()
            centre = rewards[1:].mean() if rule.baseline == "leave_one_out" else rewards.mean()
            advantage = 0.0 if rewards.std() == 0 else float(own - centre) / spread
            success, failure = success + own * chance * advantage, failure + (1 - own) * chance * advantage
    return success, failure


@pytest.mark.parametrize(
    ("group_size", "rule", "smoothing"),
    [(None, GroupRule(), 0.0), (None, GroupRule(), 0.05), (5, GroupRule(), 0.0), (3, MEAN_ONLY, 0.0)],
)
@pytest.mark.parametrize(("kl_weight", "previous_weight"), [(1.5, 0.0), (0.0, 2.0), (1.0, 0.7)])
def test_a_round_is_the_optimum_of_its_objective(group_size, rule, smoothing, kl_weight, previous_weight):
    p_ref, p = 0.2, 0.35
    if group_size is None:
        sd = math.sqrt(p * (1 - p) + smoothing)
        success, failure = (1 - p) / sd, -p / sd
    else:
        success, failure = mean_advantages(p, group_size, rule)

    def loss(theta: float) -> float:
        new = float(expit(theta))
        gain = new * success + (1 - new) * failure
        return kl_weight * divergence(new, p_ref) + previous_weight * divergence(new, p) - gain

    best = minimize_scalar(loss, bounds=(-5, 6), method="bounded", options={"xatol": 1e-10}).x
    recurrence = Recurrence(
        p_ref=p_ref,
        kl_weight=kl_weight,
        previous_weight=previous_weight,
        group_size=group_size,
        rule=rule,
        smoothing=smoothing,
    )
    assert recurrence.next_p(p) == pytest.approx(expit(best), abs=1e-6)


def test_the_map_and_slope_of_the_paper():
    recurrence = Recurrence(p_ref=0.3, kl_weight=1.5, smoothing=1e-3)

    def h(p: float) -> float:
        return float(expit(logit(0.3) + 1 / (1.5 * math.sqrt(p * (1 - p) + 1e-3))))

    assert recurrence.next_p(0.4) == pytest.approx(h(0.4), rel=1e-14)
    for point in recurrence.fixed_points():
        p = point.p
        slope = p * (1 - p) * (2 * p - 1) / (2 * 1.5 * (p * (1 - p) + 1e-3) ** 1.5)
        assert h(p) == pytest.approx(p, rel=1e-12)
        assert point.multiplier == pytest.approx(slope, rel=1e-9)
        assert p > 0.3
    assert [point.stable for point in recurrence.fixed_points()] == [True, False, True]


@pytest.mark.parametrize("previous_weight", [0.0, 3.0])
@pytest.mark.parametrize("group_size", [4, None])
def test_iteration_converges_to_the_fixed_point_at_the_rate_of_the_multiplier(group_size, previous_weight):
    recurrence = Recurrence(p_ref=0.5, kl_weight=2.5, previous_weight=previous_weight, group_size=group_size)
    point = recurrence.fixed_points()[0]
    gap = recurrence.trajectory(0.5, 40) - point.p
    usable = np.abs(gap) > 1e-8
    assert abs(gap[-1]) < 1e-6
    late = gap[usable][-1] / gap[usable][-2]
    assert late == pytest.approx(point.multiplier, rel=0.02)
    assert point.rounds_per_e_fold == pytest.approx(-1 / math.log(abs(point.multiplier)))


def test_the_previous_policy_moves_no_fixed_point_and_shares_them_with_the_gradient_flow():
    plain, mixed = (Recurrence(p_ref=0.2, kl_weight=1.7, previous_weight=x, group_size=6) for x in (0.0, 5.0))
    flow = fixed_points(0.2, 1.7, 6)
    for a, b, c in zip(plain.fixed_points(), mixed.fixed_points(), flow, strict=True):
        assert a.p == b.p == pytest.approx(c.p, rel=1e-12)
        w = c.p * (1 - c.p)
        assert a.multiplier == pytest.approx(1 - c.curvature / (1.7 * w), rel=1e-9)
        assert b.multiplier == pytest.approx(1 - c.curvature / (6.7 * w), rel=1e-9)


def test_a_hard_reference_makes_the_recurrence_cycle_where_the_gradient_flow_is_stable():
    recurrence = Recurrence(p_ref=1e-4, kl_weight=1.0, smoothing=0.02)
    point = recurrence.fixed_points()[0]
    assert point.multiplier < -1
    assert fixed_points(1e-4, 1.0)[0].curvature > 0
    path = recurrence.trajectory(point.p + 1e-4, 200)
    assert path[-1] == pytest.approx(path[-3], rel=1e-9)
    assert abs(path[-1] - path[-2]) > 0.02
    calmed = replace(recurrence, previous_weight=2.0)
    assert calmed.trajectory(1e-4, 200)[-1] == pytest.approx(calmed.fixed_points()[0].p, rel=1e-9)


def test_the_mirror_form_goes_to_success():
    recurrence = Recurrence(p_ref=0.1, kl_weight=0.0, previous_weight=2.0, rule=MEAN_ONLY)
    assert recurrence.fixed_points() == ()
    np.testing.assert_allclose(logit(recurrence.trajectory(0.1, 10)), logit(0.1) + np.arange(11) / 2, rtol=1e-9)
    saturated = Recurrence(p_ref=0.1, kl_weight=0.0, previous_weight=0.5).trajectory(0.1, 50)
    assert saturated[-1] == 1
    assert np.all(np.isfinite(saturated))


def test_mean_only_arrives_in_one_round():
    (point,) = Recurrence(p_ref=0.3, kl_weight=0.5, rule=MEAN_ONLY).fixed_points()
    assert point.p == pytest.approx(expit(logit(0.3) + 2), rel=1e-12)
    assert point.multiplier == point.rounds_per_e_fold == 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"p_ref": 1.0}, r"p_ref is 1\.0; it must lie strictly between 0 and 1"),
        ({"kl_weight": -1.0}, r"kl_weight is -1\.0; it must be finite and not negative"),
        ({"previous_weight": math.nan}, "previous_weight is nan; it must be finite and not negative"),
        ({"smoothing": -0.1}, r"smoothing is -0\.1; it must be finite and not negative"),
        ({"group_size": 1}, "group_size is 1; it must be a whole number of at least 2"),
        ({"kl_weight": 0.0}, "kl_weight and previous_weight are both 0"),
        ({"smoothing": 0.1, "group_size": 4}, r"smoothing is 0\.1 with group_size = 4 .* Set it to 0"),
        ({"smoothing": 0.1, "rule": MEAN_ONLY}, r"smoothing is 0\.1 with .* scale = 'none'"),
    ],
)
def test_settings_errors(changed, message):
    with pytest.raises(InputError, match=message):
        Recurrence(**({"p_ref": 0.5, "kl_weight": 2.5} | changed))


def test_iteration_errors():
    recurrence = Recurrence(p_ref=0.5, kl_weight=2.5)
    with pytest.raises(InputError, match=r"p is 0\.0; it must lie strictly between 0 and 1"):
        recurrence.next_p(0.0)
    with pytest.raises(InputError, match=r"p_start is 1\.0; it must lie strictly between 0 and 1"):
        recurrence.trajectory(1.0, 5)
    with pytest.raises(InputError, match="rounds is 0; it must be a whole number of at least 1"):
        recurrence.trajectory(0.5, 0)
    with pytest.raises(InputError, match=r"multiplier is 2\.5 at p = 0\.993723: the error does not shrink"):
        _ = recurrence.fixed_points()[1].rounds_per_e_fold
