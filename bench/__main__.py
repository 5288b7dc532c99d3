"""`python -m bench [objects|commands|memory]`: all of them without a name."""

import argparse

from bench import commands, memory, objects

parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
parser.add_argument("which", nargs="*", choices=["objects", "commands", "memory", []])
parser.add_argument("--objects", type=int, default=50_000, help="objects per deletion")
parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds")
parser.add_argument("--commands", type=int, default=1_000_000, help="commands with a null store")
arguments = parser.parse_args()
which = arguments.which or ["objects", "commands", "memory"]

if "objects" in which:
    objects.measure(arguments.objects, arguments.rounds)
if "commands" in which:
    commands.measure(arguments.commands)
if "memory" in which:
    memory.measure()
