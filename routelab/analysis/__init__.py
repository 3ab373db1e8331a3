"""What does a store say about one question? Each analysis is one file, one question, one `Result`.

An analysis reads a `CaptureStore`, calls `routelab.metrics`, and puts each number beside its chance
level, its interval and the number of images; it names what is flat or high by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from routelab.analysis import (
    clusters,
    coactivation,
    concentration,
    consistency,
    information,
    load,
    paths,
    probe,
    specialization,
)
from routelab.analysis.question import Analysis
from routelab.analysis.runner import Outcome, run_all
from routelab.store import CaptureStore

ANALYSES: dict[str, Analysis] = {
    module.run.name: module.run
    for module in (
        load,
        consistency,
        information,
        probe,
        specialization,
        concentration,
        coactivation,
        paths,
        clusters,
    )
}


def analyze(
    store: CaptureStore,
    names: Sequence[str] | None = None,
    *,
    seed: int = 0,
    permutations: int = 999,
    force: bool = False,
    progress: Callable[[str], None] | None = None,
) -> list[Outcome]:
    """Answer the named questions, or all that the store permits, each saved in the store.

    Parameters
    ----------
    store
        An open store; Results are written into it.
    names
        Names from `ANALYSES`; None runs all, and those that cannot run come with their reason.
    seed, permutations
        Of every null and interval; the same seed gives the same bytes.
    force
        Compute even where the store holds a Result with the same parameters.
    progress
        Called with the name of each analysis before it starts.

    Raises
    ------
    Refusal
        An unknown name, or an analysis asked for by name that this store cannot answer.
    """
    options = {"seed": seed, "permutations": permutations}
    return run_all(ANALYSES, store, names, options=options, force=force, progress=progress)


__all__ = ["ANALYSES", "Analysis", "Outcome", "analyze"]
