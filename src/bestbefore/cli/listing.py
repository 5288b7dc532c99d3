"""`--list`: every target of a dry run, one line each."""

import json
import sys
from collections.abc import Iterable
from itertools import islice
from typing import Any

import click

from bestbefore.cli.previewed import target_text
from bestbefore.domain.preview import Selected
from bestbefore.read.documents import Document
from bestbefore.read.previews import target_document

ALL = 0
_DIGITS = 18
_BARE, _SPELT = "--list", f"--list={ALL}"


class ListsTargets(click.Command):
    """A command with `--list[=N]`. Without a number it is all; the next word is never taken for
    one, as it may be the policy's name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        spelt = [_SPELT if word == _BARE else word for word in args[:end]]
        return super().parse_args(ctx, spelt + args[end:])


class Amount(click.ParamType[int]):
    """How many targets are listed: a number of at least 1, or nothing for all of them."""

    name = "n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if not (text.isascii() and text.isdigit()) or len(text) > _DIGITS:
            self.fail(f"{text!r} is not a number of targets, such as 100", param, ctx)
        return int(text)


def print_targets(targets: Iterable[Selected], most: int, *, as_json: bool) -> None:
    """Print *targets* as they come, at most *most* of them (all for `ALL`)."""
    write = sys.stdout.write
    for target in islice(targets, most or None):
        document = target_document(target)
        write(f"{json.dumps(document) if as_json else target_text(document)}\n")


def print_summary(document: Document) -> None:
    """Print *document* as the last of JSON Lines."""
    click.echo(json.dumps({"kind": "summary"} | document))
