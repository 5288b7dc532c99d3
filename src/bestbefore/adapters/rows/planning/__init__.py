"""Which rows are eligible, in which batches, and what else deleting them removes or changes."""
