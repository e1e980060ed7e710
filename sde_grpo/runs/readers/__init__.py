"""Files and folders to tables: the first reader that recognises the content reads it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sde_grpo.errors import InputError
from sde_grpo.runs.readers.base import Log, RawConfig, Reader
from sde_grpo.runs.readers.charts import ChartExport
from sde_grpo.runs.readers.console import Console
from sde_grpo.runs.readers.delimited import Delimited
from sde_grpo.runs.readers.json_document import JsonDocument
from sde_grpo.runs.readers.json_lines import JsonLines
from sde_grpo.runs.readers.mlflow import MlflowRun
from sde_grpo.runs.readers.parquet import Parquet
from sde_grpo.runs.readers.prime_rl import PrimeRl
from sde_grpo.runs.readers.rollouts import Rollouts
from sde_grpo.runs.readers.tensorboard import TensorBoard
from sde_grpo.runs.readers.trainer_state import TrainerState
from sde_grpo.runs.readers.wandb_api import is_address, read_wandb
from sde_grpo.runs.source import open_source, safe

READERS: tuple[Reader, ...] = (
    TensorBoard(),
    Parquet(),
    MlflowRun(),
    PrimeRl(),
    TrainerState(),
    Rollouts(),
    ChartExport(),
    JsonLines(),
    JsonDocument(),
    Console(),
    Delimited(),
)
ACCEPTED = (
    "trainer_state.json and console output (TRL, unsloth, ms-swift), TensorBoard events, logs of verl, EasyR1, "
    "OpenRLHF, NeMo-RL, prime-rl, open-instruct and tinker, W&B and MLflow runs, JSON, JSON Lines, Parquet, CSV or TSV "
    "with a header line, and any of these gzipped"
)

__all__ = ["READERS", "Log", "RawConfig", "Reader", "read_log"]


def read_log(path: Path, wanted: frozenset[str] = frozenset()) -> Log:
    """The table of a log, or of a run on a W&B server (``wandb:entity/project/run``).

    `wanted` are columns to keep beside the known ones.

    Raises `InputError` for what is missing, broken, or of no known format.
    """
    if is_address(str(path)):
        return read_wandb(str(path), wanted)
    source = open_source(path)
    reader = next((reader for reader in READERS if reader.recognises(source)), None)
    if reader is not None:
        log = reader.read(source, wanted)
        return replace(log, format=log.format or reader.format, warnings=(*log.warnings, *source.warnings))
    if source.is_folder:
        raise InputError(
            f"{source.name} is a directory; name the log file inside it, or table its runs with `sde-grpo inspect`."
        )
    first = source.head.strip().split(b"\n")[0].decode("utf-8", errors="replace")
    raise InputError(
        f"{source.name}: the format is not known (the file begins with {safe(first, 60)!r}). Accepted are {ACCEPTED}; "
        "write the reward curve as a CSV with the columns step and reward."
    )
