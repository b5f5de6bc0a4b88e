#!/bin/bash
# Tests that want GPUs; a machine without a GPU runs what `make test` runs. From the repository, with the Python of $PYTHON.
#   tools/gpu_tests.sh one [...]  all tests marked gpu, on the first GPU; more arguments go to pytest (-n 8)
#   tools/gpu_tests.sh sanitizer [...]  compute-sanitizer over the kernels that wait for others and the fused kernels
#   tools/gpu_tests.sh ranks K    tests over K ranks by every transport, then one-sided
set -u
python=${PYTHON:-python3} status=0
pytest="$python -m pytest -o addopts= --import-mode=importlib --strict-markers -q -p no:cacheprovider -p no:benchmark"
export CUDA_MODULE_LOADING=EAGER OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 NCCL_NVLS_ENABLE=${NCCL_NVLS_ENABLE:-0}

said() {
    echo "== $*"
    "$@" || { status=1 && echo "== failed: $*"; }
}

case ${1:-} in
one)
    said $pytest -m gpu tests "${@:2}"
    ;;
sanitizer)
    files="tests/exchange/transports/test_plan_kernel.py tests/exchange/test_one_sided_regions.py"
    files+=" tests/optics/propagation/test_kerr_one_sided.py tests/acoustics/parallel/test_peers.py"
    files+=" tests/acoustics/solver/test_stages.py"
    # It waits for all kernels before it instruments a graph, also for those that wait for the graph's own.
    export WAVEFABRIC_TEST_GRAPHS=no
    for tool in memcheck racecheck; do
        said compute-sanitizer --tool "$tool" --report-api-errors no --error-exitcode 9 --target-processes all \
            $pytest -m gpu -x $files "${@:2}"
    done
    ;;
ranks)
    ranks="mpiexec -n ${2:?how many ranks} $pytest"
    over=$(grep -rlE 'mark\.(parallel|multigpu)' tests --include='test_*.py' | tr '\n' ' ')
    for transport in p2p nccl mpi; do
        said env WAVEFABRIC_TEST_TRANSPORT=$transport $ranks $over
    done
    for protocol in signals packets; do
        said env WAVEFABRIC_TEST_TRANSPORT=p2p WAVEFABRIC_PROTOCOL=$protocol $ranks $over
    done
    ;;
*)
    sed -n 's/^#   //p' "$0" >&2
    exit 2
    ;;
esac
exit $status
