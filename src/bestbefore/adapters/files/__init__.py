"""Formats of files that archived rows are written to."""
