"""What does headless Chromium say about a page: its elements when drawn, and its complaints?"""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason=f"needs a Chromium on PATH: {', '.join(NAMES)}"
)


class Visit(NamedTuple):
    """The page's elements after its scripts have run, and the lines of its console."""

    elements: str
    console: list[str]

    @property
    def text(self) -> str:
        """The elements without their scripts: what the page shows, its tool bars included."""
        return re.sub(r"<(script|style)\b.*?</\1>", "", self.elements, flags=re.DOTALL)

    @property
    def links(self) -> list[str]:
        """Addresses on the page that are neither data nor a place in it."""
        return re.findall(r'(?:href|src|action)="(?!data:|#)([^"]*)"', self.text)


def visit(page: Path) -> Visit:
    """Open a file without any network: every host name fails to resolve."""
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [
                str(CHROMIUM),
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--host-resolver-rules=MAP * ~NOTFOUND",
                f"--user-data-dir={profile}",
                "--window-size=1280,2000",
                "--virtual-time-budget=30000",
                "--enable-logging=stderr",
                "--v=0",
                "--dump-dom",
                page.resolve().as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    # remarks of the software renderer about itself are not about the page
    return Visit(done.stdout, [line for line in console if "GL Driver Message" not in line])
