"""CSV and TSV with a header line."""

from __future__ import annotations

import csv
import io
from itertools import islice

from sde_grpo.errors import InputError, require
from sde_grpo.runs.cells import Row, listed, number_or_none
from sde_grpo.runs.readers.base import Log

DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon"}
SAMPLE = 20


class Delimited:
    """A table whose cells are parted by commas, tabs or semicolons, whichever the header line has most of."""

    format = "CSV or TSV"

    def recognises(self, text: str) -> bool:
        header, *rest = _records(text, most=SAMPLE) or [[]]
        if len(header) == 1:
            return bool(rest) and header[0].isidentifier() and number_or_none(rest[0][0]) is not None
        return len(header) > 1 and 2 * sum(len(record) == len(header) for record in rest) >= len(rest)

    def read(self, text: str, source: str) -> Log:
        try:
            reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text))
            records = [(reader.line_num, record) for record in reader if any(cell.strip() for cell in record)]
        except csv.Error as error:
            raise InputError(f"{source}: the table cannot be read ({error}); check the quotation marks.") from error
        header = [name.strip() for name in records[0][1]]
        _check_header(header, source)
        require(len(records) > 1, f"{source} has a header line but no rows; has the run logged anything yet?")
        rows, warnings = [], []
        for number, record in records[1:]:
            if len(record) != len(header):
                if number == records[-1][0] and len(record) < len(header) and rows:
                    warnings.append(
                        f"The last line ({number}) breaks off and was dropped; the run may still be writing."
                    )
                    continue
                raise InputError(
                    f"{source}, line {number}: {len(record)} cells, but the header has {len(header)} (parted by a "
                    f"{DELIMITERS[_delimiter(text)]}); correct the line."
                )
            rows.append(Row(number, dict(zip(header, record, strict=True))))
        return Log(rows, "line", warnings=tuple(warnings))


def _delimiter(text: str) -> str:
    header = text.lstrip("\r\n").split("\n", 1)[0]
    return max(DELIMITERS, key=header.count)


def _records(text: str, most: int) -> list[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text))
    try:
        return list(islice((record for record in reader if record), most))
    except csv.Error:
        return []


def _check_header(header: list[str], source: str) -> None:
    require(
        not all(number_or_none(name) is not None for name in header),
        f"{source}: the first line holds numbers ({listed(header, 5)}), not column names; add a header line such as "
        "step,reward.",
    )
    twice = sorted({name for name in header if name and header.count(name) > 1})
    require(not twice, f"{source}: the column {listed(twice)} appears more than once; rename or delete one.")
