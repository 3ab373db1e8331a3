"""Run every benchmark and write RESULTS.md: `python -m benchmarks [NAME …]`."""

from __future__ import annotations

import argparse
import datetime
import platform
import subprocess
import sys
from pathlib import Path

RESULTS = Path(__file__).parent / "RESULTS.md"
BENCHMARKS = {
    "moe_layers": "MoE layers",
    "capture_overhead": "Capture against the plain forward pass",
    "store_reading": "Reading the store",
    "million_images": "Class consistency of a million images",
}
"""Module of each benchmark and its heading; each prints one Markdown table."""


def machine() -> str:
    """Processor, cores and versions, for the head of the page."""
    import numpy
    import torch
    import zarr

    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    versions = f"torch {torch.__version__}, zarr {zarr.__version__}, numpy {numpy.__version__}"
    return f"{name}, {platform.system()}, Python {platform.python_version()}, {versions}"


def section(module: str) -> str:
    """What one benchmark prints, run in a process of its own so that none warms another up."""
    command = [sys.executable, "-m", f"benchmarks.{module}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return f"## {BENCHMARKS[module]}\n\n`python -m benchmarks.{module}`\n\n{done.stdout.strip()}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *BENCHMARKS], metavar="NAME")
    names = parser.parse_args().names or list(BENCHMARKS)
    head = (
        "# Results\n\n"
        f"{datetime.date.today().isoformat()} · {machine()}\n\n"
        "CPU time of the process, one thread, arms in turn; the minimum of several rounds, or the "
        "median of pairs.\n"
    )
    kept = dict(previous_sections())
    for name in names:
        print(f"benchmarks.{name} …", file=sys.stderr)
        kept[BENCHMARKS[name]] = section(name)
    ordered = [kept[heading] for heading in BENCHMARKS.values() if heading in kept]
    RESULTS.write_text("\n".join([head, *ordered]))


def previous_sections() -> list[tuple[str, str]]:
    """Sections that RESULTS.md holds already, by heading; a partial run keeps the others."""
    if not RESULTS.exists():
        return []
    parts = RESULTS.read_text().split("\n## ")[1:]
    return [(part.split("\n", 1)[0], f"## {part.rstrip()}\n") for part in parts]


if __name__ == "__main__":
    main()
