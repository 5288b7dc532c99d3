"""Draw the dashboard for the README: weeks of cleanup, lived through in a minute by the real stages
on a store in memory, then shown by a real `bestbefore serve` in Debian's Chromium.

    python tools/dashboard_pictures.py docs/images
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from bestbefore.adapters.state.dashboard import SqlBacklogs
from bestbefore.app.settings import load
from bestbefore.app.system import System, connect_tables
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.report import Report
from bestbefore.domain.run import Trigger
from bestbefore.domain.selection import Listed
from bestbefore.ports.stores import Store
from bestbefore.stages.work import Options
from support.clock import ManualClock
from support.memory import MemoryStore

CHROMIUM = "/usr/bin/chromium"
DIGESTS, RECORDINGS, PREVIEWS = "weekly-digest-exports", "session-recordings", "invoice-previews"
DAYS = 26
_OLD = timedelta(days=90)

_CONFIG = """
[stores.exports]
kind = "directory"
root = "{folder}"

[policies.weekly-digest-exports]
version = "retain-30d-v2"
owner = "growth-team"
schedule = "0 2 * * *"
older_than = "30d"
objects = {{ store = "exports", bucket = "weekly-digests", prefix = "digests/" }}

[policies.session-recordings]
version = "retain-30d-v1"
owner = "research"
schedule = "{minute} {hours} * * *"
older_than = "30d"
attempts = {{ permission = 1 }}
objects = {{ store = "exports", bucket = "recordings", prefix = "recordings/" }}

