"""Draw the icons of the page that must be pixels, in web/public, from web/public/icon.svg.

`icon-512.png` is for installed pages, full to the edge so that a system can cut its own shape, and
`icon-180.png` for the home screens that take no manifest. Run it after a change of the drawing, and
build the page.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

PUBLIC = ROOT / "web/public"
SIZES = (180, 512)


def main() -> None:
    """Write the icons."""
    from playwright.sync_api import sync_playwright

    from tests.web.conftest import _FLAGS, CHROMIUM

    # a system cuts its own corners: the ground reaches the edge
    drawing = (PUBLIC / "icon.svg").read_text().replace('rx="7.5"', 'rx="0"')
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=str(CHROMIUM), args=_FLAGS)
        for size in SIZES:
            page = browser.new_page(viewport={"width": size, "height": size})
            page.set_content(f"<style>body{{margin:0}} svg{{display:block}}</style>{drawing}")
            page.screenshot(path=PUBLIC / f"icon-{size}.png")
        browser.close()


if __name__ == "__main__":
    main()
