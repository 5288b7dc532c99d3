"""Files of a report: there is a whole one, or none."""

import os
from pathlib import Path


def writable(file: Path) -> None:
    """Raise OSError unless *file* can be written, before anything is done for it."""
    if file.is_dir():
        raise IsADirectoryError(0, "it is a folder", str(file))
    beside = _beside(file)
    with beside.open("x"):
        pass
    beside.unlink()


def write(file: Path, text: str) -> None:
    """Put *text* in *file*, in place of what was there. Raises OSError."""
    beside = _beside(file)
    try:
        with beside.open("w", encoding="utf-8") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)


def _beside(file: Path) -> Path:
    return file.with_name(f".{file.name}.{os.getpid()}")
