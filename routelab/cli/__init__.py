"""Which command does a user want? The overview answers at once; a command is loaded when named."""

from __future__ import annotations

import sys
from collections.abc import Sequence

COMMANDS = {
    "demo": "train, capture, analyse and report four routers on digits, in three minutes",
    "train": "train a dense or MoE model by a recipe, into a run that can be resumed",
    "eval": "measure a checkpoint: accuracy, calibration, speed, parameters and FLOPs",
    "study": "compare ways of making a MoE model: arms and seeds under one budget",
    "recycle": "make a MoE checkpoint of the neurons of a dense one",
    "capture": "record the routing of a checkpoint over images into a store",
    "analyze": "ask a store questions, each answer beside its chance level",
    "report": "bind what a store says into one HTML file",
    "inspect": "show the card of a checkpoint or a store",
    "verify": "check a store against itself, and against its model",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code.

    0: done; 2: refused, one sentence on stderr says why; 5: a certificate failed; 130: interrupted.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(overview())
        return 0
    if words[0] == "--version":
        from routelab import __version__

        print(f"routelab {__version__}")
        return 0
    if words[0] not in COMMANDS:
        print(unknown(words[0]), file=sys.stderr)
        return 2
    from routelab.cli.door import run_command

    return run_command(words[0], words[1:])


def overview() -> str:
    """What `routelab --help` prints."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {says}" for name, says in COMMANDS.items()]
    return "\n".join(
        [
            "Usage: routelab COMMAND [OPTIONS]",
            "",
            "See what the routers of a Mixture-of-Experts vision transformer do, with evidence.",
            "",
            "Commands:",
            *lines,
            "",
            "Each explains itself with --help. Start with: routelab demo --out demo",
        ]
    )


def unknown(word: str) -> str:
    """One sentence for a command that does not exist."""
    import difflib

    near = difflib.get_close_matches(word, COMMANDS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(COMMANDS)}."
    return f"there is no command {word!r}; {hint}"
