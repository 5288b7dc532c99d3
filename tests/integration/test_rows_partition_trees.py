"""What keeps a partition from being removed as a whole, found before anything is detached."""

import secrets
from collections.abc import Iterator
from dataclasses import replace

import pytest

from bestbefore.adapters.rows.catalog import partition_tree
from bestbefore.domain.failure import Failure
from bestbefore.domain.finding import Level
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import Effect, Partitions, RowSource
from bestbefore.ports.rows import TableRefused, Whole
from support.partitioned import FEBRUARY, JANUARY, SOURCE, MonthlyTable

DROP, DETACH = (replace(SOURCE, partitions=one) for one in (Partitions.DROP, Partitions.DETACH))
NOTED = (
    "CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS"
    " 'BEGIN RAISE EXCEPTION ''says the shop''; END'"
)
SPLIT_JANUARY = (
    f'DROP TABLE "{JANUARY}"',
    f'CREATE TABLE "{JANUARY}" PARTITION OF updates'
    " FOR VALUES FROM ('2026-01-01+00') TO ('2026-02-01+00') PARTITION BY LIST (id)",
    f'CREATE TABLE early PARTITION OF "{JANUARY}" DEFAULT PARTITION BY RANGE (at, id)',
    "CREATE TABLE leaf PARTITION OF early DEFAULT",
    "INSERT INTO updates SELECT day, '2026-01-01+00'::timestamptz + day * interval '1 day'"
    " FROM generate_series(0, 30) day",
)
LEAF = "leaf"

DEPENDENTS = {
    "a view": [f'CREATE VIEW r AS TABLE "{JANUARY}"'],
    "a materialized view over views": [
        f'CREATE VIEW r AS TABLE "{JANUARY}"',
        "CREATE MATERIALIZED VIEW r2 AS TABLE r",
    ],
    "a function with a body of SQL": [
        "CREATE FUNCTION r() RETURNS bigint LANGUAGE SQL"
        f' BEGIN ATOMIC TABLE "{JANUARY}"; SELECT 1; END'
    ],
    "a function of its rows": [
        f"CREATE FUNCTION r(one \"{JANUARY}\") RETURNS bigint LANGUAGE SQL AS 'SELECT 1'"
    ],
    "a column of its rows": [f'CREATE TABLE r (one "{JANUARY}")'],
    "a rule of another table": [
        "CREATE TABLE r (id bigint)",
        f'CREATE RULE r AS ON INSERT TO r DO ALSO TABLE "{JANUARY}"',
    ],
    "a policy of another table": [
        "CREATE TABLE r (id bigint)",
        f'CREATE POLICY r ON r USING (EXISTS (TABLE "{JANUARY}"))',
    ],
    "a default that uses its sequence": [
        f'CREATE SEQUENCE s OWNED BY "{JANUARY}".id',
        "CREATE TABLE r (id bigint DEFAULT nextval('s'))",
    ],
    "a publication of it": [f'CREATE PUBLICATION "r {{}}" FOR TABLE "{JANUARY}"'],
}
"""What would refuse the DROP, or be changed by it, and is nothing to a DELETE. Each names r."""

WATCHES = {
    "a trigger": [
        NOTED,
        f'CREATE TRIGGER r BEFORE DELETE ON "{JANUARY}" FOR EACH ROW EXECUTE FUNCTION noted()',
    ],
    "a trigger of a statement": [
        NOTED,
        f'CREATE TRIGGER r AFTER DELETE ON "{JANUARY}" EXECUTE FUNCTION noted()',
    ],
    "a rule": [f'CREATE RULE r AS ON DELETE TO "{JANUARY}" DO INSTEAD NOTHING'],
    "row security": [
        f'ALTER TABLE "{JANUARY}" ENABLE ROW LEVEL SECURITY',
        f'CREATE POLICY r ON "{JANUARY}" USING (id > 5)',
    ],
    "a foreign key": [
        f'CREATE TABLE r (id bigint, at timestamptz, FOREIGN KEY (at, id) REFERENCES "{JANUARY}"'
        " ON DELETE CASCADE)"
    ],
    "a foreign key of a partitioned table": [
        "CREATE TABLE r (id bigint, at timestamptz, FOREIGN KEY (at, id)"
        f' REFERENCES "{JANUARY}" ON DELETE SET NULL) PARTITION BY LIST (id)',
        "CREATE TABLE r1 PARTITION OF r FOR VALUES IN (1)",
    ],
    "a foreign key of a younger month": [
        f'ALTER TABLE "updates 2026-04" ADD FOREIGN KEY (at, id) REFERENCES "{JANUARY}" NOT VALID'
    ],
}
"""What a DELETE of rows of the partition has to do with."""


