"""Tokens, deliveries and answers in the state database."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.state import runs as run_rows
from bestbefore.adapters.state.database import Database, maybe_moment, micros, moment
from bestbefore.adapters.state.replay import replays
from bestbefore.adapters.state.schema import answers, deliveries, tokens
from bestbefore.domain.access import Scope, Token, scopes_text
from bestbefore.ports.access import Begun, Reply
from bestbefore.ports.ledger import LedgerError, NotInLedger


@replays()
class SqlAccess:
    """`bestbefore.ports.access.Access` on a SQL database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def tokens(self) -> Sequence[Token]:
        with self._db.read() as connection:
            found = connection.execute(sa.select(tokens).order_by(tokens.c.name))
            return [token_record(row) for row in found]

    def token(self, digest: bytes, now: datetime) -> Token | None:
        with self._db.read() as connection:
            row = connection.execute(
                sa.select(tokens).where(
                    tokens.c.digest == digest,
                    sa.or_(tokens.c.until.is_(None), tokens.c.until > micros(now)),
                )
            ).one_or_none()
        return None if row is None else token_record(row)

    def add_token(self, token: Token, digest: bytes) -> None:
        scopes = scopes_text(token.scopes)
        insert = (
            self._db.insert(tokens)
            .values(
                name=token.name,
                digest=digest,
                scopes=scopes,
                until=micros(token.until) if token.until else None,
                by=token.by,
                at=micros(token.at),
            )
            .on_conflict_do_nothing(index_elements=["name"])
            .returning(tokens.c.name)
        )
        with self._db.write() as connection:
            if connection.execute(insert).first() is None:
                raise LedgerError(
                    f"token {token.name}: there is one of that name; choose another name, or "
                    f"`bestbefore token revoke {token.name}` first"
                )
            detail = f"{token.name}: {scopes}"
            run_rows.note(connection, "token", detail, token.by, token.at)

    def revoke_token(self, name: str, by: str, now: datetime) -> Token:
        with self._db.write() as connection:
            row = connection.execute(
                sa.delete(tokens).where(tokens.c.name == name).returning(*tokens.c)
            ).one_or_none()
            if row is None:
                raise NotInLedger(
                    f"token {name}: there is none of that name; `bestbefore token list` shows them"
                )
            run_rows.note(connection, "token revoked", name, by, now)
        return token_record(row)


@replays("forget")
class SqlDeliveries:
    """`bestbefore.ports.access.Deliveries` on a SQL database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def first(self, sender_id: str, until: datetime, now: datetime) -> bool:
        insert = (
            self._db.insert(deliveries)
            .values(sender_id=sender_id, until=micros(until))
            .on_conflict_do_nothing(index_elements=["sender_id"])
            .returning(deliveries.c.sender_id)
        )
        with self._db.write() as connection:
            connection.execute(sa.delete(deliveries).where(deliveries.c.until <= micros(now)))
            return connection.execute(insert).first() is not None

    def forget(self, sender_id: str) -> None:
        with self._db.write() as connection:
            connection.execute(sa.delete(deliveries).where(deliveries.c.sender_id == sender_id))


@replays("finish", "forget")
class SqlAnswers:
    """`bestbefore.ports.access.Answers` on a SQL database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def begin(self, key: bytes, request: bytes, now: datetime, lease: timedelta) -> Begun:
        insert = (
            self._db.insert(answers)
            .values(key=key, request=request, until=micros(now + lease))
            .on_conflict_do_nothing(index_elements=["key"])
            .returning(answers.c.key)
        )
        with self._db.write() as connection:
            connection.execute(sa.delete(answers).where(answers.c.until <= micros(now)))
            if connection.execute(insert).first() is not None:
                return Begun(mine=True)
            row = connection.execute(sa.select(answers).where(answers.c.key == key)).one()
        reply = None if row.status is None else Reply(row.status, bytes(row.body))
        return Begun(mine=False, same=bytes(row.request) == request, reply=reply)

    def finish(self, key: bytes, request: bytes, reply: Reply, until: datetime) -> None:
        with self._db.write() as connection:
            connection.execute(
                sa.update(answers)
                .where(answers.c.key == key, answers.c.request == request)
                .values(status=reply.status, body=reply.body, until=micros(until))
            )

    def forget(self, key: bytes) -> None:
        with self._db.write() as connection:
            connection.execute(
                sa.delete(answers).where(answers.c.key == key, answers.c.status.is_(None))
            )


def token_record(row: Any) -> Token:
    """A row of ``tokens``."""
    return Token(
        row.name,
        frozenset(map(Scope, row.scopes.split(","))),
        maybe_moment(row.until),
        row.by,
        moment(row.at),
    )
