"""What every place for tokens, deliveries and answers has to do. To run it over one::

class TestMyAccess(AccessContract):
    @pytest.fixture
    def access(self) -> Access: ...             # empty, as are the others
    @pytest.fixture
    def deliveries(self) -> Deliveries: ...
    @pytest.fixture
    def answers(self) -> Answers: ...
"""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from bestbefore.domain.access import Scope, Token, token_digest
from bestbefore.ports.access import Access, Answers, Begun, Deliveries, Reply
from bestbefore.ports.ledger import LedgerError, NotInLedger

NOW = datetime(2026, 7, 1, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
OPS = Token("ops", frozenset({Scope.OPERATE, Scope.TRIGGER}), None, "eve@here", NOW)
GUEST = Token("guest", frozenset({Scope.READ}), NOW + HOUR, "eve@here", NOW)
KEY, BODY, OTHER = b"k" * 32, b"b" * 32, b"o" * 32


class AccessContract:
    """Inherit, and give the fixtures."""

    def test_a_token_is_known_by_its_digest_alone(self, access: Access) -> None:
        access.add_token(OPS, token_digest("bb_ops"))
        access.add_token(GUEST, token_digest("bb_guest"))

        assert access.token(token_digest("bb_ops"), NOW) == OPS
        assert access.token(token_digest("bb_other"), NOW) is None
        assert list(access.tokens()) == [GUEST, OPS]

    def test_a_token_ends_by_itself(self, access: Access) -> None:
        access.add_token(GUEST, token_digest("bb_guest"))

        assert access.token(token_digest("bb_guest"), NOW + HOUR - MINUTE) == GUEST
        assert access.token(token_digest("bb_guest"), NOW + HOUR) is None
        assert list(access.tokens()) == [GUEST]

    def test_a_revoked_token_is_gone_at_once_and_its_name_is_free(self, access: Access) -> None:
        access.add_token(OPS, token_digest("bb_ops"))
        assert access.revoke_token("ops", "ann@here", NOW) == OPS
        assert access.token(token_digest("bb_ops"), NOW) is None
        with pytest.raises(NotInLedger, match="none of that name"):
            access.revoke_token("ops", "ann@here", NOW)
        access.add_token(OPS, token_digest("bb_new"))

    def test_a_name_stands_for_one_token(self, access: Access) -> None:
        access.add_token(OPS, token_digest("bb_ops"))
        with pytest.raises(LedgerError, match="revoke ops"):
            access.add_token(OPS, token_digest("bb_new"))
        assert access.token(token_digest("bb_new"), NOW) is None

    def test_a_delivery_is_first_once_until_it_is_too_old_to_be_accepted_at_all(
        self, deliveries: Deliveries
    ) -> None:
        assert deliveries.first("msg_1", NOW + MINUTE, NOW)
        assert not deliveries.first("msg_1", NOW + HOUR, NOW)
        assert deliveries.first("msg_2", NOW + MINUTE, NOW)
        assert deliveries.first("msg_1", NOW + HOUR, NOW + MINUTE)

    def test_of_many_at_once_one_is_first(self, deliveries: Deliveries) -> None:
        with ThreadPoolExecutor(8) as pool:
            found = pool.map(lambda _: deliveries.first("msg_1", NOW + MINUTE, NOW), range(24))
        assert sum(found) == 1

    def test_a_delivery_that_led_to_nothing_may_come_again(self, deliveries: Deliveries) -> None:
        deliveries.first("msg_1", NOW + MINUTE, NOW)
        deliveries.forget("msg_1")
        assert deliveries.first("msg_1", NOW + MINUTE, NOW)

    def test_a_key_gives_its_answer_again_until_it_is_too_old(self, answers: Answers) -> None:
        assert answers.begin(KEY, BODY, NOW, MINUTE) == Begun(mine=True)
        assert answers.begin(KEY, BODY, NOW, MINUTE) == Begun(mine=False)
        answers.finish(KEY, BODY, Reply(201, b'{"a": 1}'), NOW + HOUR)

        known = answers.begin(KEY, BODY, NOW + HOUR - MINUTE, MINUTE)
        assert known == Begun(mine=False, reply=Reply(201, b'{"a": 1}'))
        assert answers.begin(KEY, BODY, NOW + HOUR, MINUTE) == Begun(mine=True)

    def test_a_key_of_another_request_is_told(self, answers: Answers) -> None:
        answers.begin(KEY, BODY, NOW, MINUTE)
        assert not answers.begin(KEY, OTHER, NOW, MINUTE).same

    def test_what_was_never_answered_is_asked_again(self, answers: Answers) -> None:
        """Its process died, or it failed."""
        answers.begin(KEY, BODY, NOW, MINUTE)
        assert answers.begin(KEY, OTHER, NOW + MINUTE, MINUTE) == Begun(mine=True)
        answers.finish(KEY, BODY, Reply(200, b"late"), NOW + HOUR)  # that of the dead one
        assert answers.begin(KEY, OTHER, NOW + MINUTE, MINUTE).reply is None
        answers.forget(KEY)
        assert answers.begin(KEY, BODY, NOW + MINUTE, MINUTE) == Begun(mine=True)

    def test_of_many_at_once_one_carries_it_out(self, answers: Answers) -> None:
        with ThreadPoolExecutor(8) as pool:
            found = pool.map(lambda _: answers.begin(KEY, BODY, NOW, MINUTE).mine, range(24))
        assert sum(found) == 1
