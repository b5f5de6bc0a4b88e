"""Prepares and keeps the fields, operators and kernels that runs with one medium and time step share."""

from wavefabric.acoustics import choose_stages
from wavefabric.acoustics.decomposition.decompose import Partition, decompose
from wavefabric.acoustics.parallel.restrict import restrict_problem
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.acoustics.solver.stages import Stages
from wavefabric.runtime.lifecycle.collective_checks import check_memory


class Setup:
    """Keeps the stages of a time step (fields, operators, kernels) for runs with one medium and time step.

    Only one run at a time may use a `Setup`. ``options`` are the settings of all these runs; all ranks must
    call each method. ``indexed`` allows a medium of few materials to be stored as indices into a table.
    """

    def __init__(self, options: RunSettings, indexed: bool = True):
        self._options, self.indexed = options, indexed
        self._stages: Stages | None = None
        self._problem: Problem | None = None
        #: Bytes of the stages without sources; 0 if there are no stages.
        self.nbytes = 0

    def partition(self, problem: Problem) -> Partition:
        """Return the partition of the grid among the ranks."""
        ranks, decomposition = self._options.ranks.size, self._options.decomposition
        return decompose(problem.shape, ranks, decomposition if ranks > 1 else None, problem.stacked)

    def stages(self, problem: Problem, recording: Recording, extra_bytes: int = 0) -> Stages:
        """Return the stages of a time step, with zero fields and the sources of ``problem``.

        The stages of the last run are used again if it had the same medium and time step. `InputError`: a
        device lacks the memory for the stages, the recording and ``extra_bytes`` further bytes.
        """
        comm, dtype, partition = self._options.ranks, self._options.dtype, self.partition(problem)
        last, stages = self._problem, self._stages
        if last is None or problem.facts is not last.facts or problem.dt != last.dt:
            self.close()
            stages = None
        arguments = dtype, comm.device, partition, comm.one_sided, self.indexed
        needed = choose_stages.needed_bytes(problem, recording, *arguments) + extra_bytes - self.nbytes
        less = "use a smaller grid, single precision or fewer recorded points"
        check_memory(comm, comm.device, max(needed, 0), "this run", less)
        if stages is None:
            shared = {"comm": comm, "decomposition": partition, "indexed": self.indexed}
            stages = choose_stages.make_stages(comm.device, problem, dtype, **shared)
            silent = problem.with_medium(steps=1)
            self.nbytes = choose_stages.needed_bytes(silent, Recording(("p_final",)), *arguments)
        else:
            stages.begin(restrict_problem(problem, partition.subdomains[comm.rank]))
        self._problem, self._stages = problem, stages
        return stages

    def close(self) -> None:
        """Free the memory of the stages; the next run creates new ones."""
        self._problem, self._stages, self.nbytes = None, None, 0
