"""Places on a server: a schema of their own, which MySQL calls a database."""

from collections.abc import Sequence

import sqlalchemy as sa

from bestbefore.adapters.rows.scratch.place import PREFIX, SEED, Place
from bestbefore.domain.failure import FailureClass
from bestbefore.ports.objects import StoreError
from bestbefore.ports.tuning import ScratchRefused


class PostgresPlace(Place):
    """A schema. Where the real table draws numbers from a sequence, the copy has one of its own."""

    offset = "+00"

    def create(self) -> None:
        try:
            self.run(f"CREATE SCHEMA {self.named(self.name)}")
        except StoreError as error:
            raise _refused(error, "CREATE on the database") from error

    def clone(self, schema: str, table: str, called: str) -> None:
        copy = self.named(self.space, called)
        with self.connected() as connection:
            columns = sa.inspect(connection).get_columns(table, schema)
        self.run(
            f"CREATE TABLE {copy} (LIKE {self.named(schema, table)} INCLUDING CONSTRAINTS "
            "INCLUDING INDEXES INCLUDING GENERATED INCLUDING STORAGE)"
        )
        for number, column in enumerate(columns):
            default = column["default"]
            if column.get("identity") or "nextval(" in (default or ""):
                sequence = self.named(self.space, f"{called}_{number}")
                self.run(f"CREATE SEQUENCE {sequence}")
                default = f"nextval('{sequence.replace(chr(39), chr(39) * 2)}'::regclass)"
            if default and not column.get("computed"):
                name = self.named(column["name"])
                self.run(f"ALTER TABLE {copy} ALTER {name} SET DEFAULT {default}")

    def seed(self, table: str, columns: Sequence[str]) -> None:
        copy, names = self.named(self.space, table), ", ".join(map(self.named, columns))
        self.run(
            f"CREATE TABLE {self.named(self.space, SEED)} AS SELECT {names} FROM {copy} "  # noqa: S608
            "WITH NO DATA"
        )

    def drop(self) -> None:
        self.run(f"DROP SCHEMA IF EXISTS {self.named(self.name)} CASCADE")

    def empty(self, connection: sa.Connection, table: str) -> None:
        connection.exec_driver_sql(f"TRUNCATE {self.named(self.space, table)}")

    def settle(self, engine: sa.Engine, table: str) -> None:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql(f"VACUUM (ANALYZE) {self.named(self.space, table)}")


class MysqlPlace(Place):
    """A database, which is what MySQL calls a schema."""

    def create(self) -> None:
        try:
            self.run(f"CREATE DATABASE {self.named(self.name)}")
        except StoreError as error:
            raise _refused(error, f"ALL on `{PREFIX}%`.*") from error

    def clone(self, schema: str, table: str, called: str) -> None:
        copy, real = self.named(self.space, called), self.named(schema, table)
        self.run(f"CREATE TABLE {copy} LIKE {real}")

    def seed(self, table: str, columns: Sequence[str]) -> None:  # noqa: ARG002  (all, if need be)
        self.clone(self.name, table, SEED)

    def drop(self) -> None:
        self.run(f"DROP DATABASE IF EXISTS {self.named(self.name)}")

    def empty(self, connection: sa.Connection, table: str) -> None:
        connection.exec_driver_sql(f"TRUNCATE TABLE {self.named(self.space, table)}")

    def settle(self, engine: sa.Engine, table: str) -> None:
        with engine.connect() as connection:
            connection.exec_driver_sql(f"ANALYZE TABLE {self.named(self.space, table)}").all()


def _refused(error: StoreError, right: str) -> ScratchRefused:
    remedy = ""
    if error.failure.failure_class is FailureClass.PERMISSION:
        remedy = (
            f"; grant {right} to the user of this connection, as the copy has a place of its own"
        )
    return ScratchRefused(f"no place could be made for the copy: {error.failure.error}{remedy}")
