"""Fixtures live in ``tests/support``, one module per thing they bring up."""

import pytest

pytest_plugins = [
    "support.faults",
    "support.forks",
    "support.seaweed",
    "support.moto",
    "support.infrai",
    "support.cli",
    "support.settings",
    "support.directory",
    "support.postgresql",
    "support.pgbouncer",
    "support.versions",
    "support.stacks",
    "support.mariadb",
    "support.rabbitmq",
    "support.row_databases",
    "support.cli_shop",
    "support.row_archives",
    "support.served",
    "support.estate",
    "support.carried",
    "support.sqs",
    "support.bull",
    "support.gates",
    "support.places",
    "support.partitioned",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that take minutes come first, so that in the end no worker waits for them alone."""
    items.sort(key=lambda item: item.get_closest_marker("takes_minutes") is None)
