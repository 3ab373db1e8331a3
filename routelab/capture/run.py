"""How does a capture go from a checkpoint and a folder to a certified store?

Open and check, probe, plan, then forward passes with the writer beside them, then the certificate.
The store depends on the model, the data and the card alone: a capture that was killed starts again
at the last commit, composes the same batches and ends with the same bytes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from torch import Tensor

from routelab.capture.assembly import Assembler, by_layer, sum_shapes
from routelab.capture.certificate import Witness
from routelab.capture.forward import record_batch
from routelab.capture.interrupt import Interruption
from routelab.capture.options import CaptureOptions
from routelab.capture.outcome import CaptureReport
from routelab.capture.pipeline import Address, Pipeline
from routelab.capture.plan import Plan, choose_shard, fit_budget, parse_bytes, plan_capture, wanted
from routelab.capture.probe import BATCHES, Probe, probe
from routelab.capture.recording import FULL, IMAGES, TABLES
from routelab.capture.reporter import Reporter
from routelab.capture.session import Session, open_session
from routelab.capture.verify import VERIFIED_BATCHES, look_again, stored_arrays
from routelab.data import Batch
from routelab.records import CaptureCard, Certificate, Check, Refusal, StoreCard
from routelab.store import FORMAT, StoreWriter, open_store


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
    session = open_session(options)
    seen = look(session)
    plan = make_plan(session, seen, options)
    reporter.planned(plan)
    for key, reason in seen.refused.items():
        reporter.noted(f"layer {key} is left out of the store: {reason}")
    if options.dry_run:
        return CaptureReport("planned", options.out, plan)
    card = store_card(session, seen, plan)
    return _Run(session, seen, plan, card, options, reporter).run()


def check_output(options: CaptureOptions) -> None:
    """Refuse, before any work, an output that exists or one that should and does not."""
    if options.dry_run:
        return
    if options.resume and options.overwrite:
        raise Refusal("--resume keeps the store and --overwrite replaces it; give one of them")
    if options.resume and not options.out.exists():
        raise Refusal(f"there is nothing to resume at {options.out}; leave --resume out")
    there = options.out.exists() and not (options.out.is_dir() and not any(options.out.iterdir()))
    if there and not (options.resume or options.overwrite):
        raise Refusal(
            f"{options.out} exists; go on with --resume, replace it with --overwrite, or give "
            "another --out"
        )


def look(session: Session) -> Probe:
    """Probe the first batches."""
    size = session.capture.batch_size
    device = session.forward.machine.device
    batches = [
        (batch.pixels.to(device), session.labels(batch.labels).to(device))
        for batch in islice(session.data.batches(size), BATCHES)
    ]
    return probe(session.forward, session.specs, session.detail(session.capture), batches)


def make_plan(session: Session, seen: Probe, options: CaptureOptions) -> Plan:
    """What will be stored, within the budget."""
    card, classes = session.capture, len(session.data.classes)
    shard = options.shard or choose_shard(seen.layout, card.batch_size)
    if shard % card.batch_size:
        raise Refusal(
            f"a shard of {shard} images is no multiple of the batch of {card.batch_size}; "
            "give --shard a multiple of --batch-size"
        )
    card = card.model_copy(update={"shard": shard})
    plan = plan_capture(card, seen.specs, seen.layout, len(session.data), classes=classes)
    plan = replace(plan, seconds_per_batch=seen.seconds_per_batch, refused=seen.refused)
    if options.budget is None:
        return plan
    return fit_budget(plan, seen.layout, parse_bytes(options.budget), classes=classes)


def store_card(session: Session, seen: Probe, plan: Plan) -> StoreCard:
    """The card of an empty store."""
    return StoreCard(
        format=FORMAT,
        model=session.model_card,
        data=session.data.card,
        capture=plan.card,
        layers=seen.specs,
        refused=seen.refused,
    )


class _Run:
    """One capture after its plan is made."""

    def __init__(
        self,
        session: Session,
        seen: Probe,
        plan: Plan,
        card: StoreCard,
        options: CaptureOptions,
        reporter: Reporter,
    ) -> None:
        self.session, self.seen, self.plan, self.card = session, seen, plan, card
        self.options, self.reporter = options, reporter
        self.classes = len(session.data.classes)
        self.layout = {
            address: place
            for address, place in seen.layout.items()
            if passes_ring(address, plan.card)
        }

    def run(self) -> CaptureReport:
        """Write the store from where it stands to its end, or to the next signal."""
        began = time.perf_counter()
        with self._writer() as writer, Interruption() as interruption:
            first = writer.committed
            stall = self._forward_passes(writer, interruption)
            writer.commit()
            timing = self._timing(time.perf_counter() - began, writer.committed - first, stall)
            if interruption.received is not None and writer.committed < writer.images:
                return self._interrupted(writer.committed, timing, interruption.exit_code)
            certificate = self._certify(writer)
            writer.finish(certificate, timing)
        return CaptureReport(
            "complete",
            self.options.out,
            self.plan,
            committed=writer.committed,
            certificate=certificate,
            timing=timing,
            warnings=self._warnings(certificate),
            exit_code=0 if certificate.passed else 5,
        )

    def _writer(self) -> StoreWriter:
        """The store's writer, at its beginning or where an earlier run stopped."""
        if self.options.resume:
            return StoreWriter.resume(self.options.out, self.card)
        data, keys = self.session.data, {spec.key for spec in self.card.layers}
        shapes = sum_shapes(self.layout, self.card.layers, self.classes)
        totals_only = self.plan.card.level == "totals"
        return StoreWriter.create(
            self.options.out,
            self.card,
            images=len(data),
            ids=data.ids,
            labels=data.labels,
            tables={} if totals_only else by_layer(self.layout, TABLES, keys),
            full=by_layer(self.layout, FULL, keys),
            image_columns=by_layer(self.layout, IMAGES, {""})[""],
            sums=shapes,
            batch_rows={key: {"batch_load": sums["load"]} for key, sums in shapes.items()},
            overwrite=self.options.overwrite,
        )

    def _forward_passes(self, writer: StoreWriter, interruption: Interruption) -> float:
        """Run all batches that are not stored yet; seconds that the forward pass had to wait."""
        data, card = self.session.data, self.plan.card
        assembler = Assembler(
            writer, card.level, data.ids, self.classes, self.reporter.noted, set(self.card.refused)
        )
        assembler.refused |= set(writer.card.refused)
        pipeline = Pipeline(
            self.layout,
            batch_size=card.batch_size,
            device=self.session.forward.machine.device,
            write=assembler.write,
        )
        with pipeline:
            start = writer.committed
            for batch in data.batches(card.batch_size, start=start):
                if interruption.received is not None:
                    break
                self._one_batch(pipeline, assembler, batch, start)
                start += len(batch.labels)
                self.reporter.advanced(start, len(data))
        return pipeline.stall_seconds

    def _one_batch(
        self, pipeline: Pipeline, assembler: Assembler, batch: Batch, start: int
    ) -> None:
        """One forward pass into one slot of the ring."""
        device = self.session.forward.machine.device
        card = self.plan.card
        slot = pipeline.acquire(start, batch.labels.numpy())

        def keep(items: Iterable[tuple[Address, Tensor]]) -> None:
            computed = list(items)
            with pipeline.copying():
                for address, tensor in computed:
                    slot.put(address, tensor)

        record_batch(
            self.session.forward,
            [spec for spec in self.card.layers if spec.key not in assembler.refused],
            self.session.detail(card),
            batch.pixels.to(device, non_blocking=True),
            self.session.labels(batch.labels).to(device),
            full_rows=max(min(card.full - start, len(batch.pixels)), 0),
            keep=keep,
        )
        pipeline.submit(slot)

    def _certify(self, writer: StoreWriter) -> Certificate:
        """Look again at what was stored, through the store."""
        store = open_store(writer.path)
        witness = Witness(
            self.session.forward,
            store.layers,
            features=self.plan.card.features != "none",
            stored=stored_arrays(store, self.session.forward.machine.device),
        )
        batches = VERIFIED_BATCHES if self.options.verify else 1
        look_again(witness, self.session.data, self.plan.card.batch_size, batches)
        return Certificate(checks=(*self._complete(writer), *witness.checks()))

    def _complete(self, writer: StoreWriter) -> tuple[Check, ...]:
        """Every layer seen, every image once."""
        expected = {spec.key for spec in self.session.specs}
        stored, refused = {spec.key for spec in writer.card.layers}, writer.card.refused
        left_out = "".join(f"; {key} left out: {why}" for key, why in sorted(refused.items()))
        return (
            Check(
                name="every layer was seen in every batch",
                passed=stored | set(refused) == expected,
                value=float(len(stored)),
                limit=float(len(expected)),
                detail=f"layers {', '.join(sorted(stored))}{left_out}",
            ),
            Check(
                name="every image is stored once",
                passed=writer.committed == len(self.session.data),
                value=float(writer.committed),
                limit=float(len(self.session.data)),
            ),
        )

    def _interrupted(
        self, committed: int, timing: dict[str, float], exit_code: int
    ) -> CaptureReport:
        """The report after a signal."""
        return CaptureReport(
            "interrupted",
            self.options.out,
            self.plan,
            committed=committed,
            timing=timing,
            resume=self.options.resume_command(),
            exit_code=exit_code,
        )

    def _timing(self, seconds: float, images: int, stall: float) -> dict[str, float]:
        """Everything that differs from run to run."""
        return {
            "finished_unix": time.time(),
            "images_this_run": images,
            "seconds_this_run": seconds,
            "images_per_second": images / seconds,
            "stall_seconds": stall,
            "recording_overhead": self.seen.overhead,
        }

    def _warnings(self, certificate: Certificate) -> tuple[str, ...]:
        """Failed checks, in words."""
        return tuple(
            f"certificate: {check.name} failed with {check.value:.3g} where {check.limit:.3g} is "
            f"allowed ({check.detail})"
            for check in certificate.checks
            if not check.passed
        )


def passes_ring(address: Address, card: CaptureCard) -> bool:
    """True if an array is copied to the host by a capture of this card.

    Profiles and hits always are, because the sums by class and by batch are made from them.
    """
    return wanted(address, card) or address.name in ("profile", "hits")
