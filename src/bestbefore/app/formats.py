"""Formats of files, by the names that policies and people give them."""

from bestbefore.adapters.files.jsonl import JsonLines
from bestbefore.ports.evidence import EvidenceFile
from bestbefore.ports.files import RowFormat
from bestbefore.ports.ledger import LedgerError


def row_format(name: str) -> RowFormat:
    """The format that policies call *name*; raises LedgerError without its library."""
    if name == "jsonl":
        return JsonLines()
    # Imported here: the library is an extra, and takes a while to import.
    try:
        from bestbefore.adapters.files.parquet import Parquet
    except ImportError as error:
        raise LedgerError(
            f'archive.format = "{name}" needs {error.name}: pip install "bestbefore[parquet]"'
        ) from error
    return Parquet()


def evidence_parquet() -> EvidenceFile:
    """Evidence as Parquet; raises LedgerError without its library."""
    try:
        from bestbefore.adapters.files.evidence import EvidenceParquet
    except ImportError as error:
        raise LedgerError(
            f'--format parquet needs {error.name}: pip install "bestbefore[parquet]"'
        ) from error
    return EvidenceParquet()
