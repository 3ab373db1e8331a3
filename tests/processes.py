"""Work in processes of its own, started anew: a fork of a process with threads may hang."""

import os
import subprocess
import sys
from pathlib import Path

import cloudpickle

HEAD = "import sys, cloudpickle; cloudpickle.load(sys.stdin.buffer)()"
ROOT = Path(__file__).parents[1]


def run_apart(*works, environments=None):
    """Run works side by side, each in a fresh interpreter; their exit codes, -9 where killed.

    `environments` holds variables to add, one mapping a work.
    """
    children = []
    for work, added in zip(works, environments or [{}] * len(works), strict=True):
        child = subprocess.Popen(
            [sys.executable, "-c", HEAD],
            stdin=subprocess.PIPE,
            cwd=ROOT,
            env=os.environ | added,
        )
        child.stdin.write(cloudpickle.dumps(work))
        child.stdin.close()
        children.append(child)
    return [child.wait() for child in children]
