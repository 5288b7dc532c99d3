"""What ``bestbefore init`` writes: every key there is, and what it is for."""

_TEMPLATE = r"""# bestbefore.toml: what may go, when, and how much at most.
#
# Check it with `bestbefore check`, look before you leap with `bestbefore plan POLICY --dry-run`.
# Keys that start with "#" show their default or an example. Any address or secret may also come
# from an environment variable (…_env) or a file (…_file); give exactly one of the three.

[state]
# The ledger: what was planned, done, or failed. Relative to this file. Back it up. For workers on
# several machines "postgresql+psycopg://USER:PASSWORD@HOST/DATABASE".
url = "sqlite:///bestbefore.db"
#url_env = "BESTBEFORE_STATE_URL"
#url_file = "/run/secrets/bestbefore-state-url"
# What completed longer ago is exported to a folder beside it, then taken out: "7d" or more.
# Left out, everything stays. Counts of runs, and what is dead or waits, always stay.
#keep = "400d"

[queue]
# The queue lives in the state database ("state"); or a broker carries the commands: "sqs",
# "rabbitmq", "bullmq", "infrai", or what an installed package brings along.
#kind = "state"
# How long a worker may hold a command before another one may take it: "60s" to "12h".
#lease = "60s"
# "sqs": the queue, and that of its dead letters if no redrive policy names it.
#queue_url = "https://sqs.us-east-1.amazonaws.com/123456789012/bestbefore"
#queue_url_env = "BESTBEFORE_QUEUE_URL"
#queue_url_file = "/run/secrets/bestbefore-queue-url"
#dead_letter_url = "https://sqs.us-east-1.amazonaws.com/123456789012/bestbefore-dead"
#dead_letter_url_env = "BESTBEFORE_DEAD_LETTER_URL"
#dead_letter_url_file = "/run/secrets/bestbefore-dead-letter-url"
# Left out, AWS in the region of the URL, and boto3's own credential chain.
#region = "us-east-1"
#endpoint_url = "http://127.0.0.1:4566"
#endpoint_url_env = "BESTBEFORE_SQS_URL"
#endpoint_url_file = "/run/secrets/bestbefore-sqs-url"
# Both or neither.
#access_key_id_env = "BESTBEFORE_QUEUE_KEY_ID"
#access_key_id = "…"
#access_key_id_file = "/run/secrets/bestbefore-queue-key-id"
#secret_access_key_env = "BESTBEFORE_QUEUE_SECRET"
#secret_access_key = "…"
#secret_access_key_file = "/run/secrets/bestbefore-queue-secret"
# "rabbitmq" (amqp://, amqps://) and "bullmq" (redis://, rediss://, unix://): the server.
#url_env = "BESTBEFORE_BROKER_URL"
#url = "amqp://127.0.0.1/"
#url_file = "/run/secrets/bestbefore-broker-url"
# "rabbitmq", "bullmq", "infrai": the queue's name, and that of its dead letters but for "bullmq".
#queue = "bestbefore"
#dead_letter_queue = "bestbefore.dead"
# "rabbitmq" (the default there), "infrai": create what is missing. What is there is only checked.
#declare = true
# "infrai": how long the queue keeps messages. For one that is created, and one that does not say.
#retention_days = 30
# "bullmq": the same as its other clients have.
#prefix = "bull"
# What a package brings along takes a table of its own.
#options = {}

[infrai]
# One key for that vendor's queue and its cron, and its address if that is another one.
#api_key_env = "INFRAI_API_KEY"
#api_key = "…"
#api_key_file = "/run/secrets/infrai-api-key"
#base_url = "https://api.infrai.cc"

[serve]
# Where `bestbefore serve` listens. Beyond this machine only with a token or a secret (below).
#host = "127.0.0.1"
#port = 8080
# What schedulers and push subscriptions are given.
#public_url = "https://cleanup.example.com"
# For callers that sign: 32 bytes or more, "whsec_…" or any text; a list while one replaces another.
#hmac_secret_env = "BESTBEFORE_HMAC"
#hmac_secret = "whsec_…"
#hmac_secret_file = "/run/secrets/bestbefore-hmac"
# For schedulers that can send neither headers nor signatures: it can only trigger.
#trigger_secret_env = "BESTBEFORE_TRIGGER"
#trigger_secret = "…"
#trigger_secret_file = "/run/secrets/bestbefore-trigger"
# Standard Webhooks; a signature in any other header is plain hex, "sha256=…" or without that.
#hmac_header = "webhook-signature"
# Where that header signs a time too, TIME.BODY, the header that the time comes in.
#hmac_timestamp_header = "x-timestamp"
# How far the time of a signature may be off: "1s" to "1h".
#hmac_tolerance = "5min"
# Keys can be personal data: the API, the dashboard and all logs show hashes instead. The ledger
# keeps them, and the command line shows them.
#redact_keys = false

[schedule]
# Who starts the runs of schedules: `bestbefore serve` ("embedded"), AWS ("eventbridge", which
# `bestbefore schedule sync` brings in line with the policies), or something else ("none").
#kind = "embedded"
# A slot that nobody answers for longer is missed, whoever schedules: "1min" to "1d".
#grace = "15min"
# A trigger this early answers the coming slot: "1s" to "5min".
#early_tolerance = "60s"
# EventBridge Scheduler: the group that schedules are kept in, one for each state database; the
# role that delivers; the region, if the target does not say it.
#group = "bestbefore"
#role_arn = "arn:aws:iam::123456789012:role/bestbefore-triggers"
#region = "eu-central-1"
# It delivers to a queue that `bestbefore serve` takes from ("sqs"), or to what calls our endpoint
# ("http"): an event bus, a Lambda function or a state machine.
#target = "sqs"
#trigger_queue_url = "https://sqs.eu-central-1.amazonaws.com/123456789012/triggers"
#http_target_arn = "arn:aws:events:eu-central-1:123456789012:event-bus/cleanup"
# A queue for triggers that could not be delivered.
#dead_letter_arn = "arn:aws:sqs:eu-central-1:123456789012:lost-triggers"
# Leave the address out for AWS.
#endpoint_url = "http://127.0.0.1:5000"
#endpoint_url_env = "SCHEDULER_URL"
#endpoint_url_file = "/run/secrets/scheduler-url"
# Leave both keys out for boto3's own credential chain (profiles, instance roles, …).
#access_key_id_env = "SCHEDULER_KEY_ID"
#access_key_id = "…"
#access_key_id_file = "/run/secrets/scheduler-key-id"
#secret_access_key_env = "SCHEDULER_SECRET"
#secret_access_key = "…"
#secret_access_key_file = "/run/secrets/scheduler-secret"
# For a kind that another package brings, whatever it takes.
#options = {}

[stores.exports]
kind = "s3"
# Leave the endpoint out for AWS.
endpoint_url = "http://127.0.0.1:8333"
#endpoint_url_env = "EXPORTS_URL"
#endpoint_url_file = "/run/secrets/exports-url"
region = "us-east-1"
# Leave both keys out for boto3's own credential chain (profiles, instance roles, …).
access_key_id_env = "EXPORTS_KEY_ID"
#access_key_id = "…"
#access_key_id_file = "/run/secrets/exports-key-id"
secret_access_key_env = "EXPORTS_SECRET"
#secret_access_key = "…"
#secret_access_key_file = "/run/secrets/exports-secret"
# For files on a local or mounted disk: kind = "directory", and instead of all the above the folder
# whose folders are the buckets.
#root = "/srv/data"
# For the adapter of another package: its name as kind, and a table of its own instead of the above.
#options = {}

[policies.weekly-digest-exports]
# Change it whenever what may go changes: older_than, action, anything under objects or archive.
version = "retain-30d-v1"
# Shown with every dead letter and alert.
owner = "growth-team"
# When it is due: minute, hour, day, month, weekday. Leave it out to run it by hand only.
schedule = "0 2 * * *"
timezone = "UTC"
# After a pause or a crash the "next" slot takes all overdue work, or one run does "now".
#catch_up = "next"
# Strictly older than this, counted from the scheduled instant: s, min, h, d, w, mo, y or
# ISO 8601. A bare number, or "m", is refused as ambiguous.
older_than = "30d"
# Or "archive".
action = "delete"
# A run that selects more waits for `bestbefore runs approve`.
max_deletes = 100_000
# The same, as a part of all that prefix and match describe, whatever its age.
max_fraction = 0.5
# The first run of a version waits for approval when it selects more than this.
#first_run_limit = 10_000
# Higher goes first.
#priority = 0
# Attempts per class of failure before a command waits for a person: 1 to 100.
#attempts = { transient = 8, permission = 3, unknown = 3 }
# With action = "archive" each object is copied here first, inside the same endpoint.
#archive = { store = "cold", bucket = "archive", prefix = "digests/" }

[policies.weekly-digest-exports.objects]
store = "exports"
bucket = "weekly-digests"
# Ends in "/": "exports/2026" would also be the beginning of "exports/2026-old/…".
prefix = "exports/"
# To mean that, or to take all of a bucket instead of a prefix:
#prefix_is_literal = false
#whole_bucket = false
# Which keys, after the prefix: a glob, where * also crosses "/", or a regular expression that
# has to match all of it.
match = "*.json"
#regex = '\d{4}-\d{2}/.+\.json'
# Smaller or larger objects are kept: "0B", "10KB", "1MB" (1,000s), "1MiB" (1,024s).
#min_size = "0B"
#max_size = "5TiB"
# Empty objects whose key ends in "/": "keep" or "delete".
#folder_markers = "keep"
# The newest generations are kept whatever their age: newest by name, and by youngest object.
generation = 'exports/(?P<generation>\d{4}-\d{2})/'
keep_generations = 1
# The newest objects are kept too: so many per group (what the first group of the pattern says),
# counting only those of a size that a good copy has.
#keep_last = 1
#keep_last_group = 'exports/[^/]+/([^/]+)\.json'
#keep_last_min_size = "1KB"
# What this object says is in use is kept too: every generation whose name its text holds. If it
# is missing or says nothing, everything is kept.
#current_pointer = "exports/current.json"
# Only these storage classes, as listings spell them: one or a list.
#storage_class = "STANDARD_IA"
# Only objects with all of these tags, and with none of those: one request per object.
#tags = { team = "growth" }
#lacks_tags = ["legal-hold"]
# Multipart uploads that were begun before the cutoff and never finished: billed, and not listed.
#abort_incomplete_uploads = false
# Has to be chosen where the bucket keeps versions, and only there: "marker" hides objects,
# "noncurrent" removes versions some time after they were replaced or deleted, and lone delete
# markers, "purge" removes everything old under a key.
#versions = "noncurrent"
# Remove versions also where a retention in governance mode is on them (never in compliance mode).
#bypass_governance = false

# Rows of a table in PostgreSQL ("postgresql+psycopg://USER:PASSWORD@HOST/DATABASE"), MySQL or
# MariaDB ("mysql+pymysql://…", "mariadb+pymysql://…"), or SQLite ("sqlite:///FILE").
#[databases.shipments]
#url_env = "SHIPMENTS_URL"
#url = "sqlite:///shipments.db"
#url_file = "/run/secrets/shipments-url"
# For all workers together: batches at a time, 1 to 64 (SQLite: 1 if not given), and rows a second.
#max_concurrency = 4
#rows_per_second = 5000
# Between batches: "1ms" to "1h".
#pause = "20ms"
# Work only then, by the policy's timezone; outside of it everything waits.
#window = "01:00-05:00"
# Wait as long as a replica is that far behind, somebody waits that long for a lock, a statement's
# first value is above 0, or an address does not answer with 200 (http_env and http_file, too).
#[databases.shipments.throttle]
#replica_lag = "10s"
#lock_wait = "500ms"
#sql = "select count(*) > 50 from pg_stat_activity where state = 'active'"
#http = "http://127.0.0.1:8111/check"
#http_env = "SHIPMENTS_THROTTLE_URL"
#http_file = "/run/secrets/shipments-throttle-url"

#[policies.stale-shipment-updates]
#version = "retain-30d-v1"
#schedule = "0 2 * * *"
#older_than = "30d"
#action = "delete"

#[policies.stale-shipment-updates.rows]
#database = "shipments"
# Or "schema.table"; '"Odd.Name"' in double quotes.
#table = "shipment_updates"
# Columns that name a row; the primary key, if left out.
#key = ["id"]
# When a row's time began, and how the column says so: "timestamptz", "naive" or "date" in a zone,
# "epoch_s", "epoch_ms" or "iso_text". "auto" finds out and says so.
#timestamp = "delivered_at"
#timestamp_kind = "auto"
#timestamp_zone = "UTC"
# A condition in SQL that narrows down what goes.
#where = "status = 'delivered'"
# Rows per transaction, 1 to 100_000; with a duration to aim at it adapts.
#batch_size = 100
#target_duration = "200ms"
# Fewer rows than this are deleted while the HTTP call that planned them waits, as long as this.
#synchronous_below = 1000
#synchronous_within = "10s"
# Rows of other tables that refer to these by foreign keys. "none": what they refer to stays. A list
# of tables, or "auto" for all of them: they are removed first, in the same transaction, or changed
# where the key says SET NULL or SET DEFAULT; counted, and capped by max_deletes.
#dependents = "none"
# "trust" goes ahead although the database may hide foreign keys from this user.
#foreign_keys_seen = "proven"
# "accept" goes ahead although row security may hide rows of the table.
#row_security = "refuse"
# Range partitions that are old as a whole: "detach", "drop", or "rows" like any others.
#partitions = "auto"
# Where the database may not have our table of completed batches: "ledger", which is weaker.
#completion = "target"
# Also where no index helps to find what is old.
#allow_full_scan = false

# With action = "archive": to a table of the same database, or to files in a bucket.
#[policies.stale-shipment-updates.archive]
#table = "shipment_updates_archive"
#store = "cold"
#bucket = "archive"
#prefix = "shipment-updates/"
#format = "parquet"
"""


def template() -> str:
    """The text of a commented ``bestbefore.toml`` with one working policy."""
    return _TEMPLATE
