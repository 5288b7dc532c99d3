"""Deleting rows on every database."""

from bestbefore.contracts.row_deleting import RowDeleterContract
from bestbefore.contracts.row_dependents import RowDependentsContract
from bestbefore.contracts.row_effects import RowEffectsContract


class TestDeleting(RowDeleterContract):
    pass


class TestDependents(RowDependentsContract):
    pass


class TestEffects(RowEffectsContract):
    pass
