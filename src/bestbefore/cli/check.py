"""`init` and `check`."""

from pathlib import Path

import click

from bestbefore.app.check import findings
from bestbefore.app.template import template
from bestbefore.cli.context import FAILING, emit, fail, opened, verb
from bestbefore.cli.text import printable
from bestbefore.domain.finding import Level


@click.command()
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("bestbefore.toml"),
    show_default=True,
    help="The file to write.",
)
def init(config: Path) -> None:
    """Write a commented configuration to start from."""
    try:
        with config.open("x", encoding="utf-8") as file:
            file.write(template())
    except FileExistsError:
        fail(f"{config} exists and was left as it is; name another file with --config")
    except OSError as error:
        fail(f"{config} cannot be written: {error.strerror}")
    click.echo(f"wrote {config}; edit it, then run `bestbefore check`")


@click.command()
@click.option("--queue", is_flag=True, help="Look at the queue as well.")
@verb
def check(config: Path, as_json: bool, queue: bool) -> None:
    """Validate the configuration, connect, and probe what the stores allow and honour.

    Deletes nothing. Exit status 1 if anything would keep a policy from running.
    """
    with opened(config) as system:
        found = findings(system, queue=queue)
    ok = all(finding.level is not Level.ERROR for finding in found)
    document = {
        "ok": ok,
        "findings": [
            {"code": f.code, "level": f.level.value, "message": f.message, "remedy": f.remedy}
            for f in found
        ],
    }
    lines = [
        f"{f.level.value:<8}{f.code}: {printable(f.message)}"
        + (f"\n        {printable(f.remedy)}" if f.remedy else "")
        for f in found
    ]
    emit(as_json, document, lambda: "\n".join([*lines, "ok" if ok else "not ok"]))
    raise SystemExit(0 if ok else FAILING)
