"""Time zones by their names."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest

from bestbefore.domain import zones


def test_utc_needs_no_time_zone_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small images of containers have none."""

    def none(name: str) -> ZoneInfo:
        raise ZoneInfoNotFoundError(name)

    monkeypatch.setattr(zones, "ZoneInfo", none)
    assert zones.zone("UTC") is UTC


def test_any_other_zone_has_its_own_clock() -> None:
    summer = datetime(2026, 7, 1, 12, tzinfo=zones.zone("Europe/Berlin"))
    assert summer.astimezone(UTC).hour == 10
