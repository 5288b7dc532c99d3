"""Keys of the reference that this version does not build are refused, never ignored."""

from pathlib import Path

import pytest

from bestbefore.app.settings import ConfigError, later, load
from bestbefore.app.settings.schema import SECTIONS, available_keys

GOOD = """
[stores.exports]
kind = "s3"
[policies.weekly]
version = "v1"
older_than = "30d"
[policies.weekly.objects]
store = "exports"
bucket = "digests"
prefix = "exports/"
"""


def problems(tmp_path: Path, text: str) -> list[tuple[str, str]]:
    """Place and message of everything wrong with *text*."""
    file = tmp_path / "bestbefore.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    return [(".".join(p.place), p.message) for p in caught.value.problems]


NAMES = {"stores": "exports", "policies": "weekly"}


@pytest.mark.parametrize(
    "place", sorted((*home, key) for home, keys in later.KEYS.items() for key in keys)
)
def test_a_key_of_a_later_version_is_not_available_yet(
    tmp_path: Path, place: tuple[str, ...]
) -> None:
    *home, key = (NAMES[place[0]] if part == "*" else part for part in place)
    header = f"[{'.'.join(home)}]\n"
    text = GOOD if header in GOOD else f"{header}{GOOD}" if home else GOOD
    text = text.replace(header, f"{header}{key} = {{}}\n") if home else f"{key} = {{}}\n{GOOD}"

    found = problems(tmp_path, text)

    assert found == [(".".join([*home, key]), "not available yet")]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('[queue]\nkind = "sqs"\nqueue_url = "https://x"\n', "queue.kind"),
        ('[queue]\nkind = "rabbitmq"\n', "queue.kind"),
    ],
)
def test_a_value_of_a_later_version_is_the_only_problem(
    tmp_path: Path, text: str, place: str
) -> None:
    """What goes with a kind that is not available is not complained about on top."""
    [(where, message)] = problems(tmp_path, text)

    assert where == place
    assert message.endswith("is not available yet")


def test_no_key_is_both_available_and_not_available_yet() -> None:
    coming = {(*home, key) for home, keys in later.KEYS.items() for key in keys}

    assert later.KEYS.keys() <= SECTIONS.keys()
    assert not coming & available_keys()
