"""`token add|list|revoke`."""

import secrets
from datetime import datetime
from pathlib import Path

import click

from bestbefore.cli.context import Moment, emit, fail, opened, verb
from bestbefore.cli.text import printable, table
from bestbefore.domain.access import (
    TOKEN_BYTES,
    Scope,
    Token,
    token_digest,
    token_name_problem,
    token_text,
)
from bestbefore.domain.identity import instant
from bestbefore.read.documents import token_document


@click.group()
def token() -> None:
    """Who may ask over HTTP. Tokens are kept as hashes: each is shown once."""


@token.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice([scope.value for scope in Scope]),
    multiple=True,
    required=True,
    help="What it may do; may be repeated. Who may operate may read.",
)
@click.option("--until", type=Moment(), help="When it ends by itself.")
@verb
def add(
    config: Path, as_json: bool, name: str, scopes: tuple[str, ...], until: datetime | None
) -> None:
    """Make a token called NAME and print it, once."""
    if (problem := token_name_problem(name)) is not None:
        fail(f"token {name}: {problem}")
    text = token_text(secrets.token_bytes(TOKEN_BYTES))
    with opened(config) as system:
        now = system.clock.now()
        if until is not None and until <= now:
            fail(f"--until {instant(until)} has passed; it is {instant(now)} now")
        made = Token(name, frozenset(map(Scope, scopes)), until, system.person, now)
        system.access.add_token(made, token_digest(text))
    emit(as_json, {**token_document(made), "token": text}, lambda: text)


@token.command("list")
@verb
def list_(config: Path, as_json: bool) -> None:
    """List tokens, without themselves."""
    with opened(config) as system:
        documents = [token_document(one) for one in system.access.tokens()]
    rows = [
        (d["name"], ",".join(d["scopes"]), d["until"], printable(d["by"]), d["at"])
        for d in documents
    ]
    emit(
        as_json,
        documents,
        lambda: table(("token", "scopes", "until", "by", "at"), rows) if rows else "no tokens",
    )


@token.command()
@click.argument("name")
@verb
def revoke(config: Path, as_json: bool, name: str) -> None:
    """End the token NAME at once, for every process."""
    with opened(config) as system:
        revoked = system.access.revoke_token(name, system.person, system.clock.now())
    emit(as_json, token_document(revoked), lambda: f"revoked token {name}")
