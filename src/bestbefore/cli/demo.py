"""`demo`."""

import click


@click.command()
def demo() -> None:
    """Everything above on sample data, in a temporary folder."""
