"""The rows of a log as columns: filled row by row while a file streams by, and held in typed arrays.

Only columns that have a role (`roles.py`) or were asked for are kept; of the others the name is. So the memory a log
takes depends on its number of rows, not on its size.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from math import nan
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sde_grpo.errors import require
from sde_grpo.runs.cells import number
from sde_grpo.runs.roles import role_of
from sde_grpo.runs.source import safe

Vector = NDArray[np.float64]
Places = NDArray[np.int64]
Mask = NDArray[np.bool_]

MOST_ROWS = 20_000_000
MOST_NAMES = 20_000
MOST_WORDS = 200_000
MOST_LAYOUTS = 1_000
LONGEST_WORD = 200
DEEPEST = 20
CHUNK = 512


@dataclass(frozen=True, eq=False)
class Column:
    """One column of n rows.

    `numbers` (n,) is NaN where the cell holds no finite number; `present` (n,) says where there is a cell at all;
    `codes` (n,) is the place in `words` of a cell that holds text, and -1 elsewhere.
    """

    numbers: Vector
    present: Mask
    codes: NDArray[np.int32]
    words: tuple[str, ...] = ()

    @property
    def finite(self) -> Mask:
        """Where the cell holds a number."""
        return ~np.isnan(self.numbers)

    @property
    def filled(self) -> Mask:
        """Where the cell holds a number or text."""
        return self.finite | (self.codes >= 0)

    def text(self, row: int) -> str:
        """The cell as text; empty where it is missing."""
        if self.codes[row] >= 0:
            return self.words[self.codes[row]]
        value = self.numbers[row]
        return "" if np.isnan(value) else f"{value:.12g}"

    def values(self) -> list[str]:
        """The different values, as texts, in the order in which they first appear; missing ones are left out."""
        ids, first = self.ids()
        return [self.text(int(row)) for row in first[ids[first] > 0]]

    def ids(self) -> tuple[Places, Places]:
        """A number for each row, equal for equal cells, 0 for missing ones; and the rows where a value first stands."""
        place = np.unique(self.numbers, return_inverse=True)[1]
        ids = np.where(np.isnan(self.numbers), 0, 1 + len(self.words) + place.ravel())
        ids = np.where(self.codes >= 0, 1 + self.codes, ids).astype(np.int64)
        _, first = np.unique(ids, return_index=True)
        return ids, np.sort(first)

    def take(self, rows: Places | Mask) -> Column:
        """These rows only."""
        return Column(self.numbers[rows], self.present[rows], self.codes[rows], self.words)


@dataclass(frozen=True, eq=False)
class Table:
    """Rows, numbered as their file counts them, and their columns in the order in which they first appeared.

    `names` holds every column of the file, with whether its first value was a number; `columns` those that were kept.
    """

    numbers: Places
    columns: Mapping[str, Column]
    names: Mapping[str, bool]

    def __len__(self) -> int:
        return len(self.numbers)

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def take(self, rows: Places | Mask) -> Table:
        """These rows only, with the columns that have a cell in them."""
        taken = {name: column.take(rows) for name, column in self.columns.items()}
        columns = {name: column for name, column in taken.items() if column.present.any()}
        return Table(self.numbers[rows], columns, self.names)

    def with_role(self, *roles: str) -> list[str]:
        """The kept columns with one of these roles, in the order of the table of names in `roles.py`."""
        found = [(name, role) for name in self.columns if (role := role_of(name)) is not None and role.name in roles]
        return [name for name, _ in sorted(found, key=lambda item: item[1].rank)]


class _Growing:
    """A column while it is read: the rows that have a cell, and what the cells hold."""

    __slots__ = ("at", "numbers", "text_at", "text_codes", "words")

    def __init__(self) -> None:
        self.at = array("I")
        self.numbers = array("d")
        self.text_at = array("I")
        self.text_codes = array("I")
        self.words: dict[str, int] = {}

    def extend(self, rows: array[int], cells: Sequence[Any], kinds: set[type]) -> None:
        """The cells of these rows; `kinds` are their types. Numbers and their texts are taken all at once."""
        self.at.extend(rows)
        try:
            if kinds <= {float, int}:
                self.numbers.extend(array("d", cells))
                return
            if kinds == {str} and "_" not in "".join(cells):  # float() would read 1_000
                self.numbers.extend(array("d", list(map(float, cells))))
                return
        except (ValueError, OverflowError):
            pass
        for row, cell in zip(rows, cells, strict=True):
            try:
                value = number(cell)
                self.numbers.append(nan if value is None else value)
            except ValueError:
                self.numbers.append(nan)
                self._add_text(row, _word(cell))

    def _add_text(self, row: int, word: str) -> None:
        if word not in self.words and len(self.words) >= MOST_WORDS:
            word = "..."
        self.text_at.append(row)
        self.text_codes.append(self.words.setdefault(word, len(self.words)))

    def column(self, count: int) -> Column:
        at = np.frombuffer(self.at, dtype=np.uint32)
        values = np.frombuffer(self.numbers)
        values = values if np.isfinite(values).all() else np.where(np.isfinite(values), values, nan)
        if np.array_equal(at, np.arange(count)):
            numbers, present = values, np.broadcast_to(np.True_, count)
        else:
            numbers, present = np.full(count, nan), np.zeros(count, bool)
            numbers[at], present[at] = values, True
        codes = np.broadcast_to(np.int32(-1), count)  # of no size
        if self.text_at:
            codes = np.full(count, -1, np.int32)
            codes[np.frombuffer(self.text_at, dtype=np.uint32)] = np.frombuffer(self.text_codes, dtype=np.uint32)
        return Column(numbers, present, codes, tuple(self.words))


class _Entry(NamedTuple):
    """One key of a layout that is kept or may hold objects: how to get its cell, its name with those above it, and its
    column if it is kept.
    """

    pick: Callable[[Mapping[str, Any]], Any]
    name: str
    column: _Growing | None


class TableBuilder:
    """Rows in, `Table` out. `wanted` are columns to keep beside those that have a role."""

    def __init__(self, wanted: Collection[str] = frozenset()) -> None:
        self._wanted = frozenset(wanted)
        self._numbers = array("q")
        self._columns: dict[str, _Growing] = {}
        self._names: dict[str, bool] = {}
        self._layouts: dict[tuple[str, tuple[Any, ...]], list[_Entry]] = {}
        self._waiting: list[Mapping[str, Any]] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def keeps(self, name: str) -> bool:
        """Whether a column of that name is kept."""
        return name in self._wanted or role_of(name) is not None

    def add(self, number: int, cells: Mapping[str, Any]) -> None:
        """One more row; ``{"a": {"b": 1}}`` becomes ``{"a/b": 1}``. Raises `InputError` above `MOST_ROWS` rows."""
        self._numbers.append(number)
        self._waiting.append(cells)
        if len(self._waiting) == CHUNK:
            self._flush()

    def extend(self, numbers: Sequence[int], rows: Sequence[Mapping[str, Any]]) -> None:
        """Many more rows, as by `add`, but faster."""
        self._flush()
        self._numbers.extend(numbers)
        self._waiting = list(rows)
        self._flush()

    def table(self) -> Table:
        """All rows. The builder is empty afterwards, for a column is freed as soon as it is filled."""
        self._flush()
        count, columns = len(self._numbers), {}
        self._layouts.clear()
        for name in list(self._columns):
            growing = self._columns.pop(name)
            if growing.at:
                columns[name] = growing.column(count)
        return Table(np.array(self._numbers, dtype=np.int64), columns, dict(self._names))

    def _flush(self) -> None:
        """Rows wait, so that those of one layout fill their columns many cells at a time."""
        require(
            len(self._numbers) <= MOST_ROWS,
            f"The file has more than {MOST_ROWS:,} rows, which no reward curve has; keep one row a training step.",
        )
        rows, self._waiting = self._waiting, []
        if rows:
            self._fill("", range(len(self._numbers) - len(rows), len(self._numbers)), rows, 0)

    def _fill(self, above: str, rows: Sequence[int], parts: Sequence[Mapping[str, Any]], depth: int) -> None:
        """The cells of `parts`, which stand in these rows, below the name `above`."""
        layouts = list(map(tuple, parts))
        for layout in dict.fromkeys(layouts):
            at, alike = array("I", rows), parts
            if layouts.count(layout) < len(parts):
                at, alike = _chosen([other == layout for other in layouts], rows, parts)
            for entry in self._entries(above, layout, alike[0]):
                cells = list(map(entry.pick, alike))
                kinds = set(map(type, cells))
                if dict in kinds and depth < DEEPEST:
                    nested = [type(cell) is dict for cell in cells]
                    self._fill(f"{entry.name}/", *_chosen(nested, at, cells), depth + 1)
                    if entry.column is not None and len(kinds) > 1:
                        entry.column.extend(*_chosen([not inner for inner in nested], at, cells), kinds - {dict})
                elif entry.column is not None:
                    entry.column.extend(at, cells, kinds)

    def _entries(self, above: str, layout: tuple[Any, ...], first: Mapping[str, Any]) -> list[_Entry]:
        known = self._layouts.get((above, layout))
        if known is not None:
            return known
        entries = []
        for key in layout:
            name, cell = f"{above}{key}", first[key]
            shown = safe(name, LONGEST_WORD)
            if type(cell) is not dict and shown not in self._names:
                if len(self._names) >= MOST_NAMES and name not in self._wanted:
                    continue
                self._names[shown] = _is_number(cell)
            column = self._columns.setdefault(shown, _Growing()) if self.keeps(name) else None
            if column is not None or cell is None or type(cell) is dict:
                entries.append(_Entry(itemgetter(key), name, column))
        if len(self._layouts) < MOST_LAYOUTS and len(layout) < MOST_NAMES:
            self._layouts[above, layout] = entries
        return entries


def table_of(rows: Iterable[tuple[int, Mapping[str, Any]]], wanted: Collection[str] = frozenset()) -> Table:
    """The table of numbered rows."""
    builder = TableBuilder(wanted)
    for number_, cells in rows:
        builder.add(number_, cells)
    return builder.table()


def _chosen(which: Sequence[bool], rows: Sequence[int], parts: Sequence[Any]) -> tuple[array[int], list[Any]]:
    return array("I", compress(rows, which)), list(compress(parts, which))


def _is_number(cell: Any) -> bool:
    try:
        return number(cell) is not None
    except ValueError:
        return False


def _word(cell: Any) -> str:
    if isinstance(cell, (list, dict)):
        return "[...]" if isinstance(cell, list) else "{...}"
    return safe(str(cell).strip(), LONGEST_WORD)
