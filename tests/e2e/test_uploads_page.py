"""What ``docs/uploads.md`` says to type, on a real S3 server."""

import time
from pathlib import Path

from bestbefore.adapters.objects.s3.seaweed import ADMIN, Seaweed
from support.cli import Cli
from support.docs import commands, configurations
from support.forks import Forks, until


def test_what_the_page_says_to_type_aborts_old_uploads_and_leaves_young_ones(
    tmp_path: Path, forks: Forks, seaweed: Seaweed, bucket: str
) -> None:
    (text,) = configurations("uploads.md")
    for written, meant in (
        ("http://127.0.0.1:8333", seaweed.endpoint),
        ('"weekly-digests"', f'"{bucket}"'),
        ('"30d"', '"10s"'),
    ):
        assert written in text
        text = text.replace(written, meant)
    cli = Cli(tmp_path, forks, seaweed.endpoint)
    (tmp_path / "bestbefore.toml").write_text(text)
    env = {"EXPORTS_KEY_ID": ADMIN.access_key_id, "EXPORTS_SECRET": ADMIN.secret_access_key}
    client = seaweed.client()

    def begin(key: str) -> str:
        return str(client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"])

    old = [begin(f"exports/{name}") for name in ("a b+%2B", "a b+%2B", "größe")]
    client.upload_part(
        Bucket=bucket, Key="exports/größe", UploadId=old[-1], PartNumber=1, Body=b"part"
    )
    client.put_object(Bucket=bucket, Key="exports/old.json", Body=b"old")
    outside = begin("other/a")
    began = time.time()
    until(lambda: time.time() > began + 11.1, what="the clock")
    dry_run, run, verify = commands("uploads.md")
    assert "3 unfinished ones among these, 3 eligible" in cli(*dry_run, env=env).out
    young = begin("exports/größe")  # long enough before its slot, on any machine
    said = cli(*run, env=env).out
    assert "4 unfinished ones among these, 3 eligible" in said
    assert "4 deleted" in said
    assert "nothing overdue" in cli(*verify, env=env).out
    left = client.list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert {upload["UploadId"] for upload in left} == {outside, young}
    assert "Contents" not in client.list_objects_v2(Bucket=bucket)
