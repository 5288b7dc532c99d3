"""`python -m bench [NAME ...]`: all of them without a name."""

import argparse

from bench import archive, commands, directory, memory, objects, versions

_ALL = ["objects", "archive", "directory", "versions", "commands", "memory"]

parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
parser.add_argument("which", nargs="*", choices=[*_ALL, []])
parser.add_argument("--objects", type=int, default=50_000, help="objects, or files, per deletion")
parser.add_argument("--archived", type=int, default=5_000, help="objects per archiving")
parser.add_argument("--versions", type=int, default=20_000, help="versions per purge")
parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds")
parser.add_argument("--commands", type=int, default=1_000_000, help="commands with a null store")
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
if "memory" in which:
    memory.measure()
