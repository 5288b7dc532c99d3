"""Copies of the shape of a table, filled with made-up rows, to try batch sizes on."""

from bestbefore.adapters.rows.scratch.copy import TableCopy, copy_of
from bestbefore.adapters.rows.scratch.places import leftovers

__all__ = ["TableCopy", "copy_of", "leftovers"]
