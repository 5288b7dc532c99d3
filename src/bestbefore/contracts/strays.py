"""What is kept of messages that execute nothing, for outside adapters too: see `contracts.ledger`.

class TestMyStrays(StraysContract):
    @pytest.fixture
    def strays(self) -> Strays: ...     # of the same ledger as ``sides``
"""

from datetime import timedelta
from hashlib import sha256

import pytest

from bestbefore.contracts.ledger_world import ME, SLOT, Ledger, Sides
from bestbefore.domain.failure import FailureClass
from bestbefore.ports.ledger import DeadFilter, NotInLedger
from bestbefore.ports.strays import KEPT_BYTES, Stray, Strays, operation_in

FOREIGN = (b"hello", b"", b'{"bucket": ', b"\xff\xfe\x00")
"""O-MSG-01: what stood in a queue and was no message."""

LATER = SLOT + timedelta(hours=1)


def stray(body: bytes, error: str = "expected a message as JSON") -> Stray:
    return Stray.of(body, error)


class StraysContract:
    """Kept once each, with every byte, until a person discards them."""

    @pytest.fixture
    def ledger(self, sides: Sides) -> Ledger:
        return Ledger(sides)

    def test_any_bytes_are_kept_as_they_came_o_msg_01(self, strays: Strays) -> None:
        met = [operation_in(body) for body in FOREIGN]
        assert all(isinstance(one, Stray) for one in met)

        strays.absorb([one for one in met if isinstance(one, Stray)], SLOT)

        found = strays.found()
        assert {one.body for one in found} == set(FOREIGN)
        for one in found:
            assert one.stray_id == sha256(one.body).digest()
            assert (one.size, one.received) == (len(one.body), 1)
            assert (one.first_at, one.last_at) == (SLOT, SLOT)
            assert "JSON" in one.error
        assert strays.count() == len(FOREIGN)

    def test_the_same_message_again_is_counted(self, strays: Strays) -> None:
        strays.absorb([stray(b"a"), stray(b"b"), stray(b"a")], SLOT)
        strays.absorb([stray(b"a", "another reason")], LATER)

        found = {one.body: one for one in strays.found()}

        assert {body: one.received for body, one in found.items()} == {b"a": 3, b"b": 1}
        again = found[b"a"]
        assert (again.error, again.first_at, again.last_at) == ("another reason", SLOT, LATER)

    def test_nothing_is_absorbed_without_harm(self, strays: Strays) -> None:
        strays.absorb([], SLOT)

        assert strays.count() == 0
        assert list(strays.found()) == []
        assert strays.discard([], "x", ME, SLOT) == 0

    def test_of_a_huge_message_the_beginning_is_kept(self, strays: Strays) -> None:
        huge = bytes(range(256)) * 4 * KEPT_BYTES

        strays.absorb([stray(huge)], SLOT)

        (found,) = strays.found()
        assert found.body == huge[:KEPT_BYTES]
        assert found.size == len(huge)
        assert found.stray_id == sha256(huge).digest()

    def test_any_error_text_comes_back(self, strays: Strays) -> None:
        error = "'\0ä\n\x1b[31m': no such field"

        strays.absorb([stray(b"a", error)], SLOT)

        assert [one.error for one in strays.found()] == [error]

    def test_they_are_listed_in_the_order_they_came_page_by_page(self, strays: Strays) -> None:
        for n in range(3):
            at = SLOT + n * timedelta(minutes=1)
            strays.absorb([stray(b"%d%d" % (n, m)) for m in range(3)], at)
        everything = [one.stray_id for one in strays.found()]
        assert len(everything) == 9

        paged: list[bytes] = []
        while page := strays.found(limit=2, after=paged[-1] if paged else None):
            paged += [one.stray_id for one in page]

        assert paged == everything
        with pytest.raises(NotInLedger):
            strays.found(after=b"?" * 32)

    @pytest.mark.parametrize(
        ("which", "n"),
        [
            (DeadFilter(), 2),
            (DeadFilter(failure_class=FailureClass.MALFORMED), 2),
            (DeadFilter(failure_class=FailureClass.PERMISSION), 0),
            (DeadFilter(policy="exports"), 0),
            (DeadFilter(superseded=True), 0),
            (DeadFilter(incident=b"i" * 16), 0),
            (DeadFilter(contains="a"), 0),
            (DeadFilter(among=frozenset({stray(b"a").stray_id, b"?" * 32})), 1),
            (DeadFilter(ids=(stray(b"b").stray_id, stray(b"b").stray_id)), 1),
            (DeadFilter(ids=(b"\0" * 32, b"\xff" * 32)), 2),
        ],
    )
    def test_only_what_could_be_about_a_message_finds_one(
        self, strays: Strays, which: DeadFilter, n: int
    ) -> None:
        strays.absorb([stray(b"a"), stray(b"b")], SLOT)

        assert len(strays.found(which)) == n
        assert strays.count(which) == n

    def test_a_discarded_one_is_gone_and_written_down(self, ledger: Ledger, strays: Strays) -> None:
        one, other = stray(b"a", "no use"), stray(b"b")
        strays.absorb([one, other], SLOT)

        assert strays.discard([one.stray_id, b"?" * 32], "ours, by mistake", ME, LATER) == 1

        assert [left.body for left in strays.found()] == [b"b"]
        (event,) = ledger.records.events(10)
        assert (event.at, event.by, event.action) == (LATER, ME, "message discarded")
        assert event.operation_id == one.stray_id
        assert "ours, by mistake" in event.detail
        assert "no use" in event.detail
        assert strays.discard([one.stray_id], "again", ME, LATER) == 0

    def test_one_that_comes_back_after_that_is_new(self, strays: Strays) -> None:
        strays.absorb([stray(b"a")] * 3, SLOT)
        strays.discard([stray(b"a").stray_id], "x", ME, SLOT)

        strays.absorb([stray(b"a")], LATER)

        (found,) = strays.found()
        assert (found.received, found.first_at) == (1, LATER)

    def test_they_are_no_operations(self, ledger: Ledger, strays: Strays) -> None:
        """Nothing of a run changes because of them (P11)."""
        run = ledger.plan("a")

        strays.absorb([stray(b"a")], SLOT)

        assert ledger.again(run) == run
        assert ledger.dead_letters.count(DeadFilter()) == 0
