"""What `check` says about an endpoint: one finding per capability."""

from collections.abc import Callable, Iterator, Mapping

from bestbefore.adapters.objects.s3.conditions import Call, Condition, Conditions
from bestbefore.adapters.objects.s3.traits import Capability, Traits, looks_like
from bestbefore.domain.finding import Finding, Level
from bestbefore.domain.identity import instant
from bestbefore.ports.endpoints import Learnt

_CONDITIONS: Mapping[Condition, Callable[[str], Finding]] = {
    Condition.HONOURED: lambda call: Finding(
        "conditions-honoured",
        Level.INFO,
        f"{call} honours conditions: only what was seen is deleted",
        "",
    ),
    Condition.IGNORED: lambda call: Finding(
        "conditions-ignored",
        Level.WARNING,
        f"{call} ignores conditions; a fresh look right before each delete decides instead",
        "nothing to do, but an overwrite in the moment between the two is not noticed",
    ),
    Condition.REFUSED: lambda call: Finding(
        "conditions-refused",
        Level.WARNING,
        f"{call} does not know conditions; a fresh look right before each delete decides instead",
        "nothing to do, but an overwrite in the moment between the two is not noticed",
    ),
    Condition.NO_CALL: lambda call: Finding(
        "multi-delete-missing",
        Level.INFO,
        f"{call} is not known here: each object gets a DELETE of its own",
        "",
    ),
    Condition.UNPROVEN: lambda call: Finding(
        "delete-unproven",
        Level.WARNING,
        f"{call} could not be probed: deleting a key that does not exist was denied, or failed",
        "look whether these keys may delete (s3:DeleteObject, s3:GetObject) under the prefix",
    ),
}


def findings(traits: Traits, conditions: Conditions, bucket: str, prefix: str) -> Iterator[Finding]:
    """Probe, and say what deletes under *prefix* rely on, and since when that is known.

    Rights change, and stores get better: what was learnt earlier does not answer for now.
    """
    for call in Call:
        condition, learnt = conditions.asked_anew(bucket, call, prefix)
        found = _CONDITIONS[condition](call.value)
        yield Finding(found.code, found.level, found.message + _since(learnt), found.remedy)
    yield _info("store-looks-like", f"it looks like {looks_like(traits.store)}" + _notes(traits))
    limit = traits.found(Capability.BATCH_LIMIT)
    yield _info("batch-limit", f"a DeleteObjects holds at most {traits.batch_limit:,} keys", limit)
    md5 = traits.found(Capability.CONTENT_MD5)
    sends = "is sent with" if traits.sends_md5 else "was not asked for and is not sent with"
    yield _info("content-md5", f"Content-MD5 {sends} DeleteObjects", md5)
    encoding = traits.found(Capability.URL_ENCODING)
    how = "are asked for url-encoded" if encoding is None else "cannot be url-encoded here"
    yield _info("listing-encoding", f"keys in listings {how}", encoding)


def _info(code: str, message: str, learnt: Learnt | None = None) -> Finding:
    return Finding(code, Level.INFO, message + _since(learnt), "")


def _since(learnt: Learnt | None) -> str:
    return f"; learnt {instant(learnt.learnt_at)}" if learnt else ""


def _notes(traits: Traits) -> str:
    return f": {traits.store.notes}" if traits.store else ""
