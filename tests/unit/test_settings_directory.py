"""Stores of kind "directory": what they take, and what is refused before a folder is touched."""

from pathlib import Path

import pytest

from bestbefore.app.settings import ConfigError
from support.settings import Read

GOOD = """
[stores.files]
kind = "directory"
root = "/srv/data"
[policies.weekly]
version = "v1"
older_than = "30d"
[policies.weekly.objects]
store = "files"
bucket = "digests"
prefix = "exports/"
"""


def test_a_root_is_taken_as_it_stands_or_relative_to_the_file(read: Read, tmp_path: Path) -> None:
    assert read(GOOD).stores["files"].root == Path("/srv/data")
    assert read(GOOD.replace("/srv/data", "data")).stores["files"].root == tmp_path / "data"
    assert read(GOOD).stores["files"].endpoint_url is None


@pytest.mark.parametrize(
    ("old", "new", "place", "message", "remedy"),
    [
        ('root = "/srv/data"', "", "stores.files.root", "found none", 'add root = "/srv/data"'),
        ('"/srv/data"', '"  "', "stores.files.root", "expected a text", "write a value"),
        ('"/srv/data"', '"~/data"', "stores.files.root", "the plain path", "in full"),
        ('"/srv/data"', '"${DATA}"', "stores.files.root", "the value itself", "what it stands for"),
        ('"/srv/data"', '"/a\\u0000"', "stores.files.root", "the plain path", "in full"),
        ('"/srv/data"', '"/a"\nregion = "x"', "stores.files.region", "has none", 'kind = "s3"'),
        (
            '"/srv/data"',
            '"/a"\naccess_key_id = "k"',
            "stores.files.access_key_id",
            "has none",
            "remove it",
        ),
        (
            '"/srv/data"',
            '"/a"\nendpoint_url_env = "K"',
            "stores.files.endpoint_url_env",
            "has none",
            "remove it",
        ),
        ('"directory"', '"s3"', "stores.files.root", 'kind "s3" has none', 'kind = "directory"'),
        ('"digests"', '"."', "policies.weekly.objects.bucket", "the name of a bucket", "alone"),
        ('"digests"', '".."', "policies.weekly.objects.bucket", "the name of a bucket", "alone"),
        ('"digests"', '"a/b"', "policies.weekly.objects.bucket", "the name of a bucket", '"a"'),
        ('"exports/"', '"/exports/"', "policies.weekly.objects.prefix", "below the bucket", "//"),
        ('"exports/"', '"a//"', "policies.weekly.objects.prefix", "below the bucket", "names"),
        ('"exports/"', '"a/../b/"', "policies.weekly.objects.prefix", "below the bucket", '".."'),
        ('"exports/"', '"./a/"', "policies.weekly.objects.prefix", "below the bucket", '"."'),
        (
            'prefix = "exports/"',
            'prefix = "exports/"\nfolder_markers = "keep"',
            "policies.weekly.objects.folder_markers",
            "no such thing",
            "remove folder_markers",
        ),
        (
            'prefix = "exports/"',
            'prefix = "exports/"\ngeneration = \'(?P<generation>.)\'\ncurrent_pointer = "../now"',
            "policies.weekly.objects.current_pointer",
            "below the bucket",
            '".."',
        ),
    ],
)
def test_one_wrong_key_is_one_problem_at_its_place(
    read: Read, old: str, new: str, place: str, message: str, remedy: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(GOOD.replace(old, new))
    [problem] = caught.value.problems
    assert ".".join(problem.place) == place
    assert message in problem.message
    assert remedy in problem.remedy


def test_no_policy_describes_the_ledger_or_the_file_it_stands_in(
    read: Read, tmp_path: Path
) -> None:
    """One day both would be older than 30 days."""
    here = GOOD.replace("/srv/data", str(tmp_path.parent)).replace("digests", tmp_path.name)
    whole = here.replace('prefix = "exports/"', "whole_bucket = true")
    assert read(here)
    with pytest.raises(ConfigError) as caught:
        read(whole)
    [ledger, evidence, file] = caught.value.problems
    assert "bestbefore-evidence" in evidence.message
    assert "bestbefore.db" in ledger.message
    assert "bestbefore.toml" in file.message
    with pytest.raises(ConfigError, match="evidence lies among the files"):
        read(here.replace("exports/", "bestbefore-evidence/"))
    with pytest.raises(ConfigError, match="the ledger lies among the files"):
        read('[state]\nurl = "sqlite:///exports/ledger.db"\n' + here)


def test_a_link_to_the_ledgers_folder_does_not_hide_it(read: Read, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(tmp_path.parent)
    text = GOOD.replace("/srv/data", "linked").replace("digests", tmp_path.name)
    with pytest.raises(ConfigError, match="lies among the files"):
        read(text.replace('prefix = "exports/"', "whole_bucket = true"))
