"""Archiving rows to a table and into files, and bringing them back, on every database."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from bestbefore.adapters.files.jsonl import JsonLines
from bestbefore.adapters.files.parquet import Parquet
from bestbefore.adapters.rows import SqlRowRestorer
from bestbefore.adapters.rows.deleting import SqlRowDeleter
from bestbefore.contracts.row_archiving import RowArchiveTableContract
from bestbefore.contracts.row_filing import FilingWorld, RowFilerContract
from bestbefore.contracts.row_world import RowWorld
from bestbefore.ports.files import RowFormat
from support.row_databases import RowDatabase


class TestArchiving(RowArchiveTableContract):
    pass


class TestFiling(RowFilerContract):
    @pytest.fixture
    def filing(self, world: RowWorld, row_database: RowDatabase) -> Iterator[FilingWorld]:
        assert isinstance(world.deleter, SqlRowDeleter)
        restorer = SqlRowRestorer(row_database.url)
        yield FilingWorld(world, world.deleter, restorer)
        restorer.close()

    @pytest.mark.parametrize("form", [JsonLines(), Parquet()], ids=["jsonl", "parquet"])
    def test_every_value_comes_back_exactly_from_every_format(
        self, filing: FilingWorld, form: RowFormat
    ) -> None:
        written = replace(filing, through=lambda file: form.decode(form.encode(file)))
        self.test_every_value_comes_back_exactly(written)
