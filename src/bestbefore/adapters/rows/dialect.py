"""What the databases do each in its own way, as one interface, and what they say about a table."""

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.sql.functions import Function

from bestbefore.domain.finding import Finding

CONNECT_SECONDS = 10

Expression = sa.ColumnElement[Any]
Condition = sa.ColumnElement[bool]


class Access(NamedTuple):
    """What the connections of an engine are for, and how long they wait (seconds)."""

    read_only: bool
    lock: int
    statement: int


class Relation(NamedTuple):
    """Something with rows. ``what`` is empty for a base table, else what it is instead."""

    schema: str
    name: str
    what: str


class Family(Enum):
    """What the values of a column are, as far as keys and times are concerned."""

    INTEGER = "an integer"
    TEXT = "text"
    INSTANT = "a timestamp with time zone"
    WALL = "a timestamp without time zone"
    DAY = "a date"
    ANY = "of any type"  # SQLite: each value has a type of its own
    OTHER = "of another type"


@dataclass(frozen=True, slots=True)
class Column:
    """A column as the catalog has it. ``type`` is the full name of its type, with length or
    precision. ``charset`` and ``collation`` are None where the type has none, or its own.
    ``filled`` says that a row that is given no value there gets one all the same."""

    name: str
    type: str
    family: Family
    nullable: bool
    generated: bool = False
    collation: str | None = None
    charset: str | None = None
    filled: bool = False


class Index(NamedTuple):
    """An index over rows in the order of ``columns``; None for a part that is no whole column.

    ``whole`` says that it covers every row, is valid and ordered.
    """

    name: str
    columns: Sequence[str | None]
    unique: bool
    primary: bool
    whole: bool


class ForeignKey(NamedTuple):
    """A foreign key by names: ``columns`` of the child refer to ``referred`` of the parent.

    ``on_delete`` is as in SQL: ``NO ACTION``, ``RESTRICT``, ``CASCADE``, ``SET NULL`` or
    ``SET DEFAULT``. ``indexed`` says that an index of the child begins with ``columns``. ``unique``
    says that ``referred`` hold all columns of a unique index of the parent. ``collations`` (one per
    column, or empty) are those that the database compares both with, where they are not the
    child's own; None where none matters, as for numbers. ``converts`` says that values of the
    child are converted to what the parent's are before they are compared. ``relations`` are the
    OIDs of the partitions that it refers to, where it does not refer to the whole table. ``unseen``
    says why rows of the child may not be visible to us.
    """

    name: str
    schema: str
    table: str
    columns: Sequence[str]
    referred: Sequence[str]
    on_delete: str
    indexed: bool
    unique: bool = True
    collations: Sequence[str | None] = ()
    converts: bool = False
    relations: Sequence[int] = ()
    unseen: str | None = None


class Below(NamedTuple):
    """A table whose rows are rows of another table too: a partition of it, or one that inherits
    from it, over any number of steps."""

    oid: int
    schema: str
    name: str
    is_partition: bool


class Unusable(Exception):
    """A column cannot be in a key. The message says why."""