def _dependents(kind: str, months: MonthlyTable, of: str = JANUARY) -> list[str]:
    return [one.format(months.schema).replace(JANUARY, of) for one in DEPENDENTS[kind]]


@pytest.fixture
def owner(months: MonthlyTable) -> Iterator[str]:
    """A role that owns the schema of the table, and nothing in it."""
    name = f"bb_{secrets.token_hex(4)}"
    months.run(f"CREATE ROLE {name} LOGIN", f"GRANT ALL ON SCHEMA {months.schema} TO {name}")
    months.run(f"GRANT SELECT, DELETE ON ALL TABLES IN SCHEMA {months.schema} TO {name}")
    yield name
    months.run(f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}")


@pytest.fixture(autouse=True)
def _no_publications(months: MonthlyTable) -> Iterator[None]:
    """They are of the whole database, which outlives the test."""
    yield
    for name in months.ask("SELECT quote_ident(pubname) FROM pg_publication"):
        months.run(f"DROP PUBLICATION {name}")


@pytest.mark.parametrize("kind", DEPENDENTS)
def test_what_depends_on_one_partition_has_its_rows_removed_in_batches_and_drops_the_others(
    months: MonthlyTable, kind: str
) -> None:
    """S-PART-01."""
    months.run(*_dependents(kind, months))
    found = months.whole()
    assert [batch.rows for batch in found.batches] == [28]
    january, march = months.slice(apart=found.apart), months.slice(apart=found.apart)[1:]
    assert sum(batch.rows for batch in january) == 31 + 14
    assert march == []  # one batch holds them all

    for batch in (*found.batches, *january):
        effect = months.remove(batch)
        assert isinstance(effect, Effect)
        assert effect.rows == batch.rows
    assert months.tables() == [JANUARY, "updates 2026-03", "updates 2026-04"]
    assert months.ask("SELECT count(*) FROM updates") == [str(120 - 31 - 28 - 14)]
    assert months.marked() == []


@pytest.mark.parametrize("kind", DEPENDENTS)
def test_what_depends_on_a_partition_refuses_its_drop_and_check_names_it_with_a_remedy(
    months: MonthlyTable, kind: str
) -> None:
    """S-PART-01."""
    months.run(*_dependents(kind, months))
    with pytest.raises(TableRefused, match=r'partitions = "drop": .*updates 2026-01.*\br\b.*'):
        months.whole(DROP)
    error = months.checked(DROP)["partition-kept-whole"]
    assert error.level is Level.ERROR
    assert error.remedy
    info = months.checked()["partition-kept-whole"]
    assert info.level is Level.INFO
    assert "batches" in info.message
    assert FEBRUARY in months.checked()["partitions-whole"].message
    # One that is only detached stays, and so does what depends on it.
    assert months.planned_whole(DETACH) == [JANUARY, FEBRUARY]


@pytest.mark.parametrize("kind", DEPENDENTS)
def test_what_depends_on_the_smallest_part_of_a_partition_keeps_all_of_it(
    months: MonthlyTable, kind: str
) -> None:
    """S-PART-01, three levels down."""
    months.run(*SPLIT_JANUARY, *_dependents(kind, months, of=LEAF))
    assert months.planned_whole() == [FEBRUARY]


def test_a_remedy_is_one_that_works(months: MonthlyTable) -> None:
    """S-PART-01."""
    for kind in ("a materialized view over views", "a publication of it"):
        months.run(*_dependents(kind, months))
    months.run(*WATCHES["a trigger"], *WATCHES["row security"])
    remedies = months.checked()["partition-kept-whole"].remedy.split("; ")
    assert len(remedies) == 5
    months.run(*remedies)
    assert months.planned_whole() == [JANUARY, FEBRUARY]


@pytest.mark.parametrize("kind", WATCHES)
def test_what_watches_the_rows_of_one_partition_keeps_it_from_being_dropped_or_detached(
    months: MonthlyTable, kind: str
) -> None:
    """S-PART-02, S-REACH-04."""
    months.run(*WATCHES[kind])
    assert months.planned_whole() == [FEBRUARY]
    for source in (DROP, DETACH):
        with pytest.raises(TableRefused, match=r"updates 2026-01.*without another effect"):
            months.whole(source)
    assert months.tables() == [JANUARY, FEBRUARY, "updates 2026-03", "updates 2026-04"]


