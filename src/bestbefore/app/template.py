"""What ``bestbefore init`` writes: every key that works today, and what it is for."""

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
# The queue lives in the state database.
#kind = "state"
# How long a worker may hold a command before another one may take it: "60s" to "12h".
#lease = "60s"

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

[policies.weekly-digest-exports]
# Change it whenever what may go changes: older_than, action, anything under objects or archive.
version = "retain-30d-v1"
# Shown with every dead letter and alert.
owner = "growth-team"
# When it is due: minute, hour, day, month, weekday. Leave it out to run it by hand only.
schedule = "0 2 * * *"
timezone = "UTC"
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
"""


def template() -> str:
    """The text of a commented ``bestbefore.toml`` with one working policy."""
    return _TEMPLATE
