"""How does a capture go from a checkpoint and a folder to a certified store?

Open and check, probe, plan, then forward passes with the writer beside them, then the certificate.
The store depends on the model, the data and the card alone: a capture that was killed starts again
at the last commit, composes the same batches and ends with the same bytes.
"""

from __future__ import annotations

import time

from routelab.capture.certificate import Witness, completeness
from routelab.capture.interrupt import Interruption
from routelab.capture.options import CaptureOptions
from routelab.capture.outcome import CaptureReport
from routelab.capture.passes import Passes
from routelab.capture.plan import Plan
from routelab.capture.preparation import check_output, check_space, look, make_plan, store_card
from routelab.capture.reporter import Reporter
from routelab.capture.session import Session, open_session
from routelab.capture.verify import VERIFIED_BATCHES, look_again, stored_arrays
from routelab.models import keep_freed_memory
from routelab.records import Certificate, StoreCard
from routelab.store import StoreWriter, open_store
from routelab.store.resuming import refuse_difference
from routelab.store.sums import remove_states

FAILED = 5
"""Exit code of a capture whose certificate has a failed check."""


def capture(options: CaptureOptions, reporter: Reporter | None = None) -> CaptureReport:
    """Record the routing of a checkpoint over a set of images.

    Parameters
    ----------
    options
        What to record, of what, and where to put it.
    reporter
        Told of the plan and the progress.

    Returns
    -------
    CaptureReport
        How it ended; after SIGINT or SIGTERM, with the command that goes on.

    Raises
    ------
    Refusal
        Anything a user can mend. Before the first batch nothing has been written, afterwards
        nothing that was committed is lost.
    """
    reporter = reporter or Reporter()
    check_output(options)
    keep_freed_memory()
    session = open_session(options)
    seen = look(session)
    plan = make_plan(session, seen, options)
    reporter.planned(plan)
    if options.dry_run:
        return CaptureReport("planned", options.out, plan, warnings=_left_out(plan, session))
    card = store_card(session, seen, plan)
    passes = Passes(session, card, seen.layout, reporter)
    if options.resume:
        if _is_complete(options, card):
            return _as_it_is(options, plan)
        writer = StoreWriter.resume(options.out, card)
    else:
        check_space(plan, options.out)
        writer = passes.create(options.out, overwrite=options.overwrite)
    timing = {"recording_overhead": seen.overhead}
    return _fill(writer, passes, plan, options, timing)


def _fill(
    writer: StoreWriter,
    passes: Passes,
    plan: Plan,
    options: CaptureOptions,
    timing: dict[str, float],
) -> CaptureReport:
    """Write the store from where it stands to its end, or to the next signal."""
    began, first = time.perf_counter(), writer.committed
    with writer, Interruption() as interruption:
        timing["stall_seconds"] = passes.run(writer, interruption)
        writer.commit()
        seconds, images = time.perf_counter() - began, writer.committed - first
        timing |= {
            "seconds": seconds,
            "images": images,
            "images_per_second": images / seconds,
            "finished_unix": time.time(),
        }
        left_out = _left_out(plan, passes.session, writer.card)
        if interruption.received is not None and writer.committed < writer.images:
            return CaptureReport(
                "interrupted",
                options.out,
                plan,
                committed=writer.committed,
                timing=timing,
                warnings=left_out,
                resume=options.resume_command(),
                exit_code=interruption.exit_code,
            )
        certificate = _certify(writer, passes.session, options)
        writer.finish(certificate, timing)
    return CaptureReport(
        "complete",
        options.out,
        plan,
        committed=writer.committed,
        certificate=certificate,
        timing=timing,
        warnings=left_out + _failures(certificate),
        exit_code=0 if certificate.passed else FAILED,
    )


def _certify(writer: StoreWriter, session: Session, options: CaptureOptions) -> Certificate:
    """Look again at what was stored, through the store."""
    store = open_store(writer.path)
    witness = Witness(
        session.forward,
        store.layers,
        features=store.card.capture.features != "none",
        stored=stored_arrays(store, session.forward.machine.device),
    )
    batches = VERIFIED_BATCHES if options.verify else 1
    look_again(witness, session.data, store.card.capture.batch_size, batches)
    asked = [spec.key for spec in session.specs]
    return Certificate(
        checks=(*completeness(writer.card, asked, len(session.data)), *witness.checks())
    )


def _is_complete(options: CaptureOptions, card: StoreCard) -> bool:
    """True if the store to resume is whole already, and made by this configuration."""
    stored = open_store(options.out).card
    if stored.complete:
        refuse_difference(options.out, stored, card)
        remove_states(options.out, keep=None)  # the very last step may be all that was missing
    return stored.complete


def _as_it_is(options: CaptureOptions, plan: Plan) -> CaptureReport:
    """The report of a store that has nothing left to do."""
    store = open_store(options.out)
    certificate = store.card.certificate
    return CaptureReport(
        "complete",
        options.out,
        plan,
        committed=store.committed,
        certificate=certificate,
        timing=dict(store.timing),
        warnings=_failures(certificate),
        exit_code=0 if certificate.passed else FAILED,
    )


def _left_out(plan: Plan, session: Session, card: StoreCard | None = None) -> tuple[str, ...]:
    """What is not in the store, in words: refused layers, the budget's victims, corrupt images."""
    refused = plan.refused if card is None else card.refused
    skipped = session.data.card.skipped
    sentences = [f"layer {key} is left out: {reason}" for key, reason in refused.items()]
    if plan.left_out:
        sentences.append(f"the budget leaves out {', '.join(plan.left_out)}")
    if skipped:
        left_out = "image is" if len(skipped) == 1 else "images are"
        names = ", ".join(skipped[:3]) + (" …" if len(skipped) > 3 else "")
        sentences.append(f"{len(skipped)} unreadable {left_out} left out: {names}")
    return tuple(sentences)


def _failures(certificate: Certificate) -> tuple[str, ...]:
    """Failed checks, in words."""
    return tuple(
        f"failed check: {check.name}; measured {check.value:.3g}, allowed {check.limit:.3g} "
        f"({check.detail})"
        for check in certificate.checks
        if not check.passed
    )
