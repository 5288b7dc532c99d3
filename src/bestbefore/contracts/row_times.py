"""What every reader of rows has to do with timestamps, run like `RowReaderContract`."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bestbefore.contracts.row_world import RowWorld
from bestbefore.domain.rows import RowSource, TimestampKind, Walk
from bestbefore.ports.objects import KeyRange
from bestbefore.ports.rows import TableRefused

INSTANT = {"postgresql": "timestamptz", "mysql": "TIMESTAMP(6) NULL"}
WALL = {"postgresql": "timestamp", "mysql": "DATETIME(6)", "sqlite": "DATETIME"}
DAY = {"postgresql": "date", "mysql": "DATE", "sqlite": "DATE"}
TEXT = "VARCHAR(60)"

NEW_YORK = "America/New_York"


class RowTimesContract:
    """Inherit, and give a ``world`` fixture of type `RowWorld`."""

    # -- text

    @pytest.mark.parametrize("index", [False, True])
    def test_a_t_or_a_blank_between_date_and_time(self, world: RowWorld, index: bool) -> None:
        """O-TSCOL-01."""
        texts = [
            "2026-06-01 23:00:00", "2026-06-01T01:00:00Z", "2026-06-01 11:59:59",
            "2026-06-01T12:00:00+00:00",
        ]  # fmt: skip
        fill(world, TEXT, texts, index=index)
        assert old(world, source(), "2026-06-01T12:00:00+00:00") == [2, 3]
        assert old(world, source(), "2026-06-01T12:00:00.000000+00:00") == [2, 3]
        assert old(world, source(), "2026-06-01T14:00:00+02:00") == [2, 3]
        assert old(world, source(), "2026-06-01T12:00:01+00:00") == [2, 3, 4]

    @pytest.mark.parametrize("index", [False, True])
    def test_naive_and_aware_texts_together(self, world: RowWorld, index: bool) -> None:
        """O-TSCOL-03."""
        texts = [
            "2026-05-31T23:30:00", "2026-05-31T23:30:00+00:00", "2026-05-31T20:30:00-04:00",
            "garbage",
        ]  # fmt: skip
        fill(world, TEXT, texts, index=index)
        assert old(world, source(), "2026-06-01T00:00:00+00:00") == [1, 2]
        facts = world.reader.describe(source())
        assert world.reader.kept(source(), facts)["undated"] == 1
        assert any("garbage" in note.message for note in facts.notes)
        seen = world.reader.find(source(), facts, datetime(2026, 6, 1, tzinfo=UTC), "4")
        assert seen is not None
        assert (seen.timestamp, seen.old, seen.undated) == ("garbage", False, True)

    @pytest.mark.parametrize("index", [False, True])
    def test_offsets_are_told_apart(self, world: RowWorld, index: bool) -> None:
        """O-TSCOL-05."""
        texts = ["2026-01-15T23:00:00+05:30", "2026-01-15T13:30:00-05:00", "2026-01-15T18:00:00Z"]
        fill(world, TEXT, texts, index=index)
        assert old(world, source(), "2026-01-15T18:00:00+00:00") == [1]

    def test_every_way_to_write_an_instant(self, world: RowWorld) -> None:
        same = [
            "2026-02-28T22:30:00Z", "2026-02-28T22:30Z", "2026-02-28 22:30:00.000",
            "2026-02-28T22:30:00.000000000Z", "2026-03-01T12:30:00+14:00",
            "2026-02-28T10:30:00-12:00", "2026-03-01T00:30+0200", "2026-02-28T23:30+01",
        ]  # fmt: skip
        fill(world, TEXT, same)
        everything = [*range(1, len(same) + 1)]
        assert old(world, source(), "2026-02-28T22:30:00+00:00") == []
        assert old(world, source(), "2026-02-28T22:30:01+00:00") == everything
        facts = world.reader.describe(source())
        found = world.reader.slice(
            source(), facts, datetime(2026, 3, 2, tzinfo=UTC), KeyRange(None, None), 1, 100
        )
        assert {batch.oldest for batch in found.batches} == {
            datetime(2026, 2, 28, 22, 30, tzinfo=UTC)
        }

    def test_what_is_no_instant_is_kept_and_fails_nothing(self, world: RowWorld) -> None:
        odd = [
            "", " ", "yesterday", "2026-02-29", "2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z",
            "2026-00-10T00:00:00Z", "2026-01-32 00:00:00", "2026-01-01T25:00:00Z",
            "2026-01-01T10:60:00Z", "0000-00-00 00:00:00", "0001-01-01T00:00:00Z", "20260101",
            "2026-01-01T00:00:00+99:00", "2026-1-1", "1700000000", "01/02/2026", "2026-01-01Tx",
            "2026-01-01T", "2026-01-01T24:30:00",
            "2026-01-01T10:00:00.Z0", "1900-02-29T00:00:00Z", "2026-04-31", "infinity", "now",
        ]  # fmt: skip
        fill(world, TEXT, [*odd, "2024-02-29T00:00:00Z", "2000-02-29"], index=True)
        facts = world.reader.describe(source())
        assert world.reader.kept(source(), facts)["undated"] == len(odd)
        assert old(world, source(), "2026-06-01T00:00:00+00:00") == [len(odd) + 1, len(odd) + 2]

    def test_a_day_as_text_is_old_once_it_is_over(self, world: RowWorld) -> None:
        fill(world, TEXT, ["2026-05-31", "2026-06-01"])
        assert old(world, source(), "2026-06-01T00:00:00+00:00") == [1]
        assert old(world, source(), "2026-05-31T23:59:59+00:00") == []

    def test_text_has_no_zone_but_its_own(self, world: RowWorld) -> None:
        fill(world, TEXT, ["2026-05-31T12:00:00"])
        with pytest.raises(TableRefused, match="remove timestamp_zone"):
            world.reader.describe(source(timestamp_zone=NEW_YORK))

    def test_text_of_which_nothing_can_be_read_is_refused(self, world: RowWorld) -> None:
        fill(world, TEXT, ["1700000000", "1800000000"])
        with pytest.raises(TableRefused, match=r"1700000000.*expected ISO 8601"):
            world.reader.describe(source())

    def test_where_the_kind_was_said_texts_that_cannot_be_read_may_be_all_that_is_left(
        self, world: RowWorld
    ) -> None:
        """A cleanup that took everything else must not be refused for ever after."""
        fill(world, TEXT, ["unknown", "see ticket"])
        said = source(timestamp_kind=TimestampKind.ISO_TEXT)

        facts = world.reader.describe(said)

        assert "timestamp-unreadable" in [note.code for note in facts.notes]
        assert world.reader.kept(said, facts)["undated"] == 2
        assert old(world, said, "2026-06-01T00:00:00+00:00") == []

    # -- integers

    def test_seconds_and_milliseconds(self, world: RowWorld) -> None:
        """O-TSCOL-02."""
        cutoff = "2026-06-01T00:00:00+00:00"
        units = {TimestampKind.EPOCH_S: 1, TimestampKind.EPOCH_MS: 1000}
        for kind, unit in units.items():
            fill(world, "BIGINT", [1700000000 * unit, 1893456000 * unit, 0, -5, None])
            right = source(timestamp_kind=kind)
            assert old(world, right, cutoff) == [1]
            facts = world.reader.describe(right)
            assert world.reader.kept(right, facts) == {"undated": 3, "future": 1}
            (swapped,) = units.keys() - {kind}
            with pytest.raises(TableRefused, match=r"too (large|small) for"):
                world.reader.describe(source(timestamp_kind=swapped))
            with pytest.raises(TableRefused, match=f'timestamp_kind = "{kind}"'):
                world.reader.describe(source())
            with pytest.raises(TableRefused, match="integer"):
                world.reader.describe(source(timestamp_kind=TimestampKind.ISO_TEXT))
            world.run("DROP TABLE events")

    def test_the_second_of_the_cutoff_is_counted_from_its_beginning(self, world: RowWorld) -> None:
        fill(world, "BIGINT", [1_780_000_000, 1_780_000_001])
        seconds = source(timestamp_kind=TimestampKind.EPOCH_S)
        at = datetime.fromtimestamp(1_780_000_000, UTC)
        assert old(world, seconds, at.isoformat()) == []
        assert old(world, seconds, (at + timedelta(milliseconds=1)).isoformat()) == [1]
        assert old(world, seconds, (at + timedelta(seconds=1)).isoformat()) == [1]

    def test_far_away_in_either_unit_is_in_the_future(self, world: RowWorld) -> None:
        last = 253_402_300_799
        for kind, unit in ((TimestampKind.EPOCH_S, 1), (TimestampKind.EPOCH_MS, 1000)):
            fill(world, "BIGINT", [1_700_000_000 * unit, last * unit])
            meant = source(timestamp_kind=kind)
            assert world.reader.kept(meant, world.reader.describe(meant))["future"] == 1
            assert old(world, meant, "2026-06-01T00:00:00+00:00") == [1]
            world.run("DROP TABLE events")

    # -- the database's own types

    def test_an_instant_is_compared_as_one(self, world: RowWorld) -> None:
        if world.kind not in INSTANT:
            pytest.skip("has no such type")
        fill(
            world, INSTANT[world.kind], ["2026-06-01 11:59:59.999999", "2026-06-01 12:00:00", None]
        )
        for kind in (TimestampKind.AUTO, TimestampKind.TIMESTAMPTZ):
            assert old(world, source(timestamp_kind=kind), "2026-06-01T12:00:00+00:00") == [1]
        with pytest.raises(TableRefused, match='write "timestamptz"'):
            world.reader.describe(source(timestamp_kind=TimestampKind.EPOCH_S))
        with pytest.raises(TableRefused, match="remove timestamp_zone"):
            world.reader.describe(source(timestamp_zone=NEW_YORK))

    @pytest.mark.parametrize("index", [False, True])
    def test_a_wall_time_is_read_in_its_zone(self, world: RowWorld, index: bool) -> None:
        texts = ["2026-06-01 07:59:59", "2026-06-01 08:00:00", "2026-06-01 12:30:00"]
        fill(world, WALL[world.kind], texts, index=index)
        noon = "2026-06-01T12:00:00+00:00"
        with_zone = source(timestamp_kind=TimestampKind.NAIVE, timestamp_zone=NEW_YORK)
        assert old(world, with_zone, noon) == [1]
        assert old(world, replace(with_zone, timestamp_zone="UTC"), noon) == [1, 2]
        assert old(world, replace(with_zone, timestamp_zone="Asia/Tokyo"), noon) == [1, 2, 3]
        with pytest.raises(TableRefused, match="timestamp_zone"):
            world.reader.describe(replace(with_zone, timestamp_zone=None))
        facts = world.reader.describe(with_zone)
        (batch,) = world.reader.slice(
            with_zone, facts, datetime(2026, 6, 1, 12, tzinfo=UTC), KeyRange(None, None), 9, 9
        ).batches
        assert batch.oldest == datetime(2026, 6, 1, 11, 59, 59, tzinfo=UTC)

    def test_in_the_hour_that_comes_twice_nothing_goes_too_young(self, world: RowWorld) -> None:
        """New York, 1 November 2026: 01:30 is 05:30Z, and 06:30Z again."""
        walls = ["2026-11-01 00:20:00", "2026-11-01 00:59:00", "2026-11-01 01:10:00",
                 "2026-11-01 01:40:00", "2026-11-01 02:10:00"]  # fmt: skip
        fill(world, WALL[world.kind], walls)
        wall = source(timestamp_kind=TimestampKind.NAIVE, timestamp_zone=NEW_YORK)
        assert old(world, wall, "2026-11-01T04:30:00+00:00") == [1]
        # What was written down as 01:10 may have been written half an hour after this cutoff.
        assert old(world, wall, "2026-11-01T05:30:00+00:00") == [1]
        assert old(world, wall, "2026-11-01T06:30:00+00:00") == [1, 2, 3]
        assert old(world, wall, "2026-11-01T07:30:00+00:00") == [1, 2, 3, 4, 5]

    def test_in_the_hour_that_is_left_out_nothing_is_lost(self, world: RowWorld) -> None:
        """New York, 8 March 2026: after 06:59:59Z, 01:59:59, comes 03:00."""
        walls = ["2026-03-08 01:59:59", "2026-03-08 02:30:00", "2026-03-08 03:00:00"]
        fill(world, WALL[world.kind], walls)
        wall = source(timestamp_kind=TimestampKind.NAIVE, timestamp_zone=NEW_YORK)
        assert old(world, wall, "2026-03-08T07:00:00+00:00") == [1, 2]
        assert old(world, wall, "2026-03-08T07:00:01+00:00") == [1, 2, 3]

    @pytest.mark.parametrize("index", [False, True])
    def test_a_day_has_to_be_over_where_it_is_counted(self, world: RowWorld, index: bool) -> None:
        fill(world, DAY[world.kind], ["2026-05-30", "2026-05-31", "2026-06-01", None], index=index)
        day = source(timestamp_kind=TimestampKind.DATE)
        assert old(world, day, "2026-06-01T00:00:00+00:00") == [1, 2]
        assert old(world, day, "2026-05-31T23:59:59+00:00") == [1]
        tokyo = replace(day, timestamp_zone="Asia/Tokyo")
        assert old(world, tokyo, "2026-05-31T15:00:00+00:00") == [1, 2]
        assert old(world, tokyo, "2026-05-31T14:59:59+00:00") == [1]
        new_york = replace(day, timestamp_zone=NEW_YORK)
        assert old(world, new_york, "2026-06-01T03:59:59+00:00") == [1]
        assert world.reader.kept(day, world.reader.describe(day)) == {"undated": 1, "future": 0}

    def test_rows_without_a_date_are_kept_and_counted(self, world: RowWorld) -> None:
        """O-TSCOL-04."""
        fill(
            world,
            WALL[world.kind],
            [None, "2026-01-01 00:00:00", "2030-01-01 00:00:00"],
            index=True,
        )
        wall = source(timestamp_kind=TimestampKind.NAIVE, timestamp_zone="UTC")
        assert old(world, wall, "2026-06-01T00:00:00+00:00") == [2]
        assert world.reader.kept(wall, world.reader.describe(wall)) == {"undated": 1, "future": 1}

    def test_auto_says_what_it_found(self, world: RowWorld) -> None:
        fill(world, TEXT, ["2026-06-01T00:00:00Z"])
        facts = world.reader.describe(source())
        assert facts.kind is TimestampKind.ISO_TEXT
        assert [note.message for note in facts.notes if note.code == "timestamp-kind"] != []
        said = world.reader.describe(source(timestamp_kind=TimestampKind.ISO_TEXT))
        assert [note for note in said.notes if note.code == "timestamp-kind"] == []

    def test_the_clock_is_the_databases_own_and_aware(self, world: RowWorld) -> None:
        fill(world, TEXT, ["2026-06-01T00:00:00Z"])
        now = world.reader.describe(source()).now
        assert now.utcoffset() == timedelta(0)
        assert abs(now - datetime.now(UTC)) < timedelta(minutes=1)


def source(**more: object) -> RowSource:
    """The table of events."""
    return RowSource("shop", "events", "at", **({"allow_full_scan": True} | more))  # type: ignore[arg-type]


def fill(
    world: RowWorld, type_: str, values: Sequence[str | int | None], *, index: bool = False
) -> None:
    """A table of events with *values* as their times, ids from 1."""
    world.run(f"CREATE TABLE events (id BIGINT NOT NULL PRIMARY KEY, at {type_})")
    if index:
        world.run("CREATE INDEX events_at ON events (at)")
    world.insert("events", *enumerate(values, 1))


def old(world: RowWorld, of: RowSource, cutoff: str) -> list[int]:
    """Ids of the rows that are old, walked along whatever there is."""
    facts = world.reader.describe(of)
    found = world.reader.slice(
        of, facts, datetime.fromisoformat(cutoff), KeyRange(None, None), 1, 1000
    )
    assert all(batch.first == batch.last and batch.rows == 1 for batch in found.batches)
    assert found.rest is None
    ids = [batch.first.rpartition(",")[2].strip('[]"') for batch in found.batches]
    assert facts.walk is Walk.KEY or len(ids) == len(set(ids))
    return sorted(map(int, ids))