@pytest.mark.parametrize("kind", WATCHES)
def test_what_watches_the_rows_of_a_part_of_a_partition_counts_as_well(
    months: MonthlyTable, kind: str
) -> None:
    """S-PART-02, three levels down."""
    statements = [one.replace(f'"{JANUARY}"', LEAF) for one in WATCHES[kind]]
    months.run(*SPLIT_JANUARY, *statements)
    assert months.planned_whole() == [FEBRUARY]


@pytest.mark.parametrize("kind", WATCHES)
def test_what_comes_between_plan_and_work_is_found_right_before_the_partition_is_marked(
    months: MonthlyTable, kind: str
) -> None:
    """S-PART-02."""
    january = months.whole().batches[0]
    months.run(*WATCHES[kind])
    kept = months.remove(january)
    assert isinstance(kept, Effect)
    assert (kept.outcome, kept.rows) == (Outcome.PROTECTED, 0)
    refused = months.remove(january, DROP)
    assert isinstance(refused, Failure)
    assert (refused.whole_source, JANUARY in refused.error) == (True, True)
    assert JANUARY in months.partitions()
    assert months.comment(JANUARY) is None


def test_rows_that_a_key_to_the_partition_refers_to_stay_and_the_others_are_removed(
    months: MonthlyTable,
) -> None:
    """S-REACH-04."""
    months.run(*WATCHES["a foreign key"], "INSERT INTO r VALUES (4, '2026-01-05+00')")
    found = months.whole()
    for batch in (*found.batches, *months.slice(apart=found.apart)):
        assert isinstance(months.remove(batch), Effect)
    assert months.ask("SELECT id FROM updates WHERE at < '2026-03-15+00'") == ["4"]
    assert months.ask("SELECT id FROM r") == ["4"]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE r (id bigint, at timestamptz, FOREIGN KEY (at, id) REFERENCES updates)",
        f"{NOTED}; CREATE TRIGGER r AFTER DELETE ON updates EXECUTE FUNCTION noted()",
        "CREATE RULE r AS ON DELETE TO updates DO ALSO NOTIFY gone",
        "ALTER TABLE updates ENABLE ROW LEVEL SECURITY",
    ],
)
def test_what_watches_the_table_keeps_every_partition(months: MonthlyTable, statement: str) -> None:
    """S-PART-02."""
    months.run(statement)
    assert months.whole() == Whole(())
    for source in (DROP, DETACH):
        with pytest.raises(TableRefused, match=rf'"{source.partitions}": updates cannot be'):
            months.reader.describe(source)
    assert months.checked()["partitions-by-rows"].remedy


def test_keys_and_triggers_of_the_table_above_keep_the_partitions_of_a_partition(
    months: MonthlyTable,
) -> None:
    """S-REACH-04."""
    year = "CREATE TABLE year (LIKE updates INCLUDING ALL) PARTITION BY RANGE (at)"
    bounds = "FOR VALUES FROM ('2026-01-01+00') TO ('2027-01-01+00')"
    months.run(year, f"ALTER TABLE year ATTACH PARTITION updates {bounds}")
    assert months.planned_whole() == [JANUARY, FEBRUARY]
    months.run("CREATE TABLE r (id bigint, at timestamptz, FOREIGN KEY (at, id) REFERENCES year)")
    assert months.whole() == Whole(())
    months.run("DROP TABLE r", NOTED)
    months.run("CREATE TRIGGER r AFTER DELETE ON year FOR EACH ROW EXECUTE FUNCTION noted()")
    assert months.whole() == Whole(())


def test_what_goes_along_with_a_partition_is_nothing_in_its_way(months: MonthlyTable) -> None:
    months.run(
        "CREATE TABLE shops (id bigint PRIMARY KEY)",
        "INSERT INTO shops SELECT generate_series(0, 200)",
        "ALTER TABLE updates ADD FOREIGN KEY (id) REFERENCES shops",
        f'CREATE SEQUENCE s OWNED BY "{JANUARY}".id',
        f"""ALTER TABLE "{JANUARY}" ALTER id SET DEFAULT nextval('s')""",
        f'ALTER TABLE "{JANUARY}" ADD CHECK (id >= 0)',
        f'CREATE INDEX ON "{JANUARY}" (id)',
        f'CREATE STATISTICS st ON id, at FROM "{JANUARY}"',
        f'ALTER TABLE "{JANUARY}" ADD UNIQUE (id)',
        f'ALTER TABLE "{JANUARY}" ADD FOREIGN KEY (id) REFERENCES "{JANUARY}" (id)',
        f'{NOTED}; CREATE TRIGGER up AFTER UPDATE ON "{JANUARY}" EXECUTE FUNCTION noted()',
        f'CREATE TRIGGER off AFTER DELETE ON "{JANUARY}" EXECUTE FUNCTION noted()',
        f'ALTER TABLE "{JANUARY}" DISABLE TRIGGER off',
        f"COMMENT ON TABLE \"{JANUARY}\" IS 'kept by the shop'",
    )
    assert months.planned_whole() == [JANUARY, FEBRUARY]
    done = months.remove(months.whole().batches[0])
    assert isinstance(done, Effect)
    assert (done.outcome, done.rows) == (Outcome.DELETED, 31)
    assert JANUARY not in months.tables()


