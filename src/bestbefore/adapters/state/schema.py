"""The tables.

Times are microseconds since 1970 in UTC and operation ids are 32 bytes, both for size: a cleanup
of a million objects is a million rows. The embedded queue *is* the operation row (``due_at``,
``token``, ``deliveries``), so publishing is an update of a range and recording is the ack.

Migrations make the tables. What only PostgreSQL is told of them stands in ``info``: as a keyword it
would have SQLAlchemy import that whole dialect, in every process, whatever the ledger is on.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData()

UNSETTLED = "version_id IS NOT NULL AND (state <> 'completed' OR candidate_of IS NOT NULL)"
TIED = "follows AND held"
"""Conditions of partial indexes; a query has to repeat them word for word to use them."""

# SQLite only grows an INTEGER PRIMARY KEY by itself; elsewhere a million a night wants 64 bits.
_Row = BigInteger().with_variant(Integer, "sqlite")


def _partial(name: str, *columns: str, where: str) -> Index:
    """An index of the rows that *where* is true of."""
    condition = text(where)
    return Index(name, *columns, sqlite_where=condition, info={"postgresql_where": condition})


policies = Table(
    "policies",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String, nullable=False),
    Column("version", String, nullable=False),
    Column("owner", String, nullable=False),
    Column("connection", String, nullable=False),
    Column("bucket", String, nullable=False),
    Column("action", String, nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("decides", Text, nullable=False),  # JSON, to name what changed
    Column("current", Boolean, nullable=False),
    Column("planned_at", BigInteger, nullable=False),
    Column("versions", String),  # what goes in a bucket that keeps versions
    Column("about_rows", Boolean, nullable=False, server_default=text("false")),
    UniqueConstraint("name", "version"),
)

runs = Table(
    "runs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run_id", String(12), nullable=False, unique=True),
    Column("policy_id", ForeignKey("policies.id"), nullable=False),
    Column("slot", BigInteger, nullable=False),
    Column("first_slot", BigInteger, nullable=False),  # the oldest one whose work it took over
    Column("cutoff", BigInteger, nullable=False),
    Column("state", String, nullable=False),
    Column("trigger", String, nullable=False),
    Column("approved", Boolean, nullable=False),
    Column("inherited", Text),  # why the run it took over was parked
    Column("early", Boolean, nullable=False),  # releases page by page
    Column("complete", Boolean, nullable=False),
    Column("released_at", BigInteger),
    Column("target", Text, nullable=False),
    Column("reason", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("planner_token", BigInteger),
    Column("planner_until", BigInteger),
    Column("cursors", Text),  # JSON: what is left of each key range
    Column("scanned", BigInteger, nullable=False, server_default=text("0")),
    Column("in_scope", BigInteger, nullable=False, server_default=text("0")),
    Column("already_pending", BigInteger, nullable=False, server_default=text("0")),
    Column("already_completed", BigInteger, nullable=False, server_default=text("0")),
    Column("already_dead", BigInteger, nullable=False, server_default=text("0")),
    Column("reappeared", BigInteger, nullable=False, server_default=text("0")),
    Column("refused", BigInteger, nullable=False, server_default=text("0")),
    Column("planned", BigInteger, nullable=False, server_default=text("0")),
    Column("waiting", BigInteger, nullable=False, server_default=text("0")),
    Column("pending", BigInteger, nullable=False, server_default=text("0")),
    Column("completed", BigInteger, nullable=False, server_default=text("0")),
    Column("dead", BigInteger, nullable=False, server_default=text("0")),
    # Of the completed ones: those whose operations upkeep has exported and taken out.
    Column("pruned", BigInteger, nullable=False, server_default=text("0")),
    Column("held", BigInteger, nullable=False, server_default=text("0")),  # of the pending ones
    Column("rows", BigInteger, nullable=False, server_default=text("0")),  # in the planned batches
    Column("created_by", String),
    Column("drained_at", BigInteger),  # for the last time
    Column("proof_until", BigInteger),  # the lease of who verifies it; never ends once that is done
    Column("own_table", String),  # of a policy about rows, as the database writes it
    # The most that any batch of it may remove or change beside its own rows.
    Column("most_dependents", BigInteger, nullable=False, server_default=text("0")),
    UniqueConstraint("policy_id", "slot"),  # the lock on a slot
    info={"postgresql_with": {"fillfactor": 30}},
)

tallies = Table(
    "run_tallies",
    metadata,
    Column("run_id", ForeignKey("runs.id"), primary_key=True),
    # protected | outcome | retried | republished | uploads | rows, and by table: dependents |
    # changed | referenced | planned_removed | planned_changed | planned_younger | planned_ageless
    Column("kind", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("n", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False, server_default=text("0")),
    sqlite_with_rowid=False,
    info={"postgresql_with": {"fillfactor": 30}},
)

policy_counts = Table(
    "policy_counts",
    metadata,
    Column("policy_id", ForeignKey("policies.id"), primary_key=True),
    Column("kind", String, primary_key=True),  # see `bestbefore.domain.counts.Count`
    Column("name", String, primary_key=True),
    Column("n", BigInteger, nullable=False),
    Column("amount", BigInteger, nullable=False),  # bytes, or microseconds
    sqlite_with_rowid=False,
    info={"postgresql_with": {"fillfactor": 30}},
)

generations = Table(
    "run_generations",
    metadata,
    Column("run_id", ForeignKey("runs.id"), primary_key=True),
    Column("name", String, primary_key=True),
    Column("youngest", BigInteger, nullable=False),
    Column("prefix", String, nullable=False),
    Column("kept", Boolean, nullable=False),
    sqlite_with_rowid=False,
)

newest = Table(
    "run_newest",
    metadata,
    Column("run_id", ForeignKey("runs.id"), primary_key=True),
    Column("name", String, primary_key=True),
    Column("kept", Text, nullable=False),  # JSON: the newest N seen so far
    sqlite_with_rowid=False,
)

# What a person is shown of a run: gathered while it is planned, so that a screen counts nothing.
previews = Table(
    "run_previews",
    metadata,
    Column("run_id", ForeignKey("runs.id"), primary_key=True, autoincrement=False),
    Column("stays", Text),  # JSON: what the scan left where it is, by reason and prefix
    Column("shown", Text),  # JSON: the preview, once the run is parked
)

operations = Table(
    "operations",
    metadata,
    Column("id", _Row, primary_key=True),
    Column("operation_id", LargeBinary(32), nullable=False, unique=True),
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    Column("policy_id", ForeignKey("policies.id"), nullable=False),
    Column("state", String, nullable=False),
    Column("key", Text, nullable=False),
    Column("etag", String, nullable=False),
    Column("last_modified", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    Column("generation", String),
    Column("due_at", BigInteger),  # of a claimed one: when its lease runs out
    Column("token", BigInteger),
    Column("deliveries", SmallInteger, nullable=False),
    Column("company", Integer),  # how many were claimed with it, at most
    # Its run was cancelled while a worker had it in hand.
    Column("cancelled", Boolean, nullable=False, server_default=text("false")),
    Column("outcome", String),
    Column("completed_at", BigInteger),
    Column("completed_by", String),
    Column("budget", Text),  # JSON; null until an attempt failed
    Column("failure_class", String),
    Column("error", Text),
    Column("first_failed_at", BigInteger),
    Column("last_failed_at", BigInteger),
    Column("redriven", SmallInteger, nullable=False, server_default=text("0")),
    Column("reappearances", SmallInteger, nullable=False, server_default=text("0")),
    # A run that wants to plan an ended operation again, but has not decided yet.
    Column("candidate_of", Integer),
    Column("corrects", _Row),  # the operation a person put this one in place of
    Column("reason", Text),  # what kept a protected one
    Column("upload_id", String),  # of an unfinished upload
    # Its copy in the archive, and the last time that was copied back.
    Column("copied_at", BigInteger),
    Column("archive_key", Text),
    Column("archive_etag", String),
    Column("restored_at", BigInteger),
    Column("restored_etag", String),
    Column("version_id", String),
    # The newest entry of its key, which must not go before those under it.
    Column("follows", Boolean, nullable=False, server_default=text("false")),
    # Pending, and waits for a lock or for what lies under it; `due_at` may be as good as never.
    Column("held", Boolean, nullable=False, server_default=text("false")),
    Column("incident", LargeBinary(16)),  # of a dead one
    # Of a pending one that is at a broker, or about to be: since when. `due_at` is when it is sent
    # again; it is null once anybody claims it.
    Column("sent_at", BigInteger),
    _partial("operations_sent", "policy_id", "sent_at", where="sent_at IS NOT NULL"),
    _partial("operations_waiting", "run_id", "id", where="state = 'waiting'"),
    _partial("operations_due", "policy_id", "due_at", where="state = 'pending'"),
    _partial("operations_dead", "policy_id", "first_failed_at", where="state = 'dead'"),
    _partial("operations_dead_by_class", "policy_id", "failure_class", "first_failed_at",
             where="state = 'dead'"),
    _partial("operations_incident", "incident", "first_failed_at", where="state = 'dead'"),
    _partial("operations_candidates", "candidate_of", where="candidate_of IS NOT NULL"),
    _partial("operations_corrects", "corrects", where="corrects IS NOT NULL"),
    # Of buckets that keep versions only, so that the others pay nothing for them.
    _partial("operations_unsettled", "policy_id", "key", where=UNSETTLED),
    _partial("operations_tied", "policy_id", "key", where=TIED),
    info={"postgresql_with": {"fillfactor": 70, "autovacuum_vacuum_scale_factor": 0.01,
                              "autovacuum_analyze_scale_factor": 0.02}},
)  # fmt: skip

# What only operations on row batches have; of objects there is nothing here.
row_batches = Table(
    "row_batches",
    metadata,
    Column("operation", ForeignKey("operations.id"), primary_key=True, autoincrement=False),
    Column("policy_id", ForeignKey("policies.id"), nullable=False),
    Column("first", Text, nullable=False),
    Column("last", Text, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("oldest", BigInteger, nullable=False),
    Column("walk", String, nullable=False),
    Column("shape", String, nullable=False),
    Column("parent", ForeignKey("operations.id")),  # the operation that was split into this one
    # What it changed, null until that is known.
    Column("deleted", BigInteger),
    Column("archived", BigInteger),
    Column("blocked", BigInteger),
    Column("dependents", Text),  # JSON: rows removed by table
    Column("replayed", Boolean),
    Column("seconds", Float),
    # As planned. JSON: table, removed, changed, younger of each; null where it has none, and where
    # 0.1 counted none.
    Column("planned_dependents", Text),
    Column("changed", Text),  # as its effect; JSON: rows changed by table
    _partial("row_batches_parts", "parent", where="parent IS NOT NULL"),
    _partial("row_batches_effective", "policy_id", "operation", where="seconds IS NOT NULL"),
)  # fmt: skip

failures = Table(
    "failures",
    metadata,
    Column("id", _Row, primary_key=True),
    Column("operation", ForeignKey("operations.id"), nullable=False, index=True),
    Column("at", BigInteger, nullable=False),
    Column("failure_class", String, nullable=False),
    Column("error", Text, nullable=False),
    Column("by", String, nullable=False),
)

# How many dead letters of a policy version have one cause.
incidents = Table(
    "incidents",
    metadata,
    Column("incident", LargeBinary(16), primary_key=True),
    Column("policy_id", ForeignKey("policies.id"), primary_key=True),
    Column("failure_class", String, nullable=False),
    Column("error", Text, nullable=False),  # without what differs from one to the next
    Column("n", BigInteger, nullable=False),
    Column("first_at", BigInteger, nullable=False),
    Column("last_at", BigInteger, nullable=False),
    Index("incidents_by_size", "n"),
    sqlite_with_rowid=False,
)

# Messages that execute nothing, until a person discards them.
strays = Table(
    "strays",
    metadata,
    Column("id", LargeBinary(32), primary_key=True),  # SHA-256 of all its bytes
    Column("body", LargeBinary, nullable=False),  # the first of them
    Column("size", BigInteger, nullable=False),
    Column("failure_class", String, nullable=False),
    Column("error", Text, nullable=False),
    Column("received", BigInteger, nullable=False),  # how often it was met
    Column("first_at", BigInteger, nullable=False),
    Column("last_at", BigInteger, nullable=False),
    Index("strays_by_age", "first_at", "id"),
)

events = Table(
    "events",
    metadata,
    Column("id", _Row, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("by", String, nullable=False),
    Column("action", String, nullable=False),
    Column("policy", String),
    Column("run_id", String(12)),
    Column("operation_id", LargeBinary(32)),
    Column("detail", Text, nullable=False),
    Index("events_by_action", "action", "id"),
    Index("events_by_person", "by", "id"),
    Index("events_by_policy", "policy", "id"),
)

pauses = Table(
    "pauses",
    metadata,
    Column("policy", String, primary_key=True),  # "" means every policy
    Column("reason", Text, nullable=False),
    Column("until", BigInteger),
    Column("by", String, nullable=False),
    Column("at", BigInteger, nullable=False),
)

holds = Table(
    "holds",
    metadata,
    Column("hold_id", String(12), primary_key=True),
    Column("policy", String),  # this, or the four that follow
    Column("store", String),
    Column("place", Text),  # where that store was
    Column("bucket", String),
    Column("prefix", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("until", BigInteger),
    Column("by", String, nullable=False),
    Column("at", BigInteger, nullable=False),
)

breakers = Table(
    "breakers",
    metadata,
    Column("connection", String, primary_key=True),
    Column("reason", Text, nullable=False),
    Column("opened_at", BigInteger, nullable=False),
    Column("next_probe_at", BigInteger, nullable=False),
    Column("interval", Float, nullable=False),  # seconds until the probe after that
)

verifications = Table(
    "verifications",
    metadata,
    Column("policy", String, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("overdue", BigInteger, nullable=False),
    Column("oldest_overdue", BigInteger),
    Column("held", BigInteger, nullable=False),
)

# What was left to do, by policy and minute, for the time a chart shows.
backlogs = Table(
    "backlogs",
    metadata,
    Column("policy", String, primary_key=True),
    Column("at", BigInteger, primary_key=True),
    Column("backlog", BigInteger, nullable=False),
    Index("backlogs_by_time", "at"),
    sqlite_with_rowid=False,
)

# Who is signed in to the dashboard. The cookie itself is stored nowhere.
sessions = Table(
    "sessions",
    metadata,
    Column("digest", LargeBinary(32), primary_key=True),
    Column("token", LargeBinary(32), nullable=False),  # its digest
    Column("until", BigInteger, nullable=False),
)

upkeep = Table(
    "upkeep",
    metadata,
    Column("id", Integer, primary_key=True),  # one row: one pass at a time
    Column("started_at", BigInteger),  # null between two passes
    Column("finished_at", BigInteger),
    Column("token", BigInteger),
    Column("until", BigInteger),
    Column("looked_at", _Row, nullable=False),  # operations up to this one were looked at
    Column("export", String),  # a file that may list rows that are still here
    Column("operations", BigInteger, nullable=False),  # pruned by this pass, or by the last one
    Column("events", BigInteger, nullable=False),
    Column("error", Text),
    Column("failed_at", BigInteger),
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", Integer, primary_key=True),  # one row
    Column("queue", Text, nullable=False),  # where operations are sent
    Column("since", BigInteger),  # and since when
)

row_slots = Table(
    "row_slots",
    metadata,
    Column("connection", String, primary_key=True),
    Column("holder", String, primary_key=True),
    Column("slots", Integer, nullable=False),  # batches it may run at a time
    Column("wanted", Integer, nullable=False),
    Column("since", BigInteger, nullable=False),  # its place in line
    Column("served", BigInteger, nullable=False),  # since when it has any
    Column("until", BigInteger, nullable=False),
)

row_paces = Table(
    "row_paces",
    metadata,
    Column("connection", String, primary_key=True),
    # Rows that went and that the rate has not paid for, as of `at`.
    Column("debt", Float, nullable=False, server_default=text("0")),
    Column("at", BigInteger, nullable=False),
    Column("stirred_at", BigInteger, nullable=False, server_default=text("0")),
    # Those that came back well since the slow start, and when somebody last had any.
    Column("batches", Integer, nullable=False, server_default=text("0")),
    Column("held_at", BigInteger, nullable=False, server_default=text("0")),
    Column("reason", Text),  # what all work on it waits for
    Column("until", BigInteger),
    Column("said_at", BigInteger, nullable=False, server_default=text("0")),
)

tokens = Table(
    "tokens",
    metadata,
    Column("name", String, primary_key=True),
    Column("digest", LargeBinary(32), nullable=False, unique=True),  # of the token, never itself
    Column("scopes", String, nullable=False),
    Column("until", BigInteger),
    Column("by", String, nullable=False),
    Column("at", BigInteger, nullable=False),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("sender_id", String, primary_key=True),
    Column("until", BigInteger, nullable=False, index=True),
)

answers = Table(
    "answers",
    metadata,
    Column("key", LargeBinary(32), primary_key=True),
    Column("request", LargeBinary(32), nullable=False),
    Column("status", Integer),  # of the answer, once there is one
    Column("body", LargeBinary),
    Column("until", BigInteger, nullable=False, index=True),
)

schedules = Table(
    "schedules",
    metadata,
    Column("policy", String, primary_key=True),
    # All three, as two files may be in use at the same time.
    Column("schedule", String, primary_key=True),
    Column("timezone", String, primary_key=True),
    Column("since", BigInteger, nullable=False),  # nothing before was expected
    Column("looked_at", BigInteger, nullable=False),  # slots up to then are noted
)

# Those that no run had answered when they were noted. What a run answers, its row tells.
slots = Table(
    "slots",
    metadata,
    Column("policy", String, primary_key=True),
    Column("slot", BigInteger, primary_key=True),
    Column("trouble", Text),  # why the last try to plan it failed
    Column("verdict", String),  # missed | skipped, once that is certain
    Column("reason", Text),
    Column("noticed_at", BigInteger),
)

# Triggers that came through a queue, by what became of them.
trigger_counts = Table(
    "trigger_counts",
    metadata,
    Column("fate", String, primary_key=True),
    Column("n", BigInteger, nullable=False),
)

endpoints = Table(
    "endpoints",
    metadata,
    Column("endpoint", String, primary_key=True),
    Column("bucket", String, primary_key=True),  # "" means all of the endpoint
    Column("capability", String, primary_key=True),
    Column("value", String, nullable=False),
    Column("server", String, nullable=False),  # what it called itself then
    Column("learnt_at", BigInteger, nullable=False),
)

# Whole runs of `gate`, by what they were about.
gate_runs = Table(
    "gate_runs",
    metadata,
    Column("id", _Row, primary_key=True),
    Column("connections", LargeBinary(32), nullable=False),  # SHA-256 of their kinds and places
    Column("at", BigInteger, nullable=False),
    Column("passed", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("not_applicable", Integer, nullable=False),
    Column("version", String, nullable=False),
    Column("by", String, nullable=False),
    Column("seconds", Float, nullable=False),
    Index("gate_runs_by_connections", "connections", "id"),
)
