"""Words and tables for people."""

from collections.abc import Mapping, Sequence
from typing import Any

from bestbefore.domain.printable import printable

__all__ = ["counts", "moment", "printable", "rows_text", "size", "table"]

_BYTES = ("B", "kB", "MB", "GB", "TB", "PB")


def size(count: float) -> str:
    """*count* bytes in a readable unit (powers of 1,000)."""
    unit = 0
    while count >= 1000 and unit < len(_BYTES) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:,.0f} {_BYTES[unit]}" if unit == 0 else f"{count:,.1f} {_BYTES[unit]}"


def moment(text: str | None) -> str:
    """An instant of a document, for people."""
    return "-" if text is None else text.replace("T", " ").replace("Z", " UTC")


def counts(numbers: Mapping[str, int]) -> str:
    """``3 deleted, 1 absent`` from a mapping; ``nothing`` from an empty one."""
    return ", ".join(f"{n:,} {name}" for name, n in numbers.items() if n) or "nothing"


def rows_text(
    rows: Mapping[str, int], dependents: Mapping[str, int], changed: Mapping[str, int]
) -> str:
    """``990 rows deleted, 10 rows blocked; with them 30 of order_lines; 5 of notes changed``"""
    texts = [counts({f"rows {what}": n for what, n in rows.items()}) if rows else "no rows"]
    if dependents:
        removed = counts({f"of {printable(name)}": n for name, n in dependents.items()})
        texts.append(f"with them {removed}")
    if changed:
        texts.append(counts({f"of {printable(name)} changed": n for name, n in changed.items()}))
    return "; ".join(texts)


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns as wide as their widest cell; numbers to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    right = [all(isinstance(row[i], int) for row in rows) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(row, widths, right, strict=True)
        )
        return "  ".join(padded).rstrip()

    return "\n".join(map(line, [header, *cells]))


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else printable(str(value))
