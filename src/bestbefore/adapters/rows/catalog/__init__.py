"""What a database says about a table: what refers to it, and what deleting its rows does."""
