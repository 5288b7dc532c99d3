"""From the entries of a listing to what is known of each: its place among those of its key.

A listing can break off within a key, and a key can have a million entries. So entries are passed
on as they come, and only the newest of a key is held back until its last one was seen; what is
known by then is carried from page to page, and stored with the cursor.
"""

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from bestbefore.domain.selection import Listed
from bestbefore.domain.versions import NULL, Version


class Shown(NamedTuple):
    """One entry as a store lists it; ``latest`` is the store's word for the newest."""

    item: Listed
    latest: bool


class Carried(NamedTuple):
    """A key of which more is to come: its newest entry, and when the last one seen was written."""

    newest: Listed
    before: datetime

    def dump(self) -> str:
        """As text, for a cursor."""
        fields = self.newest._asdict()
        fields["last_modified"] = self.newest.last_modified.isoformat()
        return json.dumps([fields, self.before.isoformat()])

    @classmethod
    def load(cls, text: str) -> "Carried":
        """What `dump` wrote."""
        fields, before = json.loads(text)
        fields["last_modified"] = datetime.fromisoformat(fields["last_modified"])
        fields["version"] = Version(*fields["version"])
        return cls(Listed(**fields), datetime.fromisoformat(before))


class OutOfOrder(ValueError):
    """A store names a newest entry after older ones of the same key."""


def unstack(
    entries: Sequence[Shown],
    carried: Carried | None,
    goes: Callable[[Listed], bool],
    *,
    unfinished: bool,
) -> tuple[list[Listed], Carried | None]:
    """The items of *entries*, which are in the order of their keys, and what is to be carried on.

    The newest of each key comes after its others, and knows how many of them do not go (*goes*
    is asked about each). *unfinished* says that more of the last key may follow.
    """
    items: list[Listed] = []
    for key, group in groupby(entries, key=attrgetter("item.key")):
        if carried is not None and carried.newest.key != key:
            items.append(carried.newest)
            carried = None
        older, carried = _under(list(group), carried)
        kept = sum(not goes(item) for item in older)
        newest = carried.newest
        version = newest.version
        if version is not None:
            version = version._replace(others=version.others + len(older), kept=version.kept + kept)
        carried = carried._replace(newest=newest._replace(version=version))
        items += older
    if carried is not None and not unfinished:
        items.append(carried.newest)
        carried = None
    return items, carried


def _under(group: list[Shown], carried: Carried | None) -> tuple[list[Listed], Carried]:
    """The older entries among those of one key, and its newest with the time of the last one.

    Where a store does not say which is the newest, each could be: all of them count as one over
    others that stay, so that nothing goes that readers may see.
    """
    if carried is not None:
        if any(entry.latest for entry in group):
            raise OutOfOrder("a version is called the latest after older ones of its key")
        return _dated([entry.item for entry in group], carried)
    latest = [entry for entry in group if entry.latest]
    # SeaweedFS calls what was there before versioning the latest, whatever came after it.
    named = [entry for entry in latest if _id(entry.item) != NULL] or latest
    if not named:
        over = max(1, len(group) - 1)
        first, *others = [
            entry.item._replace(
                version=entry.item.version and entry.item.version._replace(others=over, kept=over)
            )
            for entry in group
        ]
        return others, Carried(first, min(entry.item.last_modified for entry in group))
    newest = named[0].item
    rest = [entry.item for entry in group if entry is not named[0]]
    return _dated(rest, Carried(newest, newest.last_modified))


def _dated(items: list[Listed], carried: Carried) -> tuple[list[Listed], Carried]:
    """*items* with the time at which each stopped being the newest.

    That is when its successor was written. Most stores list the newest first; some list versions
    and markers apart, and then only their times tell which followed which. Where the two orders
    differ the later time counts, which keeps a little longer and never shorter.
    """
    by_time = sorted(items, key=lambda item: item.last_modified, reverse=True)
    followed_at = [carried.before, *(item.last_modified for item in by_time)]
    successor = dict(zip(map(_id, by_time), followed_at, strict=False))
    dated = []
    before = carried.before
    for item in items:
        since = max(item.last_modified, before, successor[_id(item)])
        dated.append(item._replace(version=item.version and item.version._replace(since=since)))
        before = item.last_modified
    last = by_time[-1].last_modified if by_time else carried.before
    return dated, carried._replace(before=last)


def _id(item: Listed) -> str:
    return item.version.id if item.version else ""
