"""How does a study run, whatever interrupts it? Every arm with every seed, one after the other."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from routelab.models import build, count
from routelab.records import Comparison, Refusal
from routelab.study.budget import updates_for
from routelab.study.config import Study
from routelab.study.outcome import Begun, Outcome, arm_card, outcome_of
from routelab.study.starting import Origin
from routelab.training import RunConfig, RunFolder, train_run
from routelab.training.safely import write_text

Told = Callable[[str], None]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Folder:
    """Where a study lies: `study.json`, `comparison.json`, and a folder for each arm and seed."""

    path: Path

    @property
    def study(self) -> Path:
        """The study that was begun here."""
        return self.path / "study.json"

    @property
    def comparison(self) -> Path:
        """What came out."""
        return self.path / "comparison.json"

    def of(self, arm: str, seed: int) -> Path:
        """The folder of one run."""
        return self.path / arm / f"seed-{seed}"


def run_study(
    study: Study,
    out: Path,
    *,
    resume: bool = False,
    told: Told = print,
    began: Told | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Run what is left of a study and compare its arms.

    A run that has ended is kept as its outcome, log and last checkpoint; its starting point and its
    states, which only going on would need, are removed.

    Parameters
    ----------
    resume
        Go on with the study that is in `out`.
    told
        Told what a user should know, in sentences.
    began
        Told of each run that begins; None: `told` is.
    progress
        Told of images done and in all, of the run under way.

    Raises
    ------
    Refusal
        A folder with another study, or what recycling and training refuse, with the arm's name.
    """
    folder = Folder(out)
    origin = Origin(study)
    origin.check()
    _claim(folder, study, resume=resume)
    runs = [(arm, seed) for seed in study.seeds for arm in study.arms]
    for number, (arm, seed) in enumerate(runs, start=1):
        if _outcome(folder, arm, seed).exists():
            continue
        (began or told)(f"run {number} of {len(runs)}: {arm}, seed {seed}")
        try:
            _run(study, origin, folder, arm, seed, told, progress)
        except Refusal as refusal:
            raise Refusal(f"arm {arm}, seed {seed}: {refusal}") from refusal
    comparison = compared(study, folder)
    write_text(folder.comparison, comparison.model_dump_json(indent=2) + "\n")
    return comparison


def compared(study: Study, folder: Folder) -> Comparison:
    """The outcomes of all runs, in the study's order."""
    done = [
        Outcome.model_validate_json(_outcome(folder, arm, seed).read_text())
        for arm in study.arms
        for seed in study.seeds
    ]
    runs = tuple(each.run for each in done)
    cards = tuple(
        arm_card(name, study.arms[name], [each for each in done if each.run.arm == name])
        for name in study.arms
    )
    config = study.config(study.baseline, study.seeds[0])
    return Comparison(
        name=study.name,
        says=study.says,
        data=f"{Path(config.data.source).name}, {config.data.validation}",
        classes=done[0].classes,
        budget=study.budget.says,
        baseline=study.baseline,
        arms=cards,
        runs=runs,
    )


def _claim(folder: Folder, study: Study, *, resume: bool) -> None:
    """Begin a study in a folder of its own, or go on with the same one."""
    stored = study.model_dump_json(indent=2) + "\n"
    if not folder.study.exists():
        if folder.path.exists() and any(folder.path.iterdir()):
            raise Refusal(f"{folder.path} exists and holds no study; give another --out")
        if resume:
            raise Refusal(f"there is no study in {folder.path} to resume; leave --resume out")
        folder.path.mkdir(parents=True, exist_ok=True)
        write_text(folder.study, stored)
        return
    if not resume:
        raise Refusal(f"study {folder.path} exists; go on with --resume, or give another --out")
    if Study.model_validate_json(folder.study.read_text()) != study:
        raise Refusal(
            f"study {folder.path} was begun with other arms, seeds or budget; resume it with the "
            "file that it was begun with, or give another --out"
        )


def _run(
    study: Study,
    origin: Origin,
    folder: Folder,
    arm: str,
    seed: int,
    told: Told,
    progress: Progress | None,
) -> None:
    """One arm with one seed, from where it stands to its outcome."""
    place = folder.of(arm, seed)
    config = study.config(arm, seed)
    begun = _begin(study, origin, folder, arm, seed)
    config = _started(config, place, begun.updates)
    run = RunFolder(place / "run")
    history = train_run(
        config,
        run.path,
        resume=run.config.exists(),
        progress=progress,
        told=told,
    )
    outcome = outcome_of(arm, seed, config, run, history, begun)
    write_text(_outcome(folder, arm, seed), outcome.model_dump_json(indent=2) + "\n")
    shutil.rmtree(run.states, ignore_errors=True)
    for left in (*place.glob("start.*"), *run.path.glob("best.*")):
        left.unlink()


def _begin(study: Study, origin: Origin, folder: Folder, arm: str, seed: int) -> Begun:
    """Make the starting point, or read what is known of it; the length is that of all seeds."""
    place = folder.of(arm, seed)
    known = place / "begun.json"
    if known.exists():
        return Begun.model_validate_json(known.read_text())
    config, start = study.config(arm, seed), place / "start.safetensors"
    place.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    card = origin.start(study.arms[arm], config, start)
    seconds = time.perf_counter() - began
    counts = count(build(card), card)
    others = [folder.of(arm, s) / "begun.json" for s in study.seeds]
    earlier = next((path for path in others if path.exists()), None)
    if earlier is None:
        started = _started(config, place, None)
        share = study.arms[arm].share
        updates = updates_for(study.budget, share, started, counts.total_flops)
    else:
        updates = Begun.model_validate_json(earlier.read_text()).updates
    begun = Begun(
        source=card.source,
        seconds=seconds,
        parameters=counts.total,
        active=counts.active,
        flops=counts.total_flops,
        updates=updates,
    )
    write_text(known, begun.model_dump_json(indent=2) + "\n")
    return begun


def _started(config: RunConfig, place: Path, updates: int | None) -> RunConfig:
    """The run's configuration with its starting point and its length."""
    start = config.start.model_copy(update={"checkpoint": str(place / "start.safetensors")})
    recipe = config.recipe.model_copy(update={"updates": updates})
    return config.model_copy(update={"start": start, "recipe": recipe})


def _outcome(folder: Folder, arm: str, seed: int) -> Path:
    return folder.of(arm, seed) / "outcome.json"
