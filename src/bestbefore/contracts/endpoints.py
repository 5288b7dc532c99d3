"""What every memory for findings about endpoints has to do, for outside adapters too.

class TestMyMemory(EndpointMemoryContract):
    @pytest.fixture
    def memory(self) -> EndpointMemory: ...     # an empty one
"""

from datetime import UTC, datetime, timedelta

from bestbefore.ports.endpoints import EndpointMemory, Learnt

NOW = datetime(2026, 7, 1, 2, tzinfo=UTC)
HERE, THERE = "http://127.0.0.1:8333", "https://s3.example.com"
LIMIT = Learnt("", "batch_limit", "100", "SomeStore/1.0", NOW)


class EndpointMemoryContract:
    """Inherit, and give a ``memory`` fixture."""

    def test_what_was_learnt_is_recalled_for_its_endpoint_only(
        self, memory: EndpointMemory
    ) -> None:
        in_bucket = LIMIT._replace(bucket="exports")
        memory.remember(HERE, LIMIT)
        memory.remember(HERE, in_bucket)

        assert set(memory.recall(HERE, NOW)) == {LIMIT, in_bucket}
        assert list(memory.recall(THERE, NOW)) == []

    def test_a_newer_finding_takes_the_place_of_an_older_one(self, memory: EndpointMemory) -> None:
        newer = LIMIT._replace(value="50", server="", learnt_at=NOW + timedelta(days=1))
        memory.remember(HERE, LIMIT)
        memory.remember(HERE, newer)

        assert list(memory.recall(HERE, NOW)) == [newer]

    def test_what_is_too_old_is_not_recalled(self, memory: EndpointMemory) -> None:
        memory.remember(HERE, LIMIT)

        assert list(memory.recall(HERE, NOW + timedelta(microseconds=1))) == []

    def test_an_endpoint_can_be_forgotten(self, memory: EndpointMemory) -> None:
        memory.remember(HERE, LIMIT)
        memory.remember(THERE, LIMIT)

        memory.forget(HERE)

        assert list(memory.recall(HERE, NOW)) == []
        assert list(memory.recall(THERE, NOW)) == [LIMIT]