def test_only_who_owns_a_partition_removes_it_as_a_whole_and_check_says_what_to_grant(
    months: MonthlyTable, owner: str
) -> None:
    source = replace(SOURCE, ledger_only=True)
    with months.seen_by(owner) as theirs:
        assert theirs.whole(source) == Whole(())
        said = theirs.checked(source)["partitions-by-rows"]
        assert "belongs to" in said.message
        assert said.remedy.startswith("GRANT ")
        months.run(f"ALTER TABLE updates OWNER TO {owner}")
        months.run(f'ALTER TABLE "{FEBRUARY}" OWNER TO {owner}')
        assert theirs.planned_whole(source) == [FEBRUARY]
        assert owner in theirs.checked(source)["partition-kept-whole"].remedy
        with pytest.raises(TableRefused, match="only its owner can detach or drop it"):
            theirs.whole(replace(source, partitions=Partitions.DROP))


def test_a_partition_in_another_schema_is_named_and_needs_a_right_to_that_schema(
    months: MonthlyTable, owner: str
) -> None:
    elsewhere = f"{months.schema} x%"
    months.run(
        f'CREATE SCHEMA "{elsewhere}"',
        f'ALTER TABLE "{JANUARY}" SET SCHEMA "{elsewhere}"',
        f'ALTER TABLE "{elsewhere}"."{JANUARY}" RENAME TO "it\'s 50% \\"old\\""'.replace(
            '\\"', '""'
        ),
    )
    for table in ("updates", f'"{FEBRUARY}"', f'"{elsewhere}"."it\'s 50% ""old"""'):
        months.run(f"ALTER TABLE {table} OWNER TO {owner}")
    source = replace(SOURCE, ledger_only=True)
    try:
        with months.seen_by(owner) as theirs:
            assert theirs.planned_whole(source) == [FEBRUARY]
            months.run(theirs.checked(source)["partition-kept-whole"].remedy)
            january = theirs.whole(source).batches[0]
            done = theirs.remove(january, source)
            assert isinstance(done, Effect)
            assert (done.outcome, done.rows) == (Outcome.DELETED, 31)
    finally:
        months.run(f'DROP SCHEMA "{elsewhere}" CASCADE')


def test_a_table_whose_deletes_are_replicated_gets_a_word_about_drops(months: MonthlyTable) -> None:
    assert "drop-not-replicated" not in months.checked()
    months.run(f'CREATE PUBLICATION "p {months.schema}" FOR TABLE updates')
    assert months.checked()["drop-not-replicated"].level is Level.WARNING
    assert months.planned_whole() == [JANUARY, FEBRUARY]


def test_archived_and_narrowed_down_rows_are_removed_in_batches_and_check_says_why(
    months: MonthlyTable,
) -> None:
    narrow: RowSource = replace(SOURCE, where="id > 5")
    assert "`where`" in months.checked(narrow)["partitions-by-rows"].message
    assert "partitions-whole" not in months.checked(replace(SOURCE, partitions=Partitions.ROWS))
    with pytest.raises(TableRefused, match="narrows down"):
        months.reader.describe(replace(narrow, partitions=Partitions.DROP))


def test_a_foreign_table_below_a_partition_keeps_it(months: MonthlyTable) -> None:
    """Its rows are elsewhere, and would stay there."""
    months.run(
        *SPLIT_JANUARY,
        "DROP TABLE leaf",
        f"CREATE FOREIGN DATA WRAPPER far_{months.schema}",
        f"CREATE SERVER far_{months.schema} FOREIGN DATA WRAPPER far_{months.schema}",
    )
    (early,) = months.ask("SELECT 'early'::regclass::oid")
    try:
        months.run(
            "ALTER TABLE updates DROP CONSTRAINT updates_pkey",
            f"CREATE FOREIGN TABLE leaf PARTITION OF early DEFAULT SERVER far_{months.schema}",
        )
        with months.database.reading() as connection:
            found = partition_tree.of_partitions(connection, [int(early)], drops=True)
        assert "foreign table" in partition_tree.named(found[int(early)])
    finally:
        months.run(f"DROP FOREIGN DATA WRAPPER far_{months.schema} CASCADE")
