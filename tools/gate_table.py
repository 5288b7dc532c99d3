"""The table of scenarios in ``docs/gate.md``, from the scenarios themselves.

python tools/gate_table.py
"""

from pathlib import Path

from bestbefore.cli.gating import entries
from bestbefore.gate.promises import PROMISES
from bestbefore.gate.scenarios import SCENARIOS

PAGE = Path(__file__).parents[1] / "docs" / "gate.md"

_START = "<!-- scenarios: tools/gate_table.py -->\n"
_END = "\n<!-- end of scenarios -->"
_HEAD = ("", "scenario", "what is tried", "on")


def page(text: str) -> str:
    """*text* with the table of today in its place."""
    rows = [
        (one["promise"], f"`{one['name']}`", one["title"], one["needs"])
        for promise in PROMISES
        for one in entries(SCENARIOS)
        if one["promise"] == promise
    ]
    table = "\n".join(f"| {' | '.join(row)} |" for row in (_HEAD, ["---"] * len(_HEAD), *rows))
    before, _, rest = text.partition(_START)
    _, _, after = rest.partition(_END)
    return f"{before}{_START}{table}{_END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
