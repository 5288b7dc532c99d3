"""Which tags keep an object."""

import pytest

from bestbefore.domain.policy import ObjectSource
from bestbefore.domain.tags import kept_by_tags

SOURCE = ObjectSource(
    "s",
    "b",
    "exports/",
    tags=(("stage", "prod"), ("team", "growth")),
    lacks_tags=("keep", "legal-hold"),
)
RIGHT = {"stage": "prod", "team": "growth"}


def test_an_object_with_all_tags_and_none_of_the_others_goes() -> None:
    assert kept_by_tags(SOURCE, RIGHT) is None
    assert kept_by_tags(SOURCE, RIGHT | {"colour": "red"}) is None


@pytest.mark.parametrize(
    ("tags", "why"),
    [
        ({}, "it lacks the tag stage"),
        ({"stage": "prod"}, "it lacks the tag team"),
        (RIGHT | {"team": "Growth"}, "its tag team is 'Growth', not 'growth'"),
        (RIGHT | {"team": ""}, "its tag team is '', not 'growth'"),
        (RIGHT | {"keep": ""}, "it has the tag keep"),
        (RIGHT | {"legal-hold": "no"}, "it has the tag legal-hold"),
    ],
)
def test_one_tag_that_is_not_as_the_policy_says_keeps_it(tags: dict[str, str], why: str) -> None:
    assert kept_by_tags(SOURCE, tags) == why


def test_names_of_tags_are_told_apart_by_case() -> None:
    source = ObjectSource("s", "b", "exports/", lacks_tags=("keep",))

    assert kept_by_tags(source, {"Keep": "yes"}) is None
    assert kept_by_tags(source, {}) is None


def test_only_a_policy_about_tags_reads_any() -> None:
    assert SOURCE.reads_tags
    assert not ObjectSource("s", "b", "exports/").reads_tags
