"""Scheduled data cleanup that proves what it did."""
