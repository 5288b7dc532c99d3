"""Fixtures live in ``tests/support``, one module per thing they bring up."""

pytest_plugins = [
    "support.faults",
    "support.forks",
    "support.seaweed",
    "support.moto",
    "support.cli",
    "support.settings",
    "support.directory",
    "support.postgresql",
    "support.pgbouncer",
    "support.versions",
    "support.stacks",
    "support.mariadb",
    "support.row_databases",
    "support.cli_shop",
    "support.row_archives",
    "support.served",
    "support.estate",
]
