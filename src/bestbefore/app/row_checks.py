"""`check` of a policy about rows: can its table be walked, and what would go wrong or be slow?"""

from collections.abc import Iterator

from bestbefore.app.formats import row_format
from bestbefore.app.system import System
from bestbefore.domain.finding import Finding, Level
from bestbefore.domain.policy import Policy
from bestbefore.domain.rows import FileArchive
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.objects import StoreError
from bestbefore.stages.row_scan import RowSurvey
from bestbefore.stages.survey import PlanRefused


def checked(system: System, policy: Policy) -> Iterator[Finding]:
    """Everything worth saying about *policy*. Deletes and writes nothing."""
    place = f"policies.{policy.name}"
    try:
        found = _looked(system, policy)
    except PlanRefused as error:
        yield Finding("plan-refused", Level.ERROR, str(error), "")
        return
    except LedgerError as error:
        yield Finding("driver-missing", Level.ERROR, f"{place}: {error}", "")
        return
    except StoreError as error:
        yield Finding(
            f"database-{error.failure.failure_class}",
            Level.ERROR,
            f"{place}: {error}",
            f"look at databases.{policy.connection} and at the rights of its user",
        )
        return
    for finding in found:
        yield Finding(finding.code, finding.level, f"{place}: {finding.message}", finding.remedy)


def _looked(system: System, policy: Policy) -> list[Finding]:
    """What a look at the table tells. Raises what planning raises."""
    source, tables = policy.rows, system.tables(policy.connection)
    now = system.clock.now()
    target = RowSurvey(tables.reader).target(policy, now)
    return [
        Finding("table-read", Level.INFO, f"{target} can be walked", ""),
        *tables.reader.check(source, policy.older_than.before(now)),
        *tables.deleter.check(source),
        *(_files(system, source.archive) if isinstance(source.archive, FileArchive) else ()),
    ]


def _files(system: System, archive: FileArchive) -> Iterator[Finding]:
    """Whether rows can be written to their bucket. Raises LedgerError without the library for
    their format."""
    row_format(archive.format)
    try:
        system.store(archive.store).lister.describe(archive.bucket)
    except StoreError as error:
        yield Finding(
            "archive-missing",
            Level.ERROR,
            str(error),
            "create the bucket, or correct archive.bucket and the rights of "
            f"stores.{archive.store}",
        )
    else:
        yield from system.files(archive.store).check(archive.bucket, archive.prefix)
