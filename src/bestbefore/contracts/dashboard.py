"""What every place for the dashboard's sessions and backlogs has to do.

Subclass `SessionsContract` with the fixtures ``sessions`` and ``access`` of the same ledger, and
`BacklogsContract` with ``backlogs`` and the fixture ``sides`` of a
`bestbefore.contracts.ledger.LedgerContract`.
"""

from datetime import timedelta

import pytest

from bestbefore.contracts.ledger_world import DAY, ME, SLOT, Ledger, Sides
from bestbefore.domain.access import Scope, Token
from bestbefore.ports.access import Access
from bestbefore.ports.dashboard import BACKLOGS_KEPT, Backlog, Backlogs, Sessions

_HOUR, _MINUTE = timedelta(hours=1), timedelta(minutes=1)
_ONE, _OTHER, _TOKEN = b"1" * 32, b"2" * 32, b"t" * 32
_READ = frozenset({Scope.READ})


class SessionsContract:
    """A session lasts no longer than it may, nor than its token."""

    def test_a_session_stands_for_its_token_until_it_ends(
        self, sessions: Sessions, access: Access
    ) -> None:
        token = Token("mara", _READ, None, ME, SLOT)
        access.add_token(token, _TOKEN)
        sessions.begin(_ONE, _TOKEN, SLOT + DAY, SLOT)
        sessions.begin(_OTHER, _TOKEN, SLOT + 2 * DAY, SLOT)

        assert sessions.holder(_ONE, SLOT) == token
        assert sessions.holder(b"3" * 32, SLOT) is None
        assert sessions.holder(_ONE, SLOT + DAY) is None
        sessions.end(_OTHER)
        sessions.end(_OTHER)
        assert sessions.holder(_OTHER, SLOT) is None
        assert sessions.holder(_ONE, SLOT) == token

    def test_a_session_ends_with_its_token_and_is_not_the_next_ones_of_that_name(
        self, sessions: Sessions, access: Access
    ) -> None:
        access.add_token(Token("mara", _READ, SLOT + _HOUR, ME, SLOT), _TOKEN)
        sessions.begin(_ONE, _TOKEN, SLOT + DAY, SLOT)
        assert sessions.holder(_ONE, SLOT + _HOUR) is None

        access.revoke_token("mara", ME, SLOT)
        access.add_token(Token("mara", frozenset({Scope.OPERATE}), None, ME, SLOT), b"n" * 32)

        assert sessions.holder(_ONE, SLOT) is None


class BacklogsContract:
    """What was left to do is noted once a minute, and forgotten after a day."""

    @pytest.fixture
    def ledger(self, sides: Sides) -> Ledger:
        return Ledger(sides)

    def test_what_is_left_is_noted_once_a_minute_whoever_does(
        self, backlogs: Backlogs, ledger: Ledger
    ) -> None:
        ledger.plan("a", "b", "c")
        backlogs.note(SLOT + timedelta(seconds=5))
        ledger.end()
        backlogs.note(SLOT + timedelta(seconds=50))
        backlogs.note(SLOT + _MINUTE)

        assert backlogs.since(SLOT, _MINUTE) == {
            "exports": [Backlog(SLOT, 3), Backlog(SLOT + _MINUTE, 0)]
        }
        assert backlogs.since(SLOT, timedelta(minutes=5)) == {"exports": [Backlog(SLOT, 3)]}
        assert backlogs.since(SLOT + _HOUR, _MINUTE) == {}

    def test_what_is_older_than_a_day_is_forgotten(
        self, backlogs: Backlogs, ledger: Ledger
    ) -> None:
        ledger.plan("a")
        backlogs.note(SLOT)
        later = SLOT + BACKLOGS_KEPT + _MINUTE

        backlogs.note(later)

        assert backlogs.since(SLOT, _MINUTE) == {"exports": [Backlog(later, 1)]}
