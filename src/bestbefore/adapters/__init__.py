"""Vendor code, and nothing else."""
