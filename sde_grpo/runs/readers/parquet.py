"""Parquet: a table of rows (W&B's run history, own exports), or TRL's completions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sde_grpo.errors import InputError, require
from sde_grpo.runs.cells import listed
from sde_grpo.runs.readers.base import Log
from sde_grpo.runs.readers.extras import import_extra
from sde_grpo.runs.samples import Samples
from sde_grpo.runs.source import Source, files_in, open_source, require_bounded, safe
from sde_grpo.runs.table import MOST_ROWS, TableBuilder

MAGIC = b"PAR1"
SUFFIX = ".parquet"
MOST_FILES = 100_000
ROWS_AT_A_TIME = 2048  # a row of completions may be long
TEXT_AT_A_TIME = 2**26  # bytes
ADVICE = "write it as CSV"
COMPLETIONS = {"prompt", "completion"}
NO_REWARDS = {"step", "advantage", "advantages", "epoch", "global_step", "__index_level_0__"}


class Parquet:
    """One file, or the folder of its parts in the order of their names.

    With the columns prompt and completion it holds one row per completion, as TRL's ``log_completions`` writes: the
    rewards are averaged over a step, and the groups, which are those of one prompt, give their statistics exactly.
    """

    format = "parquet"

    def recognises(self, source: Source) -> bool:
        if source.is_folder:
            return any(path.suffix == SUFFIX for path in files_in(source.path))
        return source.head.startswith(MAGIC)

    def read(self, source: Source, wanted: frozenset[str]) -> Log:
        files = [source]
        if source.is_folder:
            files = [open_source(path) for path in files_in(source.path) if path.suffix == SUFFIX][:MOST_FILES]
        with _opened(files[0]) as first:
            names = set(first.schema_arrow.names)
        return _completions(source, files, wanted) if names >= COMPLETIONS else _rows(source, files, wanted)


def _rows(source: Source, files: list[Source], wanted: frozenset[str]) -> Log:
    builder = TableBuilder(wanted)
    for file in files:
        with _opened(file) as parquet:
            names = parquet.schema_arrow.names
            kept = [name for name in names if builder.keeps(name) or _is_nested(parquet, name)]
            others = dict.fromkeys(name for name in names if name not in kept)
            for row in _cells(parquet, kept, file):
                builder.add(len(builder) + 1, row if len(builder) else others | row)
    require(len(builder) > 0, f"{source.name} holds no rows; has the run logged anything yet?")
    return Log(builder.table(), "row")


def _completions(source: Source, files: list[Source], wanted: frozenset[str]) -> Log:
    samples = Samples()
    names: list[str] = []
    for place, file in enumerate(files, start=1):
        with _opened(file) as parquet:
            numeric = [name for name in _numeric(parquet) if name not in NO_REWARDS]
            names = [name for name in numeric if name in wanted] or (["reward"] if "reward" in numeric else numeric)
            require(
                bool(names),
                f"{file.name} holds completions, but no column of rewards (its columns are "
                f"{safe(listed(parquet.schema_arrow.names), 300)}).",
            )
            stamped = "step" in parquet.schema_arrow.names
            digits = re.findall(r"\d+", file.path.stem)
            default = float(digits[-1]) if digits and len(digits[-1]) < 16 else float(place)
            for row in _cells(parquet, [*(["step"] if stamped else []), "prompt", *names], file):
                given = [row[name] for name in names if row[name] is not None and row[name] == row[name]]
                step = row.get("step")
                samples.add(
                    default if not isinstance(step, (int, float)) else float(step),
                    float(sum(given)) if given else None,
                    hash(row["prompt"] if isinstance(row["prompt"], str) else repr(row["prompt"])),
                )
    warnings = []
    if len(names) > 1:
        warnings.append(
            f"The reward of a completion is the plain sum of {safe(listed(names), 200)}, for their weights are not in "
            "the file; for one of them alone name it with --reward-column."
        )
    return samples.log(
        wanted,
        format="TRL completions (parquet)",
        step_unit="optimizer",
        unit_source="log (TRL stamps completions with optimizer steps)",
        warnings=warnings,
    )


@contextmanager
def _opened(file: Source) -> Iterator[Any]:
    """The file in pyarrow, whose errors become `InputError`."""
    what = f"{file.name} is a parquet file; reading it"
    parquet, arrow = import_extra("pyarrow.parquet", "parquet", what), import_extra("pyarrow", "parquet", what)
    with file.local() as path:
        try:
            with parquet.ParquetFile(path) as opened:
                require(
                    opened.metadata.num_rows <= MOST_ROWS,
                    f"{file.name} has more than {MOST_ROWS:,} rows, which no reward curve has.",
                )
                groups = map(opened.metadata.row_group, range(opened.num_row_groups))
                unpacked = sum(group.total_byte_size for group in groups)
                require_bounded(file.name, path.stat().st_size, unpacked, ADVICE)
                yield opened
        except InputError:
            raise
        except (arrow.ArrowException, OSError, ValueError, KeyError, IndexError, MemoryError, OverflowError) as error:
            raise InputError(
                f"{file.name}: the parquet file cannot be read ({safe(str(error), 120)}); copy it again, after the "
                "trainer has finished writing it."
            ) from error


def _cells(parquet: Any, names: list[str], file: Source) -> Iterator[dict[str, Any]]:
    """The rows of these columns, in bounded memory.

    A page of a few bytes may stand for millions of equal numbers, or repeat one long text in every row, so what is
    bounded is what the rows take once they are unpacked: the numbers by their count, before any is read, the texts
    by rows so few at a time that they take no more than `TEXT_AT_A_TIME`, even if each is as long as all together.
    """
    packed = file.path.stat().st_size
    chunks = list(_chunks(parquet, names))
    texts = max((c.total_uncompressed_size for c in chunks if c.physical_type.endswith("BYTE_ARRAY")), default=1)
    require_bounded(file.name, packed, 8 * sum(chunk.num_values for chunk in chunks), ADVICE)
    rows, given = max(1, min(ROWS_AT_A_TIME, TEXT_AT_A_TIME // max(texts, 1))), 0
    for batch in parquet.iter_batches(rows, columns=names):
        given += batch.nbytes
        require_bounded(file.name, packed, given, ADVICE)
        yield from batch.to_pylist()


def _chunks(parquet: Any, names: list[str]) -> Iterator[Any]:
    """What the footer says of these columns, in every group of rows.

    A row of each group is read first: of a column that the footer describes wrongly pyarrow raises an error then, but
    ends the process where it is asked for the description.
    """
    paths = [parquet.schema.column(place).path for place in range(len(parquet.schema))]
    places = [k for k, path in enumerate(paths) if any(path == name or path.startswith(f"{name}.") for name in names)]
    for group in range(parquet.num_row_groups):
        next(parquet.iter_batches(1, row_groups=[group], columns=names), None)
        yield from map(parquet.metadata.row_group(group).column, places)


def _numeric(parquet: Any) -> list[str]:
    words = ("float", "double", "halffloat", "int", "uint", "decimal")
    return [field.name for field in parquet.schema_arrow if str(field.type).startswith(words)]


def _is_nested(parquet: Any, name: str) -> bool:
    return str(parquet.schema_arrow.field(name).type).startswith("struct")
