"""The whole behaviour that bestbefore asks of an object store, over three sorts of servers."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from reference import Reference, serving

from bestbefore.contracts.objects import ObjectStoreContract, ObjectWorld
from bestbefore_http_store import connect


@contextmanager
def world(reference: Reference) -> Iterator[ObjectWorld]:
    reference.containers["builds"] = {}
    with serving(reference):
        store = connect({"url": reference.url, "token": reference.token})
        put = partial(reference.put, "builds")
        yield ObjectWorld(store.lister, store.deleter, put, "builds")
        store.close()


class TestHttp(ObjectStoreContract):
    @pytest.fixture
    def store(self) -> Iterator[ObjectWorld]:
        with world(Reference(token="s3cret")) as made:
            yield made


class TestHttpWithoutProof(ObjectStoreContract):
    """Absent is 404 whatever the condition, so nothing shows that conditions are honoured."""

    @pytest.fixture
    def store(self) -> Iterator[ObjectWorld]:
        with world(Reference(evaluates_conditions=False)) as made:
            yield made


class TestHttpWithoutConditions(ObjectStoreContract):
    @pytest.fixture
    def store(self) -> Iterator[ObjectWorld]:
        with world(Reference(ignores_conditions=True)) as made:
            yield made
