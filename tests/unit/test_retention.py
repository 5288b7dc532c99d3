"""How old is old enough."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bestbefore.domain.retention import Age, parse_age

DAY = 86_400
NOW = datetime(2026, 7, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "age"),
    [
        ("1d", Age(0, DAY)),
        ("30d", Age(0, 30 * DAY)),
        ("30 d", Age(0, 30 * DAY)),
        ("P30D", Age(0, 30 * DAY)),
        ("30min", Age(0, 1_800)),
        ("45s", Age(0, 45)),
        ("36h", Age(0, 36 * 3_600)),
        ("PT36H", Age(0, 36 * 3_600)),
        ("8w", Age(0, 56 * DAY)),
        ("1mo", Age(1, 0)),
        ("2y", Age(24, 0)),
        ("P1Y2M3DT4H5M6S", Age(14, 3 * DAY + 4 * 3_600 + 5 * 60 + 6)),
        ("P1M", Age(1, 0)),
        ("PT1M", Age(0, 60)),
        ("200y", Age(2400, 0)),
    ],
)
def test_durations_with_a_clear_unit_are_exact(written: str, age: Age) -> None:
    """O-CONF-01"""
    assert parse_age(written) == age


@pytest.mark.parametrize("written", [30, 30.5, 0, "30", "30.5", "0"])
def test_a_bare_number_is_refused_with_what_is_accepted(written: str | float) -> None:
    """O-CONF-01"""
    with pytest.raises(ValueError, match=r'"[\d.]+" has no unit; write one of "36h", "30d"'):
        parse_age(written)


@pytest.mark.parametrize("written", ["30m", "1M"])
def test_m_is_refused_as_minutes_or_months(written: str) -> None:
    """O-CONF-01"""
    with pytest.raises(
        ValueError, match=r'could mean minutes or months; write "\d+min" or "\d+mo"'
    ):
        parse_age(written)


@pytest.mark.parametrize(
    "written",
    [
        *("", " ", "d", "P", "PT", "P1DT", "-30d", "P-30D", "1.5d", "30  d", "30d\n", " 30d"),
        *("30days", "\u0663\u0660d", "30D", "1e3", "1d 2h", "30 P", "99999999999999999999ms"),
    ],
)
def test_anything_else_is_refused_with_what_is_accepted(written: str) -> None:
    """O-CONF-01: Arabic digits too; O-CONF-04: an unknown unit, however long."""
    with pytest.raises(ValueError, match=r'is not a duration; write one of "36h", "30d"'):
        parse_age(written)


@pytest.mark.parametrize("written", ["0d", "0s", "0mo", "P0D", "PT0S", "000d"])
def test_zero_is_refused_as_it_would_select_everything(written: str) -> None:
    """O-CONF-03"""
    with pytest.raises(ValueError, match="zero, which would select everything"):
        parse_age(written)


@pytest.mark.parametrize(
    "written",
    [
        *("201y", "36525000d", "999999999d", "1000000000d", "99999999999999999999y"),
        *(f"P{'9' * 20}Y", f"P{'9' * 20}D", f"PT{'9' * 20}S"),
    ],
)
def test_absurd_lengths_are_refused_without_an_overflow(written: str) -> None:
    """O-CONF-04"""
    with pytest.raises(ValueError, match="longer than 200 years"):
        parse_age(written)


@pytest.mark.parametrize("written", [f"P{'9' * 400}Y", f"P{'9' * 5000}D", f"{'9' * 5000}d"])
def test_digits_without_end_are_no_duration(written: str) -> None:
    """O-CONF-04: too large even for a float, and beyond what int() converts."""
    with pytest.raises(ValueError, match="is not a duration"):
        parse_age(written)


@given(st.text())
def test_no_text_raises_anything_but_value_error(text: str) -> None:
    try:
        age = parse_age(text)
    except ValueError:
        return
    assert age.before(NOW) < NOW


def test_a_day_is_86400_seconds_on_a_23_hour_day_too() -> None:
    """O-DST-04"""
    slot = datetime.fromisoformat("2026-03-30T00:00:00+02:00")

    cutoff = parse_age("1d").before(slot)

    assert cutoff == datetime(2026, 3, 28, 22, tzinfo=UTC)
    assert cutoff.tzinfo is UTC


@pytest.mark.parametrize(
    ("age", "moment", "expected"),
    [
        ("1mo", "2026-03-31T12:00:00+00:00", "2026-02-28T12:00:00+00:00"),
        ("1mo", "2028-03-31T12:00:00+00:00", "2028-02-29T12:00:00+00:00"),
        ("1y", "2028-02-29T00:00:00+00:00", "2027-02-28T00:00:00+00:00"),
        ("1mo", "2026-01-15T00:00:00+00:00", "2025-12-15T00:00:00+00:00"),
        ("12mo", "2026-12-31T00:00:00+00:00", "2025-12-31T00:00:00+00:00"),
        ("P1M1D", "2026-03-31T00:00:00+00:00", "2026-02-27T00:00:00+00:00"),
        ("1mo", "2026-03-01T00:30:00+02:00", "2026-01-28T22:30:00+00:00"),
    ],
)
def test_months_follow_the_calendar_and_clamp_to_its_last_day(
    age: str, moment: str, expected: str
) -> None:
    found = parse_age(age).before(datetime.fromisoformat(moment))

    assert found == datetime.fromisoformat(expected)


@given(
    st.integers(1, 2400),
    st.integers(-30 * 365 * DAY, 70 * 365 * DAY).map(lambda seconds: NOW + timedelta(0, seconds)),
)
def test_months_back_never_land_later_than_the_same_day_of_that_month(
    months: int, moment: datetime
) -> None:
    """Clamping keeps data a little longer, never shorter."""
    before = Age(months, 0).before(moment)
    apart = (moment.year - before.year) * 12 + moment.month - before.month

    assert apart == months
    assert before.day <= moment.day
    assert before.time() == moment.time()


def test_only_ages_under_a_day_are_called_so() -> None:
    assert parse_age("23h").under_a_day
    assert not parse_age("24h").under_a_day
    assert not parse_age("1mo").under_a_day


@given(st.builds(Age, st.integers(0, 2000), st.integers(0, 10**8)).filter(lambda a: a != Age(0, 0)))
def test_an_age_prints_the_same_however_it_was_written(age: Age) -> None:
    """`Policy.decides` compares ages by their text."""
    parts = [parse_age(part) for part in str(age).split(" + ")]

    assert Age(sum(p.months for p in parts), sum(p.seconds for p in parts)) == age


def test_the_same_length_in_other_units_prints_the_same() -> None:
    assert str(parse_age("P30D")) == str(parse_age("720h")) == str(parse_age("30d")) == "30d"
    assert NOW - parse_age("4w").before(NOW) == timedelta(days=28)
