"""Looking at rows on every database."""

from bestbefore.contracts.row_references import RowReferencesContract
from bestbefore.contracts.row_times import RowTimesContract
from bestbefore.contracts.rows import RowReaderContract


class TestReading(RowReaderContract):
    pass


class TestTimes(RowTimesContract):
    pass


class TestReferences(RowReferencesContract):
    pass
