#!/bin/bash
# Tests that want GPUs; a machine without a GPU runs what `make test` runs. From the repository, with the Python of $PYTHON.
#   tools/gpu_tests.sh one [...]  all tests marked gpu, on the first GPU; more arguments go to pytest (-n 8)
#   tools/gpu_tests.sh sanitizer [...]  compute-sanitizer over the kernels that wait for others and the fused kernels
#   tools/gpu_tests.sh ranks K [PASS ...]  tests over K ranks by every transport: passes copies nccl mpi, and one-sided p2p
#                  signals packets, each cut in groups of files. $JOBS groups run at once, a third of them one-sided; by default a
#                  core for each rank and a quarter of the cores free. Groups take turns on K GPUs, on the next K, and so on.
#                  What a group prints: $LOGS/PASS-NUMBER.log
set -u
python=$(command -v "${PYTHON:-python3}") status=0  # whole: an mpiexec called by its whole name searches its own folder first
pytest="$python -m pytest -o addopts= --import-mode=importlib --strict-markers -q -p no:cacheprovider -p no:benchmark"
export CUDA_MODULE_LOADING=EAGER OMP_NUM_THREADS=1 NCCL_NVLS_ENABLE=${NCCL_NVLS_ENABLE:-0}

said() {
    echo "== $*"
    "$@" || { status=1 && echo "== failed: $*"; }
}

case ${1:-} in
one)
    said $pytest -m gpu tests "${@:2}"
    ;;
sanitizer)
    files="tests/runtime/exchange/transports/test_plan_kernel.py tests/runtime/exchange/test_one_sided_regions.py"
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
    export ranks=${2:?how many ranks} groups=4 logs=${LOGS:-$(mktemp -d)} pytest
    [ -n "${CUDA_VISIBLE_DEVICES:-}" ] && gpus=$ranks || gpus=$(nvidia-smi -L 2>/dev/null | wc -l)
    export sets=$((gpus / ranks))
    mkdir -p "$logs" && echo "== logs: $logs"
    export over=$(grep -rlE 'mark\.(parallel|multigpu)' tests --include='test_*.py' | xargs ls -S)
    # The mpiexec of mpi4py; Open MPI's would bind the ranks of every group to the same cores.
    ask="from wavefabric.runtime.exchange.launch.mpiexec_command import command; words, more = command($ranks, 'p2p', {})"
    launch=$($python -c "$ask; print(*(f'{k}={v}' for k, v in more.items()), *words)") || exit 1
    export launch MPIR_CVAR_POLLS_BEFORE_YIELD=0 OMPI_MCA_mpi_yield_when_idle=1  # who waits leaves the core to others
    group() {
        local transport=$1 log=$logs/$1-$2.log tmp=$(mktemp -d) began=$SECONDS code
        case $1 in copies | signals | packets) transport=p2p && export WAVEFABRIC_PROTOCOL=$1 ;; esac
        ((sets < 2)) || export CUDA_VISIBLE_DEVICES=$(seq -s , $(($2 % sets * ranks)) $(($2 % sets * ranks + ranks - 1)))
        # Ranks that tidy up one folder of temporary files at the same time would fail: none does.
        env COLUMNS=240 PYTEST_DEBUG_TEMPROOT="$tmp" WAVEFABRIC_TEST_TRANSPORT="$transport" $launch $pytest -vv \
            -o console_output_style=classic --color=no --durations=5 -o tmp_path_retention_count=100 \
            $(sed -n "$2~${groups}p" <<<"$over") </dev/null >"$log" 2>&1
        code=$?
        rm -rf "$tmp"
        echo "== $1, group $2: exit code $code after $((SECONDS - began)) s;" \
            "$(grep -aoE '[0-9]+ (passed|failed).* in [0-9.]+s' "$log" | tail -n 1)"
        grep -aE '^(FAILED|ERROR) tests' "$log" | sort -u
        [ $code = 0 ]
    }
    export -f group
    passes=${*:3}
    all() {
        for name in ${passes:-copies nccl mpi p2p signals packets}; do
            for number in $(seq "$groups"); do echo "$name $number"; done
        done
    }
    in_turn() { xargs -r -P "$1" -L 1 bash -c 'group "$@"' group; }
    jobs=${JOBS:-$(($(env -u OMP_NUM_THREADS nproc) * 3 / 4 / ranks))}
    # Kernels that wait for other ranks hold up those of other processes on their GPU: few groups at once.
    all | grep -E '^(p2p|signals|packets)' | in_turn $((jobs < 3 ? 1 : jobs / 3)) &
    all | grep -vE '^(p2p|signals|packets)' | in_turn $((jobs < 3 ? 1 : jobs - jobs / 3)) || status=1
    wait $! || status=1
    ;;
*)
    sed -n 's/^#   //p' "$0" >&2
    exit 2
    ;;
esac
exit $status
