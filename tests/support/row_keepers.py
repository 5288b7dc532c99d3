"""What a policy keeps, told from the values that were drawn and in plain Python: no SQL, nothing of
the product's."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from bestbefore.domain.rows import TimestampKind
from support.row_worlds import Row, RowWorld, Stamp, Stamps

_LEAVES = "ON DELETE SET NULL"


@dataclass(frozen=True)
class Content:
    """All rows that there are: those of the table by their tag, and of the child and the grandchild
    what each refers to, None where that is gone."""

    rows: Mapping[int, Row]
    children: Mapping[int, int | None]
    grandchildren: Mapping[int, int | None]


def goes(world: RowWorld, content: Content, cutoff: datetime) -> set[int]:
    """The tags of the rows that may go."""
    below: dict[int, list[int]] = {}
    for row in content.rows.values():
        if row.parent is not None and not (world.own == _LEAVES and world.dependents is None):
            below.setdefault(row.parent, []).append(row.tag)
    by_itself = {
        tag
        for tag, row in content.rows.items()
        if is_old(world.stamps, row.stamp, cutoff) and (row.wanted == 1 or not world.where)
    } - _referred(world, content)

    def all_of_it(tag: int) -> bool:
        return tag in by_itself and all(map(all_of_it, below.get(tag, ())))

    return {tag for tag in content.rows if all_of_it(tag)}


def after(world: RowWorld, content: Content, gone: set[int]) -> Content:
    """What is left of *content* once the rows in *gone* are."""
    left = {
        tag: row if row.parent not in gone else Row(tag, row.key, row.stamp, row.wanted, None)
        for tag, row in content.rows.items()
        if tag not in gone
    }
    children = _left(content.children, gone, world.child)
    no_more = content.children.keys() - children.keys()
    return Content(left, children, _left(content.grandchildren, no_more, world.grandchild))


def is_old(stamps: Stamps, stamp: Stamp, cutoff: datetime) -> bool:
    """Whether what is written down as *stamp* was surely before *cutoff*."""
    if stamp is None:
        return False
    zone = ZoneInfo(stamps.zone or "UTC")
    match stamps.kind, stamp:
        case TimestampKind.TIMESTAMPTZ, datetime():
            return stamp < cutoff
        case TimestampKind.NAIVE, datetime():
            return stamp < _shown(cutoff, zone)
        case TimestampKind.DATE, date():
            return stamp < _shown(cutoff, zone).date()
        case TimestampKind.EPOCH_S, int():
            return stamp > 0 and _since_1970(seconds=stamp) < cutoff
        case TimestampKind.EPOCH_MS, int():
            return stamp > 0 and _since_1970(milliseconds=stamp) < cutoff
        case TimestampKind.ISO_TEXT, str():
            return _read_before(stamp, cutoff)
    raise AssertionError(stamp)


def _shown(cutoff: datetime, zone: ZoneInfo) -> datetime:
    """What a clock in *zone* shows at *cutoff*; where that comes again in an hour, what one shows
    that winter time has begun for, so that nothing is old which may yet be written down."""
    local = cutoff.astimezone(zone)
    again = (cutoff + timedelta(hours=1)).astimezone(zone)
    back = local.utcoffset() - again.utcoffset()  # type: ignore[operator]
    shown = local.replace(tzinfo=None)
    comes_again = back > timedelta(0) and (
        (cutoff + back).astimezone(zone).replace(tzinfo=None, fold=0) == shown.replace(fold=0)
    )
    return shown - back if comes_again else shown


def _since_1970(**amount: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(**amount)


def _read_before(text: str, cutoff: datetime) -> bool:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return False
    if len(text) == len("2026-06-01"):  # all of that day
        at = datetime.combine(at.date(), time.max)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)) < cutoff


def _referred(world: RowWorld, content: Content) -> set[int]:
    """The tags of rows that something keeps which does not go with them."""
    if world.dependents == ():
        return {tag for tag in content.children.values() if tag is not None}
    if world.dependents is None or world.child == _LEAVES:
        return set()
    kept = {
        content.children[child] for child in content.grandchildren.values() if child is not None
    }
    return {tag for tag in kept if tag is not None}


def _left(rows: Mapping[int, int | None], gone: set[int], how: str | None) -> dict[int, int | None]:
    """Of *rows*, those whose own row is not *gone*, or which do not go with it."""
    return {
        id_: None if of in gone else of
        for id_, of in rows.items()
        if of not in gone or how == _LEAVES
    }
