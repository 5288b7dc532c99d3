"""What ``docs/http.md`` says to type, against a real serving process."""

import json
import re
import shlex
import subprocess
from pathlib import Path

from support.cli import Cli, fill
from support.docs import commands
from support.faults import FaultyS3
from support.served import Served

PAGE = Path(__file__).parents[2] / "docs" / "http.md"


def test_what_the_page_says_to_type_is_answered(cli: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 3)
    add, *others = commands("http.md")
    curls = [
        line.removeprefix("$ ")
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("$ curl ")
    ]
    assert len(curls) == 8
    with Served(cli) as there:
        token = cli(*add).out.strip()
        for other in others:
            assert "ops" in cli(*other).out
        for line in curls:
            words = [
                word.replace("http://127.0.0.1:8080", there.url).replace("$TOKEN", token)
                for word in shlex.split(line)
            ]
            done = subprocess.run(
                [*words, "-w", "\n%{http_code}"], capture_output=True, text=True, check=True
            )
            body, _, status = done.stdout.rpartition("\n")
            assert status.startswith("2"), (line, done.stdout)
            assert isinstance(json.loads(body), dict)


def test_the_page_lists_every_route(cli: Cli) -> None:
    written = set(re.findall(r"`(GET|POST|DELETE) (/[^`]*)`", PAGE.read_text(encoding="utf-8")))
    with Served(cli, "--no-work") as there:
        paths = there.json("/openapi.json")["paths"]
    there_are = {(method.upper(), path) for path, routes in paths.items() for method in routes}
    assert there_are <= written
    assert written - there_are <= {("GET", "/openapi.json")}
