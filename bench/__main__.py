"""`python -m bench [NAME ...]`: all of them without a name."""

import argparse

from bench import (
    archive,
    commands,
    dashboard,
    directory,
    memory,
    objects,
    queues,
    rows_dependents,
    rows_foreground,
    rows_mariadb,
    rows_memory,
    rows_postgresql,
    scrape,
    triggers,
    versions,
)

_ALL = [
    "objects", "archive", "directory", "versions", "commands", "memory",
    "rows", "rows-mariadb", "rows-memory", "rows-foreground", "rows-dependents", "scrape",
    "dashboard", "triggers", "queues",
]  # fmt: skip

parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
parser.add_argument("which", nargs="*", choices=[*_ALL, []])
parser.add_argument("--objects", type=int, default=50_000, help="objects, or files, per deletion")
parser.add_argument("--archived", type=int, default=5_000, help="objects per archiving")
parser.add_argument("--versions", type=int, default=20_000, help="versions per purge")
parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds")
parser.add_argument("--commands", type=int, default=1_000_000, help="commands with a null store")
parser.add_argument("--messages", type=int, default=5_000, help="messages through each broker")
parser.add_argument(
    "--rows",
    type=int,
    default=1_000_000,
    help="rows of a table, half of them old; half as many on MariaDB, ten times as many for "
    "memory, as many in each of three tables that refer to it for dependents",
)
arguments = parser.parse_args()
which = arguments.which or _ALL

if "objects" in which:
    objects.measure(arguments.objects, arguments.rounds)
if "archive" in which:
    archive.measure(arguments.archived, arguments.rounds)
if "directory" in which:
    directory.measure(arguments.objects, arguments.rounds)
if "versions" in which:
    versions.measure(arguments.versions, arguments.rounds)
if "commands" in which:
    commands.measure(arguments.commands)
if "scrape" in which:
    scrape.measure(arguments.commands)
if "dashboard" in which:
    dashboard.measure(arguments.commands)
if "triggers" in which:
    triggers.measure(arguments.commands)
if "memory" in which:
    memory.measure()
if "rows" in which:
    rows_postgresql.measure(arguments.rows, arguments.rounds)
if "rows-mariadb" in which:
    rows_mariadb.measure(arguments.rows // 2, arguments.rounds)
if "rows-memory" in which:
    rows_memory.measure(arguments.rows * 10)
if "rows-foreground" in which:
    rows_foreground.measure(arguments.rows, arguments.rounds)
if "rows-dependents" in which:
    rows_dependents.measure(arguments.rows, arguments.rounds)
if "queues" in which:
    queues.measure(arguments.messages, arguments.rounds)
