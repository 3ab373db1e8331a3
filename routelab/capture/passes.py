"""How do the forward passes of a capture run, from where the store stands to the last image?"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from torch import Tensor

from routelab.capture.assembly import Assembler, by_layer, sum_shapes
from routelab.capture.forward import record_batch
from routelab.capture.interrupt import Interruption
from routelab.capture.pipeline import Address, Layout, Pipeline
from routelab.capture.plan import wanted
from routelab.capture.recording import FULL, IMAGES, TABLES
from routelab.capture.reporter import Reporter
from routelab.capture.session import Session
from routelab.data import Batch
from routelab.models import lineage_arrays
from routelab.records import StoreCard
from routelab.store import StoreWriter


class Passes:
    """All batches of one capture that are not stored yet.

    Parameters
    ----------
    session
        Model and images.
    card
        The store's card as it was planned.
    layout
        Every array of a batch at the level of detail that the probe has seen.
    reporter
        Told of the progress.
    """

    def __init__(
        self, session: Session, card: StoreCard, layout: Layout, reporter: Reporter
    ) -> None:
        self.session, self.card, self.reporter = session, card, reporter
        self.layout = {
            address: place
            for address, place in layout.items()
            if wanted(address, card.capture) or address.name in ("profile", "hits")
        }  # profile and hits always pass: the sums by class and by batch are made from them

    def create(self, out: Path, *, overwrite: bool) -> StoreWriter:
        """Make the empty store that these passes fill."""
        data, keys = self.session.data, {spec.key for spec in self.card.layers}
        shapes = sum_shapes(self.layout, self.card.layers, len(data.classes))
        totals_only = self.card.capture.level == "totals"
        return StoreWriter.create(
            out,
            self.card,
            images=len(data),
            ids=data.ids,
            labels=data.labels,
            tables={} if totals_only else by_layer(self.layout, TABLES, keys),
            full=by_layer(self.layout, FULL, keys),
            image_columns=by_layer(self.layout, IMAGES, {""})[""],
            sums=shapes,
            batch_rows={key: {"batch_load": sums["load"]} for key, sums in shapes.items()},
            lineage=lineage_arrays(self.session.forward.model),
            overwrite=overwrite,
        )

    def run(self, writer: StoreWriter, interruption: Interruption) -> float:
        """Run to the last image or the next signal; seconds that the model waited for the writer.

        Raises
        ------
        Refusal
            If the disk is full, an image cannot be read, or no layer is left to record.
        """
        data, batch_size = self.session.data, self.card.capture.batch_size
        assembler = Assembler(writer, data.ids, len(data.classes), set(writer.card.refused))
        pipeline = Pipeline(
            self.layout,
            batch_size=batch_size,
            device=self.session.forward.machine.device,
            write=assembler.write,
        )
        with pipeline:
            start = writer.committed
            for batch in data.batches(batch_size, start=start):
                if interruption.received is not None:
                    break
                self._one(pipeline, assembler, batch, start)
                start += len(batch.labels)
                self.reporter.advanced(start, len(data), writer.committed)
        return pipeline.stall_seconds

    def _one(self, pipeline: Pipeline, assembler: Assembler, batch: Batch, start: int) -> None:
        """One forward pass into one slot of the ring."""
        device = self.session.forward.machine.device
        slot = pipeline.acquire(start, batch.labels.numpy())

        def keep(items: Iterable[tuple[Address, Tensor]]) -> None:
            computed = list(items)
            with pipeline.copying():
                for address, tensor in computed:
                    slot.put(address, tensor)

        record_batch(
            self.session.forward,
            [spec for spec in self.card.layers if spec.key not in assembler.refused],
            self.session.detail(self.card.capture),
            batch.pixels.to(device, non_blocking=True),
            self.session.labels(batch.labels).to(device),
            full_rows=max(min(self.card.capture.full - start, len(batch.labels)), 0),
            keep=keep,
        )
        pipeline.submit(slot)
