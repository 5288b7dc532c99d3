"""Packages of npm that tests and benchmarks talk to, as their lock files in ``tests/node`` say.

Installed once, beside the Python environment, and again when a lock changes.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

_OLDEST = 20
_LOCKED = Path(__file__).parents[1] / "node"


class NoNode(Exception):
    """Node.js, npm or one of its packages is not there. The text says what to do."""


def installed(name: str) -> Path:
    """The folder that holds ``node_modules`` for ``tests/node/NAME``; raises NoNode."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise NoNode(f"no {program}: apt-get install nodejs npm")
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)
    if int(version.stdout.lstrip("v").partition(".")[0]) < _OLDEST:
        raise NoNode(f"node {version.stdout.strip()} is too old: {_OLDEST} or newer is needed")
    source = _LOCKED / name
    names = ("package.json", "package-lock.json")
    digest = hashlib.sha256(b"".join((source / file).read_bytes() for file in names)).hexdigest()
    folder = Path(sys.prefix) / "node" / f"{name}-{digest[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes come here together
        if not (folder / "installed").exists():
            for file in names:
                shutil.copy(source / file, folder)
            done = subprocess.run(
                ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=240,
                check=False,
            )
            if done.returncode:
                raise NoNode(f"npm ci of tests/node/{name}: {done.stderr[-2000:]}")
            (folder / "installed").touch()
    return folder
