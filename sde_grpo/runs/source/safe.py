"""Texts from a log, made harmless before anyone sees them."""

from __future__ import annotations

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def safe(text: str, most: int = 80) -> str:
    """`text` with every character that does not print written as its escape, and cut after `most` characters.

    Control sequences of terminals, line ends, direction overrides, zero-width and unassigned characters and lone
    surrogates all become visible, as ``\\x1b`` or ``\\u202e``. What is returned can be encoded as UTF-8 and stays on
    one line. Square brackets are kept: print it as a `rich.text.Text`, or through `rich.markup.escape`.
    """
    cut = text[:most]
    if not cut.isprintable():
        cut = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in cut)[:most]
    return cut + "…" if len(text) > most else cut


def safe_cell(text: str, most: int = 200) -> str:
    """As `safe`, for a cell of a table that a spreadsheet may open: a leading ``=``, ``+``, ``-`` or ``@`` would start
    a formula there, so an apostrophe is put before it, unless the text is a number.
    """
    cell = safe(text, most)
    if not text.lstrip().startswith(FORMULA_STARTS):
        return cell
    try:
        float(text)
    except ValueError:
        return f"'{cell}"
    return cell