class Dialect(ABC):
    """One kind of database. Methods that take a connection each ask one question."""

    folds: bool
    """Whether names that differ only in case are the same column."""

    asks_recursively = True
    """Whether a recursive question can be asked about each row of a statement."""

    keeps_itself = False
    """Whether a row that refers to itself, by a foreign key that removes or changes nothing, cannot
    be deleted."""

    locks_entries = False
    """Whether a row that is locked can still be referred to by another key than its primary one,
    as only the entries of the indexes that were read are locked."""

    times_are_text = False
    """Whether there are no types for times, so that all of them are written as text."""

    rest = 0.0
    """Seconds to leave to others after a transaction that wrote."""

    # -- connections

    @abstractmethod
    def engine(self, url: sa.URL, access: Access) -> sa.Engine:
        """An engine whose transactions are in UTC and within *access*; see `Database`."""

    def walks(self, connection: sa.Connection) -> None:  # noqa: B027  (most need no telling)
        """Have the rest of this transaction use indexes wherever there are some."""

    joins_ranges = False
    """Whether a join has to be told the range of what it looks for, so that it reads no more."""

    def joins(self, connection: sa.Connection) -> None:  # noqa: B027  (most need no telling)
        """Have the rest of this transaction join along indexes."""

    @abstractmethod
    def place(self, connection: sa.Connection) -> str:
        """Server and database, without secrets, as the beginning of a URL."""

    def notes(self, connection: sa.Connection) -> Sequence[Finding]:  # noqa: ARG002
        """What people should know who use this database besides."""
        return ()

    @abstractmethod
    def now(self, connection: sa.Connection) -> datetime:
        """The database's clock."""

    # -- the catalog

    @abstractmethod
    def fold(self, name: str) -> str:
        """What the database makes of a *name* that is not quoted."""

    @abstractmethod
    def relations(
        self, connection: sa.Connection, schemas: Sequence[str] | None, names: Sequence[str]
    ) -> Sequence[Relation]:
        """What has one of *names*, in one of *schemas*; None stands for where names are looked up
        that have no schema."""

    @abstractmethod
    def columns(self, connection: sa.Connection, schema: str, table: str) -> Sequence[Column]:
        """The columns of a table, in order."""

    @abstractmethod
    def indexes(self, connection: sa.Connection, schema: str, table: str) -> Sequence[Index]:
        """The indexes of a table, its primary key among them."""

    @abstractmethod
    def foreign_keys(
        self, connection: sa.Connection, schema: str, table: str
    ) -> Sequence[ForeignKey]:
        """Foreign keys of any table, in any schema, that refer to a table.

        Raises TableRefused where one of them cannot work. Some may be missing where
        `hidden_foreign_keys` says so.
        """

    def hidden_foreign_keys(
        self,
        connection: sa.Connection,  # noqa: ARG002
        schema: str,  # noqa: ARG002
        table: str,  # noqa: ARG002
    ) -> str | None:
        """Which foreign keys that refer to a table `foreign_keys` does not show to this user, or
        why that cannot be known, and the GRANT that helps; None where it surely shows all."""
        return None

    def hidden_triggers(
        self,
        connection: sa.Connection,  # noqa: ARG002
        schema: str,  # noqa: ARG002
        table: str,  # noqa: ARG002
    ) -> str | None:
        """Why triggers of a table may be hidden from this user, and the GRANT that shows them; None
        where all of them are surely seen."""
        return None

    def below(self, connection: sa.Connection, schema: str, table: str) -> Sequence[Below]:  # noqa: ARG002
        """Partitions and inheritance children of a table, over any number of steps."""
        return ()

    def row_security(self, connection: sa.Connection, schema: str, table: str) -> bool:  # noqa: ARG002
        """Whether row security decides which rows of a table we see and delete."""
        return False

    @abstractmethod
    def triggers(
        self, connection: sa.Connection, schema: str, table: str, event: str
    ) -> Sequence[str]:
        """What the database runs when rows of a table, or of one `below` it, meet *event*, which is
        ``DELETE`` or ``UPDATE``: triggers and rules, each as ``table: name``."""

    # -- values

    @abstractmethod
    def keyable(self, column: Column) -> None:
        """Raises Unusable where values of *column* cannot go through text and back."""

    @abstractmethod
    def rendered(self, expression: Expression, column: Column) -> Expression:
        """*expression*, a value of *column*, as what `text` takes."""

    def text(self, value: Any) -> str:
        """A value that `rendered` gave, as text."""
        return str(value)

    def native(self, text: str, column: Column) -> Any:  # noqa: ARG002
        """What the driver is given for the value of *column* that was rendered as *text*.

        Raises ValueError where there can be none; not every database is asked before it knows.
        """
        return text

    def typed(self, given: Expression, column: Column) -> Expression:  # noqa: ARG002
        """*given*, which is `native`, as a value of *column*, for the database to compare."""
        return given

    def value(self, text: str, column: Column) -> Expression:
        """The value of *column* that was rendered as *text*. Raises ValueError as `native`."""
        return self.typed(constant(self.native(text, column)), column)

    def sound(self, expression: Expression, column: Column) -> Condition | None:  # noqa: ARG002
        """What holds for the key column *expression* unless a row cannot be walked to; None where
        every row can."""
        return None

    # -- conditions

    def at_least(
        self, columns: Sequence[Expression], values: Sequence[Expression], *, strictly: bool
    ) -> Condition:
        """*columns* >= *values* (or >, *strictly*) as a whole, so that an index is used."""
        return _whole(columns, operator.gt if strictly else operator.ge, values)

    def at_most(
        self, columns: Sequence[Expression], values: Sequence[Expression], *, strictly: bool
    ) -> Condition:
        """*columns* <= *values* (or <, *strictly*), likewise."""
        return _whole(columns, operator.lt if strictly else operator.le, values)

    @abstractmethod
    def moment(self, at: datetime, column: Column) -> Expression:
        """*at*, to be compared with values of *column*, or with `read_iso` of it.

        It is in UTC, and naive for wall times and days.
        """

    def real(self, expression: Expression, column: Column) -> Condition | None:  # noqa: ARG002
        """What holds for a wall time or day unless there is no such one; None where the database
        would not have taken it."""
        return None

    @abstractmethod
    def read_iso(self, column: Expression, *, local: bool) -> Expression:
        """What a text column holds in ISO 8601, to be compared with a `moment`; NULL where it
        cannot be read, never an error. A day stands for its last moment.

        *Local* texts have no offset, and are compared with a naive moment.
        """

    @abstractmethod
    def sorted(
        self,
        connection: sa.Connection,
        columns: Sequence[tuple[sa.Column[Any], Column]],
        ends: Sequence[Sequence[str]],
    ) -> Sequence[int]:
        """The places of *ends* (texts, one per column) in the order of *columns*."""

    @abstractmethod
    def full_scan(
        self, connection: sa.Connection, statement: sa.Select[Any], table: sa.Table
    ) -> str | None:
        """How *statement* would go through all of *table*, as the database puts it; None where it
        uses an index to find what it wants."""

    def walking(
        self,
        select: sa.Select[Any],
        table: sa.Table,  # noqa: ARG002
        index: str | None,  # noqa: ARG002
    ) -> sa.Select[Any]:
        """*select* along *index* of *table*, where the database has to be told so."""
        return select


def _whole(
    columns: Sequence[Expression],
    compare: Callable[[Any, Any], Condition],
    values: Sequence[Expression],
) -> Condition:
    if len(columns) == 1:
        return compare(columns[0], values[0])
    return compare(sa.tuple_(*columns), sa.tuple_(*values))


def constant(value: Any) -> Expression:
    """*value* as it is, of whichever type the statement around it makes of it."""
    return sa.literal(value, sa.types.NullType())


def cast(expression: Expression, to: str) -> Expression:
    """*expression* as the type that the database calls *to*."""
    return Function("CAST", expression.op("AS")(sa.literal_column(to)))


def in_utc(moment: datetime) -> datetime:
    """*moment*, which a driver gave without a zone although it is in UTC."""
    return moment.replace(tzinfo=UTC)


def explained(
    connection: sa.Connection, how: str, statement: sa.Select[Any]
) -> sa.CursorResult[Any]:
    """What the database answers to *how* (an EXPLAIN) before *statement*."""
    compiled = statement.compile(connection)
    values = compiled.params
    given = [values[name] for name in compiled.positiontup or ()]
    return connection.exec_driver_sql(
        f"{how} {compiled}", tuple(given) if compiled.positional else values
    )
