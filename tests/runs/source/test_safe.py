from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sde_grpo.runs.source import open_source, safe, safe_cell


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("reward é 数", "reward é 数"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\u202eevil\u2066", r"\u202eevil\u2066"),
        ("\x9b31m", r"\x9b31m"),
        ("zero\u200bwidth\u2028", r"zero\u200bwidth\u2028"),
        ("\ud800", r"\ud800"),
        ("a" * 90, "a" * 80 + "…"),
    ],
)
def test_safe(text, shown):
    assert safe(text) == shown


@given(st.text(st.characters(codec=None), max_size=300))
def test_anything_becomes_one_printable_line(text):
    shown = safe(text)
    assert shown.isprintable()
    assert len(shown) <= 81
    shown.encode()


@given(st.text(max_size=50))
def test_no_cell_starts_a_formula(text):
    cell = safe_cell(text)
    assert cell.isprintable()
    if cell.strip().startswith(("=", "+", "-", "@")):
        float(cell)


@pytest.mark.parametrize(
    ("text", "cell"),
    [("=1+2", "'=1+2"), ("-0.5", "-0.5"), ("@sum", "'@sum"), (" =1", "' =1"), ("run 1", "run 1"), ("+inf", "+inf")],
)
def test_safe_cell(text, cell):
    assert safe_cell(text) == cell


def test_names_of_files_are_safe(tmp_path):
    path = tmp_path / "a\x1b[2Jb"
    path.write_text("x")
    assert open_source(path).name == r"a\x1b[2Jb"
