"""Queues of somebody else's, one folder or file each."""
