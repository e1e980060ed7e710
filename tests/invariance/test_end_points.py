"""End-point tables: strata, errors, and a slope that is found where it was planted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sde_grpo.errors import InputError
from sde_grpo.invariance.end_points import compare_end_points, read_end_points

ROWS = 60


def write_table(path: Path, slope: float, *, seed: int = 0) -> Path:
    """Rows of three models and two data sets, models with large G being the better ones: a confounder."""
    rng = np.random.default_rng(seed)
    lines = ["run_name,model,dataset,num_rollouts,final_accuracy,best_accuracy"]
    for row in range(ROWS):
        model, dataset, group = row % 3, (row // 3) % 2, 2 ** (1 + (row // 6) % 3 + row % 3)
        noise = rng.standard_t(3) * 0.01
        value = 0.3 + 0.1 * model - 0.05 * dataset + slope * np.log2(group) + noise
        lines.append(f"run-{row},{['small', 'medium', 'large'][model]},{'ab'[dataset]},{group},{value:.6f},0.9")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(("slope", "verdict"), [(0.0, "invariant"), (0.04, "changed")])
def test_slope_is_found_within_strata_and_not_between_them(tmp_path: Path, slope: float, verdict: str) -> None:
    table = read_end_points(write_table(tmp_path / "t.csv", slope), "final_accuracy")
    assert table.names == ("model", "dataset")
    assert len(table.strata) == 6
    found = compare_end_points(table)
    assert found.test.q05 < slope < found.test.q95
    assert found.test.verdict == verdict
    assert found.sampler["converged"], found.sampler
    assert set(found.by_level["model"]) == {"small", "medium", "large"}
    assert verdict in found.sentence
    # Without the strata the confounder passes for an effect of the group size.
    crude = np.polyfit(table.log2_group_size, table.value, 1)[0]
    assert crude > slope + 0.03


def test_what_cannot_be_compared_is_refused_by_name(tmp_path: Path) -> None:
    path = write_table(tmp_path / "t.csv", 0.0)
    with pytest.raises(InputError, match=r"no column 'accuracy'.*final_accuracy"):
        read_end_points(path, "accuracy")
    with pytest.raises(InputError, match=r"'run_name' holds no numbers.*run-0"):
        read_end_points(path, "run_name")
    with pytest.raises(InputError, match=r"num_rollouts does not vary among rows that agree in run_name"):
        read_end_points(path, "final_accuracy", strata=["run_name"])
    with pytest.raises(InputError, match=r"best_accuracy is 0.9 in every row"):
        compare_end_points(read_end_points(path, "best_accuracy"))
    without = tmp_path / "without.csv"
    without.write_text("model,final_accuracy\na,0.3\nb,0.4\n", encoding="utf-8")
    with pytest.raises(InputError, match="no column tells the group size"):
        read_end_points(without, "final_accuracy")


def test_incomplete_rows_and_lonely_strata_are_named(tmp_path: Path) -> None:
    path = write_table(tmp_path / "t.csv", 0.0)
    with path.open("a", encoding="utf-8") as file:
        file.write("x,small,a,8,,0.9\nx,huge,a,8,0.5,0.9\n")
    table = read_end_points(path, "final_accuracy")
    assert len(table.value) == ROWS
    assert "1 of 62 rows lack final_accuracy" in table.notes[0]
    assert "1 rows have no partner" in table.notes[1]


def test_real_table(traces: Path) -> None:
    path = traces / "rollout-count-summary" / "batch32_metrics.csv"
    table = read_end_points(path, "final_validation_accuracy")
    assert table.names == ("model size in run_name", "false_positive_rate", "false_negative_rate")
    assert len(table.value) == 141
