"""What `bestbefore init` writes."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bestbefore.app.settings import load
from bestbefore.app.settings.schema import SECTIONS, available_keys, general
from bestbefore.app.template import template

Place = tuple[str, ...]


def places(section: Mapping[str, Any], home: Place = ()) -> Iterator[Place]:
    """Every key in *section*, with authors' names replaced."""
    for key, value in section.items():
        place = general((*home, key))
        yield place
        if isinstance(value, dict) and key != "tags":  # whose names are the author's
            yield from places(value, (*home, key))


def test_the_template_is_a_good_configuration_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "bestbefore.toml"
    file.write_text(template())

    settings = load(file, {"EXPORTS_KEY_ID": "id", "EXPORTS_SECRET": "secret"})

    assert list(settings.policies) == ["weekly-digest-exports"]
    assert settings.warnings == ()


def test_the_template_has_every_key_that_works_and_no_other() -> None:
    switched_on = re.sub(r"(?m)^#(?=[a-z_]+ = |\[)", "", template())

    written = set(places(tomllib.loads(switched_on)))

    names = {place for place in written if place in SECTIONS and place[-1] == "*"}
    assert written - names == available_keys()


def test_switched_off_keys_show_their_defaults_where_there_is_one() -> None:
    switched_on = re.sub(r"(?m)^#(?=[a-z_]+ = |\[)", "", template())
    policy = tomllib.loads(switched_on)["policies"]["weekly-digest-exports"]
    fields = SECTIONS["policies", "*"].model_fields

    for key in ("first_run_limit", "priority", "catch_up"):
        assert policy[key] == fields[key].default
    assert policy["attempts"] == fields["attempts"].default.model_dump()


def test_every_key_has_a_comment_of_its_own_or_of_its_neighbours() -> None:
    """A block of keys between two comments is about one thing."""
    blocks = re.split(r"(?m)^(?:# .*|\[.*\]|)\n", template())

    assert max(len(block.splitlines()) for block in blocks) <= 7
