"""Questions to someone at a terminal."""

import signal
import sys

import click


def someone_is_there() -> bool:
    """Whether a question would be read and could be answered."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str) -> bool:
    """Ask *question* on stderr; only y and yes are a yes. Ctrl-C, SIGTERM and the end of the input
    are a no, as is everything else."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number in before:
            signal.signal(number, signal.default_int_handler)
        click.echo(f"{question} [y/N] ", nl=False, err=True)
        said = sys.stdin.readline()
    except KeyboardInterrupt:
        click.echo(err=True)
        return False
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return said.strip().lower() in ("y", "yes")
