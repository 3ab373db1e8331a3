"""Which questions can this store answer, and which has it answered already?"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from routelab.analysis.question import Analysis
from routelab.records import Refusal, Result
from routelab.store import CaptureStore


@dataclass(frozen=True)
class Outcome:
    """What became of one analysis: a Result, or the one sentence that says why there is none.

    Attributes
    ----------
    name
        Name of the analysis.
    result
        The Result; None where the store could not answer.
    reason
        One sentence; empty where there is a Result.
    reused
        True if the Result was read from the store and not computed.
    """

    name: str
    result: Result | None = None
    reason: str = ""
    reused: bool = False


def run_all(
    analyses: Mapping[str, Analysis],
    store: CaptureStore,
    names: Sequence[str] | None = None,
    *,
    options: Mapping[str, Any],
    force: bool = False,
    progress: Callable[[str], None] | None = None,
) -> list[Outcome]:
    """Answer the named questions, or all that the store permits, and save each Result in the store.

    A saved Result with the same parameters is read back; `force` computes it again. An analysis
    that cannot run becomes an `Outcome` with its reason, unless it was asked for by name.

    Raises
    ------
    Refusal
        An unknown name, or an analysis asked for by name that this store cannot answer.
    """
    outcomes = []
    for name in analyses if names is None else names:
        analysis = _named(analyses, name)
        if progress is not None:
            progress(name)
        try:
            outcomes.append(_answer(analysis, store, options, force=force))
        except Refusal as refusal:
            if names is not None:
                raise
            outcomes.append(Outcome(name, reason=str(refusal)))
    return outcomes


def _named(analyses: Mapping[str, Analysis], name: str) -> Analysis:
    if name in analyses:
        return analyses[name]
    near = difflib.get_close_matches(name, analyses, n=1)
    meant = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(analyses)}."
    raise Refusal(f"there is no analysis {name!r}; {meant}")


def _answer(
    analysis: Analysis, store: CaptureStore, options: Mapping[str, Any], *, force: bool
) -> Outcome:
    if not force and analysis.name in store.results():
        saved = store.result(analysis.name)
        if dict(saved.parameters) == analysis.parameters(store, **options):
            return Outcome(analysis.name, result=saved, reused=True)
    result = analysis.run(store, **options)
    store.save_result(result)
    return Outcome(analysis.name, result=result)
