"""`fibre-scaling` where kernels store in other ranks' memory, on emulated GPUs that are threads."""

from types import SimpleNamespace

from fake_gpus import EmulatedGpu, fake_cupy, together

from benchmarks.fibre_scaling import _Bench


def test_what_is_exposed_is_over_the_same_kernels_without_exchange(monkeypatch):
    monkeypatch.setenv("WAVEFABRIC_PROTOCOL", "signals")

    def work(comm):
        ranks = SimpleNamespace(size=comm.size, rank=comm.rank, device=comm.device)
        bench = _Bench(ranks, modes=1, n=64, steps=1, h=1.0, repeats=1)
        bench.time = lambda operators: {"ms": 10.0 if operators.one_sided.timeout.waits else 4.0}
        alone = {"one_rank": {"ms": 5.0}, "no_exchange": {"ms": 1.0}}
        result = bench.case(comm, "dense", alone)
        return result["ms"], result["ratio"], result["exposed_ms"]

    with fake_cupy() as transports:
        assert together(transports, "p2p", 2, work, make=EmulatedGpu) == [(10.0, 2.0, 6.0)] * 2
