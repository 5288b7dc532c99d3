"""Draw what a terminal showed: ANSI text on standard input, SVG on standard output.

    script --quiet --command "make demo" | python tools/picture.py "make demo" "9. " > demo.svg

The second argument is how the first line to draw begins. What only moves the cursor is left out.
"""

import io
import re
import sys
from itertools import dropwhile

from rich.console import Console
from rich.text import Text

WIDTH = 104
_NOT_A_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-ln-z]|\x1b\][^\x07]*\x07")
_WAITING = re.compile(r"[⠀-⣿]")
_FONT = re.compile(r"@font-face \{.*?\}", re.DOTALL)
"""Fetched from elsewhere; a picture in a repository should not."""

title, beginning = sys.argv[1:]
shown = sys.stdin.read().replace("\r\n", "\n").replace("\r", "\n").rstrip()
lines = []
for line in shown.split("\n"):
    text = _NOT_A_COLOUR.sub("", line)
    if not _WAITING.search(line) and (text or (lines and lines[-1].plain)):
        lines.append(Text.from_ansi(text))
console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
for text in dropwhile(lambda text: not text.plain.startswith(beginning), lines):
    console.print(text)
svg = _FONT.sub("", console.export_svg(title=title))
print(svg.replace("<text ", '<text xml:space="preserve" '))  # noqa: T201
