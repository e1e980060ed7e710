from __future__ import annotations

from pathlib import Path

import pytest

from sde_grpo.errors import InputError
from sde_grpo.runs.readers.charts import ChartExport
from sde_grpo.runs.source import open_source
from tests.runs.readers.reading import numbers, read


def chart(path: Path, curves: dict[str, dict[int, float]], axis: str = "Step", spread: float = 0.0) -> Path:
    """As saved from a chart of W&B: every cell quoted, empty where a run has no point."""
    header = [axis] + [f"{name}{end}" for name in curves for end in ("", "__MIN", "__MAX")]
    lines = [header]
    for step in sorted({step for curve in curves.values() for step in curve}):
        cells = [str(step)]
        for curve in curves.values():
            value = curve.get(step)
            cells += ["", "", ""] if value is None else [str(value), str(value - spread), str(value + spread)]
        lines.append(cells)
    path.write_text("\n".join(",".join(f'"{cell}"' for cell in line) for line in lines) + "\n")
    return path


def test_several_runs_and_keys(tmp_path):
    curves = {
        "easy - seed 1 - train/reward": {1: 0.25, 2: 0.5},
        "hard, long - train/reward": {2: 0.125},
        "easy - seed 1 - train/kl": {1: 0.1},
    }
    log = read(ChartExport(), chart(tmp_path / "wandb_export.csv", curves))
    assert [log.table["run"].text(row) for row in range(3)] == ["easy - seed 1", "easy - seed 1", "hard, long"]
    assert numbers(log, "step") == [1, 2, 2]
    assert numbers(log, "train/reward") == [0.25, 0.5, 0.125]
    assert log.table["train/kl"].present.tolist() == [True, False, False]
    assert (log.warnings, log.refusals) == ((), ())


def test_a_chart_on_the_page_of_one_run(tmp_path):
    path = chart(tmp_path / "a.csv", {"train/reward": {4: 0.25, 8: 0.5}}, axis="train/global_step")
    log = read(ChartExport(), path)
    assert numbers(log, "train/global_step") == [4, 8]
    assert "run" not in log.table


def test_points_that_average_several_steps(tmp_path):
    log = read(ChartExport(), chart(tmp_path / "a.csv", {"r - reward": {1: 0.25, 9: 0.5}}, spread=0.1))
    assert any(warning.startswith("2 of 2 points of r - reward average several steps") for warning in log.warnings)


def test_a_full_chart_may_be_thinned(tmp_path):
    log = read(ChartExport(), chart(tmp_path / "a.csv", {"r - reward": {step: 0.5 for step in range(0, 1000, 2)}}))
    assert any("has 500 points, as many as a chart shows at most" in warning for warning in log.warnings)


def test_what_must_not_be_fitted(tmp_path):
    log = read(ChartExport(), chart(tmp_path / "a.csv", {"Group: G=8 - reward": {1: 0.25}}))
    assert any("is the mean over a group of runs" in refusal for refusal in log.refusals)
    log = read(ChartExport(), chart(tmp_path / "a.csv", {"r - reward (smoothed)": {1: 0.25}}))
    assert any("r - reward (smoothed) was smoothed" in refusal for refusal in log.refusals)
    with pytest.raises(InputError, match=r"is drawn over 'Relative Time \(Process\)'; set its x axis to Step"):
        read(ChartExport(), chart(tmp_path / "a.csv", {"r - reward": {1: 0.25}}, axis="Relative Time (Process)"))


def test_the_chart_of_tensorboard(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("Wall time,Step,Value\n1766301063.5,1,0.25\n1766301064.5,2,0.5\n1766301065.5,3")
    log = read(ChartExport(), path)
    assert (numbers(log, "step"), numbers(log, "reward")) == ([1, 2], [0.25, 0.5])
    assert log.format == "TensorBoard chart CSV"
    assert any("does not say which tag" in warning for warning in log.warnings)
    path.write_text("Wall time,Step,Value\n" + "".join(f"1,{step},0.5\n" for step in range(1000)))
    assert any("1000 points, as many as a chart shows" in warning for warning in read(ChartExport(), path).warnings)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("Step,a,a__MIN,a__MAX\n1,2\n2,1,1,1\n", "line 2: 4 cells were expected"),
        ("Step,a,a__MIN,a__MAX\n1,2,3,4,5\n", "line 2: 4 cells were expected"),
        ("Step,a,a__MIN,a__MAX\n1,,,\n", "the chart holds no values"),
        ("Wall time,Step,Value\n", "header line but no rows"),
        ("Step,a,a__MIN,a__MAX\n1,x,1,1\n", "line 2: 'x' in column a is not a number"),
    ],
)
def test_broken_charts(tmp_path, content, message):
    path = tmp_path / "a.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        read(ChartExport(), path)


def test_what_is_not_recognised(tmp_path):
    path = tmp_path / "a.csv"
    for content in ("step,reward\n1,0.5\n", '"', "a\0b"):
        path.write_text(content)
        assert not ChartExport().recognises(open_source(path))
