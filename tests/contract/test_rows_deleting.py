"""Deleting rows on every database."""

from bestbefore.contracts.row_deleting import RowDeleterContract
from bestbefore.contracts.row_dependents import RowDependentsContract


class TestDeleting(RowDeleterContract):
    pass


class TestDependents(RowDependentsContract):
    pass
