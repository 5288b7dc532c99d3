"""Draw the beginning of a gate's page for the README, in Debian's Chromium.

bestbefore gate --html gate.html
python tools/gate_picture.py gate.html docs/images/gate.png
"""

import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

CHROMIUM = "/usr/bin/chromium"
_WIDTH, _HEIGHT = 1000, 800
_COLOURS = 64


def main() -> None:
    """As the module says."""
    page_file, picture = map(Path, sys.argv[1:])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": _WIDTH, "height": _HEIGHT})
        page.goto(page_file.absolute().as_uri())
        page.screenshot(path=picture)
        browser.close()
    with Image.open(picture) as drawn:
        drawn.convert("RGB").quantize(_COLOURS).save(picture, optimize=True)


main()
