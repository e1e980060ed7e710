from __future__ import annotations

from pathlib import Path

import pytest

from sde_grpo.errors import InputError
from sde_grpo.runs.readers.mlflow import MlflowRun
from sde_grpo.runs.source import open_source
from tests.runs.readers.reading import numbers, read

START = 1_766_301_063_000


def log_metrics(run: Path, step: int, metrics: dict[str, float], time: int | None = None) -> None:
    """As MLflow's file store: one line to the file of each metric, the time in milliseconds."""
    for key, value in metrics.items():
        path = run / "metrics" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(f"{(START + 1000 * step) if time is None else time} {value} {step}\n")


@pytest.fixture
def run(tmp_path):
    for step in (1, 2, 3):
        log_metrics(tmp_path, step, {"critic/rewards/mean": step / 8, "critic/score/mean": step / 4, "timing/gen": 2.5})
    log_metrics(tmp_path, 3, {"val-core/math/acc/mean_at_8": 0.75}, START + 9999)
    (tmp_path / "params").mkdir()
    for name, text in {
        "rollout.n": "8",
        "use_kl": "False",
        "lr": "1e-06",
        "name": "a run",
        "betas": "[0.9, 0.95]",
    }.items():
        (tmp_path / "params" / name).write_text(text)
    (tmp_path / "meta.yaml").write_text("run_name: a\n")
    return tmp_path


def test_a_run(run):
    log = read(MlflowRun(), run)
    column = log.table["critic/rewards/mean"]
    assert column.numbers[column.present].tolist() == [0.125, 0.25, 0.375]
    assert log.table["step"].numbers.tolist() == [1, 2, 3, 3]
    assert log.table["val-core/math/acc/mean_at_8"].present.tolist() == [False, False, False, True]
    assert "timing/gen" in log.table.names
    assert "timing/gen" not in log.table.columns
    (config,) = log.configs
    assert config.values == {"rollout.n": 8, "use_kl": False, "lr": 1e-6, "name": "a run", "betas": [0.9, 0.95]}
    assert config.origin == "MLflow params"


def test_a_resumed_run_keeps_the_order_of_time(tmp_path):
    for time, step in enumerate((1, 2, 3, 2, 3, 4)):
        log_metrics(tmp_path, step, {"reward": time / 8}, START + time)
    (tmp_path / "meta.yaml").write_text("run_name: a\n")
    log = read(MlflowRun(), tmp_path)
    assert numbers(log, "step") == [1, 2, 3, 2, 3, 4]
    assert numbers(log, "reward") == [0.0, 0.125, 0.25, 0.375, 0.5, 0.625]


def test_the_file_of_one_metric(run):
    log_metrics(run, 1, {"reward": 0.5})
    log_metrics(run, 2, {"reward": float("nan")})
    log = read(MlflowRun(), run / "metrics" / "reward")
    assert numbers(log, "step") == [1, 2]
    assert numbers(log, "reward")[0] == 0.5
    assert (log.configs, log.warnings) == ((), ())
    log = read(MlflowRun(), run / "metrics" / "critic" / "rewards" / "mean")
    assert numbers(log, "critic/rewards/mean") == [0.125, 0.25, 0.375]
    (run / "success").write_text("1766301064000 0.5 1\n")
    log = read(MlflowRun(), run / "success")
    assert numbers(log, "reward") == [0.5]
    assert any("its values were taken as the reward" in warning for warning in log.warnings)


def test_broken_lines(run):
    path = run / "metrics" / "reward"
    path.write_text("1766301064000 0.5 1\n1766301064000 0.5\n")
    with pytest.raises(InputError, match=r"reward, line 2: '1766301064000 0.5' is not the time, value and step"):
        read(MlflowRun(), run)


def test_an_empty_run(tmp_path):
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "reward").touch()
    assert not MlflowRun().recognises(open_source(tmp_path))
    (tmp_path / "params").mkdir()
    with pytest.raises(InputError, match="no metric holds a value"):
        read(MlflowRun(), tmp_path)
