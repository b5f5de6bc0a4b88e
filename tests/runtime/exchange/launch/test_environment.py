"""Who started this process, by the variables that starters set."""

import pytest

from wavefabric.runtime.exchange.launch import environment

#: starter: (variables of rank 5 of 8, the second rank of the second host of two), local rank, local size
STARTERS = {
    "hydra": ({"PMI_RANK": "5", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4"}, 1, 4),
    "open mpi": (
        {
            "OMPI_COMM_WORLD_RANK": "5",
            "OMPI_COMM_WORLD_SIZE": "8",
            "OMPI_COMM_WORLD_LOCAL_RANK": "1",
            "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
            "PMIX_RANK": "5",
        },
        1,
        4,
    ),
    "srun": (
        {
            "SLURM_PROCID": "5",
            "SLURM_STEP_NUM_TASKS": "8",
            "SLURM_LOCALID": "1",
            "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
            "SLURM_NODEID": "1",
        },
        1,
        4,
    ),
    "srun, uneven, pmi2": (
        {
            "PMI_RANK": "5",
            "PMI_SIZE": "8",
            "SLURM_PROCID": "5",
            "SLURM_STEP_NUM_TASKS": "8",
            "SLURM_LOCALID": "1",
            "SLURM_STEP_TASKS_PER_NODE": "4,3,1",
            "SLURM_NODEID": "1",
        },
        1,
        3,
    ),
    "bare pmi": ({"PMI_RANK": "5", "PMI_SIZE": "8"}, 5, 8),
}
ALONE = {
    "nothing": {},
    "a batch script": {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_LOCALID": "0"},
    "half": {"PMI_SIZE": "8"},
    "nonsense": {"PMI_RANK": "five", "PMI_SIZE": "8"},
    "outside": {"PMI_RANK": "8", "PMI_SIZE": "8"},
    "one task": {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"},
}


@pytest.fixture
def variables(monkeypatch):
    """Only these variables of starters are set."""

    def apply(result):
        kept = environment.without_ranks(dict(environment.os.environ))
        for name in set(environment.os.environ) - set(kept):
            monkeypatch.delenv(name)
        for name, value in result.items():
            monkeypatch.setenv(name, value)

    return apply


@pytest.mark.parametrize("starter", list(STARTERS))
def test_ranks(variables, starter):
    result, local_rank, local_size = STARTERS[starter]
    variables(result)
    assert (environment.ranks(), environment.rank()) == (8, 5)
    assert (environment.local_rank(), environment.local_size()) == (local_rank, local_size)


@pytest.mark.parametrize("kind", list(ALONE))
def test_alone(variables, kind):
    variables(ALONE[kind])
    assert (environment.ranks(), environment.rank()) == (1, 0)
    assert (environment.local_rank(), environment.local_size()) == (0, 1)


def test_expected_ranks(variables, monkeypatch):
    variables({})
    monkeypatch.delenv("WAVEFABRIC_RANKS", raising=False)
    assert environment.expected_ranks() is None
    monkeypatch.setenv("WAVEFABRIC_RANKS", "4")
    assert environment.expected_ranks() == 4


@pytest.mark.parametrize("starter", list(STARTERS))
def test_nothing_of_an_older_mpiexec_is_left(starter):
    result, *_ = STARTERS[starter]
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "PBS_NODEFILE": "/pbs", "LSB_HOSTS": "n1 n2"}
    assert environment.without_ranks({**result, **job, "PATH": "/bin"}) == {"PATH": "/bin"}


@pytest.mark.parametrize(
    ("more", "usable", "threads"),
    [
        ({}, 32, 8),  # of the host's 32, by four ranks
        ({}, 1, 1),
        ({"SLURM_CPUS_PER_TASK": "8"}, 8, 8),  # bound to eight
        ({"SLURM_CPUS_PER_TASK": "8"}, 32, 8),
        ({"SLURM_CPUS_PER_TASK": "8"}, 4, 4),
        ({"SLURM_CPUS_PER_TASK": "8", "WAVEFABRIC_THREADS": "3"}, 32, 3),
    ],
)
def test_threads_of_a_rank(variables, monkeypatch, more, usable, threads):
    monkeypatch.delenv("WAVEFABRIC_THREADS", raising=False)
    monkeypatch.setattr(environment, "usable_threads", lambda: usable)
    variables(STARTERS["srun"][0] | more)
    assert environment.rank_threads() == threads
