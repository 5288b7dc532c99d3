"""Rows on their way into an archive and back."""
