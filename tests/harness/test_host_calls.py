"""Calls of the CUDA API are counted from the trace of the profiler: those of the marked exchanges, and no others."""

import pytest

pytestmark = pytest.mark.requires("torch")


def event(name, ts, cat="cuda_runtime", **more):
    return {"name": name, "cat": cat, "ts": ts, **more}


def trace(*events):
    return [event("counted exchanges", 100.0, "user_annotation", dur=50.0), *events]


def counted(*events):
    from harness.ranks.timing import per_exchange

    return per_exchange(trace(*events), 2)


def test_calls_are_counted_by_name_and_exchange():
    calls = [event("cudaLaunchKernelExC", 100.0 + index) for index in range(8)]
    assert counted(*calls, event("cuEventRecord", 149.0, "cuda_driver")) == {
        "cudaLaunchKernelExC": 4.0,
        "cuEventRecord": 0.5,
    }


@pytest.mark.parametrize("stray", [event("cudaDeviceSynchronize", 151.0), event("cudaMalloc", 99.0)])
def test_calls_outside_the_exchanges_do_not_count(stray):
    assert counted(stray) == {}


def test_work_on_the_device_and_operators_are_no_calls():
    assert counted(event("dispatch", 120.0, "kernel"), event("aten::empty", 120.0, "cpu_op")) == {}


def test_the_profiler_marks_what_is_counted():
    from harness.ranks.timing import Repeatable
    from harness.ranks.timing import count_calls as count

    enqueued = []
    assert count(Repeatable(lambda: enqueued.append(1), lambda: None), 3) == {}  # no GPU: no calls, and no error
    assert len(enqueued) == 3
