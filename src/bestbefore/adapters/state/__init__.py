"""Ledger, runs, slots and the embedded queue on a SQL database."""
