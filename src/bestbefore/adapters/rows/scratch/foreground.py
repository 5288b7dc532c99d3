"""An application that writes to the current rows of a copy."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.rows.scratch.place import Place
from bestbefore.adapters.rows.scratch.synthetic import Recipe


@dataclass(frozen=True, slots=True)
class Foreground:
    """`bestbefore.ports.tuning.ForegroundWriter`."""

    place: Place
    table: str
    recipe: Recipe

    def connect(self) -> Callable[[int], float | None]:
        recipe, statements = self.recipe, statements_for(self.place, self.table, self.recipe)
        connection = self.place.engine().connect()

        def write(number: int) -> float | None:
            if recipe.touched is not None and number % 2:
                statement: sa.Insert | sa.Update = statements.update
                row = recipe.key_of(recipe.current(number))
                values = statements.bound(row) | {"to": recipe.touched.value(number)}
            else:
                statement = statements.insert
                values = statements.bound(recipe.row(recipe.rows + number))
            began = monotonic()
            try:
                with connection.begin():
                    connection.execute(statement, values)
                    took = monotonic() - began
            except sa.exc.DBAPIError as error:
                if error.connection_invalidated:
                    raise
                return None
            return took

        return write


@dataclass(frozen=True, slots=True)
class Statements:
    """What writes to a copy; ``update`` changes the ``touched`` column, if there is one, to ``to``.

    ``places`` are names for the values of columns that every driver can bind.
    """

    insert: sa.Insert
    update: sa.Update
    places: dict[str, str]

    def bound(self, row: dict[str, Any]) -> dict[str, Any]:
        """*row* as the statements take it."""
        return {self.places[name]: value for name, value in row.items()}


def statements_for(place: Place, table: str, recipe: Recipe) -> Statements:
    """The statements for rows of *recipe*, whose values go to the database as they are."""
    names = [*(column.name for column in recipe.columns), recipe.timestamp]
    columns: dict[str, sa.ColumnClause[Any]] = {name: sa.column(name) for name in names}
    places = {name: f"p{number}" for number, name in enumerate(names)}
    there = sa.table(table, *columns.values(), schema=place.space)
    named = [columns[name] == sa.bindparam(places[name]) for name in recipe.key]
    touched = recipe.touched.name if recipe.touched else recipe.timestamp
    return Statements(
        sa.insert(there).values({name: sa.bindparam(place) for name, place in places.items()}),
        sa.update(there).where(*named).values({touched: sa.bindparam("to")}),
        places,
    )
