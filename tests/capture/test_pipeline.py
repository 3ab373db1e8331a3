import threading

import numpy as np
import pytest
import torch

from routelab.capture.pipeline import Address, Field, Pipeline, allocate

ROWS = Address("tables", "01", "profile")
SUM = Address("sums", "01", "coactivation")
LAYOUT = {ROWS: Field((3,), torch.float32), SUM: Field((2, 2), torch.float32, rows=False)}
LABELS = np.zeros(4, np.int64)
CPU = torch.device("cpu")


def run(batches, write, *, depth=3, size=4):
    with Pipeline(LAYOUT, batch_size=size, device=CPU, write=write, depth=depth) as pipeline:
        for start, rows in batches:
            slot = pipeline.acquire(start, LABELS)
            with pipeline.copying():
                slot.put(ROWS, torch.full((rows, 3), float(start)))
                slot.put(SUM, torch.full((2, 2), float(start)))
            pipeline.submit(slot)
    return pipeline


def test_batches_arrive_whole_and_in_order():
    seen = []

    def write(slot):
        seen.append((slot.start, slot.array(ROWS).copy(), slot.array(SUM).copy()))

    run([(0, 4), (4, 4), (8, 2)], write)
    assert [start for start, _, _ in seen] == [0, 4, 8]
    assert [len(rows) for _, rows, _ in seen] == [4, 4, 2]
    for start, rows, total in seen:
        np.testing.assert_array_equal(rows, np.full((len(rows), 3), start))
        np.testing.assert_array_equal(total, np.full((2, 2), start))


def test_a_full_ring_blocks_and_the_stall_is_measured():
    gate = threading.Event()
    taken = []

    def write(slot):
        gate.wait(5)
        taken.append(slot.start)

    threading.Timer(0.2, gate.set).start()
    pipeline = run([(i, 1) for i in range(6)], write, depth=2)
    assert taken == list(range(6))
    assert 0.1 < pipeline.stall_seconds < 5


def test_an_error_of_the_writer_is_raised_in_the_forward_thread():
    def write(slot):
        if slot.start == 4:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        run([(i, 4) for i in range(0, 400, 4)], write)


def test_an_error_of_the_last_batch_is_raised_on_leaving():
    def write(slot):
        raise ValueError("the last one")

    with pytest.raises(ValueError, match="the last one"):
        run([(0, 4)], write)


def test_an_error_of_the_forward_pass_is_not_hidden_and_submitted_batches_are_written():
    seen = []
    pipeline = Pipeline(LAYOUT, batch_size=4, device=CPU, write=lambda s: seen.append(s.start))

    def fail_after_one_batch():
        with pipeline:
            pipeline.submit(pipeline.acquire(0, LABELS))
            raise KeyError("forward")

    with pytest.raises(KeyError):
        fail_after_one_batch()
    assert seen == [0]
    assert not any(thread.name == "routelab-writer" for thread in threading.enumerate())


def test_values_are_cast_while_they_are_copied():
    address = Address("full", "01", "tokens")
    slot = allocate({address: Field((2,), torch.float16)}, 3, CPU)
    slot.begin(0, LABELS)
    slot.put(address, torch.tensor([[1.0, 2.0]]))
    assert slot.array(address).dtype == np.float16
    assert slot.array(address).tolist() == [[1.0, 2.0]]
