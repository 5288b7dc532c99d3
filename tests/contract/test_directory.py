"""The directory adapter over a folder of this machine's own disk."""

from pathlib import Path

import pytest

from bestbefore.contracts.objects import ObjectStoreContract, ObjectWorld
from support.directory import directory


class TestDirectory(ObjectStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectWorld:
        return directory(tmp_path)
