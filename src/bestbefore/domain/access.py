"""Who may do what over HTTP: scopes, tokens, and what a request is known by."""

import re
from collections.abc import Collection
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple

TOKEN_PREFIX = "bb_"  # noqa: S105  (the beginning of each, and not one)
"""What every token begins with, so that people and secret scanners know one when they see it."""

TOKEN_BYTES = 32

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class Scope(StrEnum):
    """What a caller may do. Who may operate may read; a trigger may neither."""

    READ = "read"
    OPERATE = "operate"
    TRIGGER = "trigger"


class Token(NamedTuple):
    """A token as it is kept: everything but itself. Without ``until`` it ends when revoked."""

    name: str
    scopes: frozenset[Scope]
    until: datetime | None
    by: str
    at: datetime


class Principal(NamedTuple):
    """Who a request comes from. ``name`` is what the audit records of it."""

    name: str
    scopes: frozenset[Scope]

    def may(self, scope: Scope) -> bool:
        """Whether a caller with these scopes may do what needs *scope*."""
        return scope in self.scopes or (scope is Scope.READ and Scope.OPERATE in self.scopes)


def token_text(chance: bytes) -> str:
    """The token made of `TOKEN_BYTES` random bytes."""
    return TOKEN_PREFIX + chance.hex()


def token_digest(text: str) -> bytes:
    """What is kept of a token. It is as random as the hash is long, so nothing is added to it."""
    return sha256(text.encode()).digest()


def token_name_problem(name: str) -> str | None:
    """Why no token may be called *name*; None where one may."""
    if _NAME.fullmatch(name):
        return None
    return (
        "expected at most 64 lower-case letters, digits, dots, underscores and hyphens, a letter "
        "or digit first"
    )


def scopes_text(scopes: Collection[Scope]) -> str:
    """*scopes* in one order, as they are stored and shown."""
    return ",".join(scope for scope in Scope if scope in scopes)
