"""Tell what one seed does, or run many."""

import argparse
import sys

from simulation.soak import cores, soak, story

_SHOWN = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("seed", type=int, nargs="?", help="tell what this seed does")
    parser.add_argument("--seeds", type=int, default=100_000, help="run so many (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="from this one on (%(default)s)")
    parser.add_argument("--jobs", type=int, default=cores(), help="processes (%(default)s)")
    asked = parser.parse_args()
    if asked.seed is not None:
        told = list(story(asked.seed))
        sys.stdout.write("\n".join(told) + "\n")
        return 0 if told[-1].endswith("every promise holds") else 1
    found = soak(asked.first, asked.seeds, asked.jobs, lambda line: print(line, flush=True))  # noqa: T201
    if found:
        first = ", ".join(str(seed) for seed, _ in sorted(found)[:_SHOWN])
        sys.stdout.write(f"{len(found)} seeds failed, the first of them: {first}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