[policies.invoice-previews]
version = "retain-1y-v1"
owner = "billing"
schedule = "30 0 * * *"
older_than = "30d"
max_deletes = 10_000
objects = {{ store = "exports", bucket = "invoices", prefix = "previews/" }}
"""


class Story:
    """Weeks of cleanup that end now."""

    def __init__(self, folder: Path, now: datetime) -> None:
        self.end = now
        self.clock = ManualClock(now - timedelta(days=DAYS))
        self.store = MemoryStore()
        self.store.refuse = self._refuse
        # So that its last slot came a while ago, whenever this is drawn.
        slot = now - timedelta(minutes=75)
        hours = ",".join(str(hour) for hour in sorted((slot.hour + n) % 24 for n in (0, 6, 12, 18)))
        file = folder / "bestbefore.toml"
        file.write_text(_CONFIG.format(folder=folder, minute=slot.minute, hours=hours))
        self.system = System(
            load(file, {}), self.clock, lambda *_: Store(self.store, self.store), connect_tables
        )
        self.backlogs: SqlBacklogs = self.system.backlogs
        self._n = 0

    def tell(self) -> None:
        self.system.schedule.look()
        for slot, name in sorted(self._slots()):
            self._until(slot + timedelta(seconds=20))
            day = (self.end - slot).days
            if name == DIGESTS and day == 13:  # nobody was there
                continue
            if name == DIGESTS and day == 6:
                self._pause(name, "moving the bucket to another region", slot)
            if name == DIGESTS and day in (4, 5, 6):
                continue
            if name == DIGESTS and day == 3:
                self.system.schedule.resume(name, "token:mara")
            if name == DIGESTS and day == 18:
                self._until(slot + timedelta(minutes=50))
            self._answer(name, slot, last=slot + timedelta(hours=6) > self.end)
        self._until(self.end)

    def _answer(self, name: str, slot: datetime, *, last: bool) -> None:
        policy = self.system.policy(name)
        often = {DIGESTS: 2_000, RECORDINGS: 700, PREVIEWS: 300}[name]
        today = {DIGESTS: 14_000, RECORDINGS: 31_000, PREVIEWS: 18_210}[name]
        recent = self.end - slot < timedelta(days=1)
        n = today if recent and (name != RECORDINGS or last) else often + self._n % 7 * 40
        prefix = policy.objects.prefix
        for _ in range(n if recent else n // 20):
            self._n += 1
            key = f"{prefix}{slot:%Y-%m}/{sha256(str(self._n).encode()).hexdigest()[:12]}.json"
            etag = sha256(key.encode()).hexdigest()[:32]
            self.store.put(Listed(key, 18_000 + self._n % 9_000, etag, slot - _OLD))
        run = self.system.planner(policy, by="vm-1").plan(policy, slot, Trigger.SCHEDULE).run
        if run.reason is None:
            pace = timedelta(minutes=8 if name == RECORDINGS else 3)
            self._work(name, pace if recent else timedelta(seconds=2))

    def _work(self, name: str, each: timedelta) -> None:
        """Work until all is done, or now has come."""

        def passed(_: Report) -> None:
            until = self.clock.now() + each
            while self.clock.now() < until:
                self.clock.step(min(each, timedelta(minutes=4)))
                self._note()

        worker = self.system.working.worker(
            Options(timedelta(hours=2), drain=True),
            lambda: self.clock.now() >= self.end,
            passed,
            only=name,
        )
        worker.run()

    def _refuse(self, key: str) -> Failure | None:
        number = int(sha256(key.encode()).hexdigest()[:6], 16)
        recent = self.end - self.clock.now() < timedelta(days=1)
        if recent and key.startswith("recordings/") and number % 37 == 0:
            return Failure(
                FailureClass.PERMISSION,
                f"s3://recordings/{key}: AccessDenied (403): no identity-based policy allows "
                "s3:DeleteObject",
            )
        if key.startswith("digests/") and number % 4001 == 0:
            return Failure(FailureClass.MALFORMED, f"s3://weekly-digests/{key}: InvalidRequest")
        if recent and key.startswith("recordings/") and number % 1999 == 0:
            return Failure(
                FailureClass.PERMISSION, f"s3://recordings/{key}: AccessDenied (403): Object Lock"
            )
        return None

    def _slots(self) -> Iterator[tuple[datetime, str]]:
        for name, policy in self.system.settings.policies.items():
            assert policy.schedule is not None
            begin = self.clock.now()
            for slot in self.system.calendar.between(policy.schedule, "UTC", begin, self.end):
                yield slot, name

    def _until(self, moment: datetime) -> None:
        while self.clock.now() < moment:
            recent = self.end - self.clock.now() < timedelta(hours=26)
            step = timedelta(minutes=5 if recent else 120)
            self.clock.set(min(moment, self.clock.now() + step))
            self._note()
            self.system.schedule.look()

    def _note(self) -> None:
        if self.end - self.clock.now() < timedelta(hours=25):
            self.backlogs.note(self.clock.now())

    def _pause(self, name: str, reason: str, at: datetime) -> None:
        self.clock.set(max(self.clock.now(), at))
        self.system.schedule.pause(name, reason, None, "token:mara")


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, str]]:
    """A service on *folder* that only answers: its address, and a token."""
    program = str(Path(sys.executable).with_name("bestbefore"))
    add = [program, "token", "add", "mara", "--scope", "operate", "--json"]
    token = json.loads(subprocess.run(add, cwd=folder, check=True, capture_output=True).stdout)
    serve = [program, "serve", "--port", "0", "--no-work", "--no-schedule", "--json"]
    with subprocess.Popen(serve, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            while not said.rstrip().endswith("}"):
                said += process.stdout.readline()
            yield json.loads(said)["url"], token["token"]
        finally:
            process.terminate()


def draw(url: str, token: str, into: Path) -> None:
    """Sign in, and keep what the pages look like."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(base_url=url, viewport={"width": 1180, "height": 900})
        page.goto("/sign-in")
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Overview").wait_for()
        _keep(page.screenshot(full_page=True), into / "dashboard-overview.png")
        page.goto("/dead-letters")
        page.locator(".incidents a").first.click()
        page.get_by_role("heading", name="What to do").wait_for()
        _keep(page.screenshot(), into / "dashboard-dead-letters.png")
        browser.close()


def _keep(png: bytes, into: Path) -> None:
    """With a palette: the pages have few colours."""
    into.write_bytes(png)
    with Image.open(into) as image:
        image.convert("RGB").quantize(128, method=Image.Quantize.MEDIANCUT).save(
            into, optimize=True
        )


def main(into: Path) -> None:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        story = Story(folder, datetime.now(UTC).replace(microsecond=0))
        try:
            story.tell()
        finally:
            story.system.close()
        with served(folder) as (url, token):
            draw(url, token, into)
    print(f"drawn in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
