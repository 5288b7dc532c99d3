"""Configurations as a test writes them."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bestbefore.app.settings import Settings, load

Read = Callable[..., Settings]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Load a file with the given text."""

    def read(text: str, environ: Mapping[str, str] | None = None) -> Settings:
        file = tmp_path / "bestbefore.toml"
        file.write_text(text, encoding="utf-8")
        return load(file, environ or {})

    return read
