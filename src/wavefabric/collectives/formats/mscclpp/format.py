"""The JSON of an execution plan of MSCCL++: its keys, and the limits of the program that runs it.

Grammar and limits: github.com/microsoft/mscclpp, src/core/executor/execution_plan.cc (the parser) and
src/core/include/execution_common.hpp.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from wavefabric.collectives.arguments import MOST_RANKS
from wavefabric.collectives.conditions import COLLECTIVES

#: Limits: operations and channels of a thread block, channels of an operation, barriers and semaphores of a
#: GPU, bytes of scratch of plans with ``reuse_resources``; thread blocks, which must run all at once, of the
#: 108 multiprocessors of an A100.
OPERATIONS, CHANNELS, PER_OPERATION, SEMAPHORES, SCRATCH_BYTES, BLOCKS = 64, 16, 8, 16, 1 << 26, 108
#: What MSCCL++ calls collectives, and what we do; others are what they do.
COLLECTIVE_NAMES = {name.replace("-", ""): name for name in COLLECTIVES}
#: Operations that move data: what they read and write. A letter stands for a place, ``l`` local, ``r`` remote,
#: ``m`` all ranks of a switch; capital, packets in scratch; ``*``: any number of the last.
MOVES = {
    name: (reads, writes)
    for name, reads, writes in (
        word.split(":")
        for word in [
            "copy:l:l",
            "cpkt:l:L",
            "upkt:L:l",
            "put:l*:r*",
            "pws:l*:r*",
            "pwsf:l*:r*",
            "get:r*:l*",
            "ppkt:l*:R*",
            "rppkt:L:R*",
            "re:ll*:l",
            "res:ll*:lr*",
            "rre:lr*:l",
            "rres:lr*:lr*",
            "repkt:lL*:l",
            "respkt:lL*:lR*",
            "recpkt:lL*:lL",
            "recspkt:lL*:lLR*",
            "glres:m:m",
            "gstore:l:m",
            "gstorepkt:L:M",
        ]
    )
}
#: Those that go to each destination from a source of its own, and those that a port can do.
PAIRED, BY_PORT = ("put", "pws", "pwsf", "get", "ppkt"), ("put", "pws", "pwsf", "ppkt", "rppkt")
#: The others, by what they do.
SIGNALS, WAITS, SYNCS = (
    ("signal", "rlxsignal"),
    ("wait", "rlxwait"),
    ("sem_release", "sem_acquire", "barrier"),
)

_Number = Annotated[int, Field(strict=True, ge=0, lt=1 << 31)]
_Size = Annotated[int, Field(strict=True, ge=1, lt=1 << 31)]
_Bytes = Annotated[int, Field(strict=True, ge=0, lt=1 << 64)]
_Kind, _Buffer = Literal["memory", "port", "switch", "none"], Literal["i", "o", "s"] | None
_Name = Literal[tuple((*MOVES, *SIGNALS, *WAITS, *SYNCS, "nop", "flush", "pipeline"))]  # type: ignore[valid-type]


class _Table(BaseModel):
    model_config = ConfigDict(strict=True)


def _table(**fields: Any) -> Any:
    """A table of these keys, all of them needed."""
    return create_model("_Keys", __base__=_Table, **{key: (kind, ...) for key, kind in fields.items()})


class Chunks(_Table):
    """Chunks of a buffer: of the GPU's own (``type``), a remote one, or one of a switch."""

    type: _Buffer = None
    buffer_id: _Number | None = None
    switch_channel_id: _Number | None = None
    index: _Number
    size: _Size


class PlanOperation(_Table):
    """An operation of a thread block; a pipeline repeats its ``ops``."""

    name: _Name
    channel_ids: Annotated[list[_Number], Field(max_length=PER_OPERATION)] = []
    channel_type: _Kind = "none"
    src_buff: Annotated[list[Chunks], Field(max_length=2 + PER_OPERATION)] = []
    dst_buff: Annotated[list[Chunks], Field(max_length=2 + PER_OPERATION)] = []
    reduce_op: Literal["sum"] = "sum"
    tbg_info: _table(tb_id=_Number, tbg_size=_Size) | None = None
    barrier_id: Annotated[int, Field(strict=True, ge=0, lt=SEMAPHORES)] = 0
    num_threadblocks: _Size = 1
    semaphore_ids: Annotated[list[_Number], Field(max_length=SEMAPHORES)] = []
    iter_context: _table(unit_size=_Size, num_chunks=_Size) | None = None
    ops: "list[PlanOperation]" = []


class ThreadBlock(_Table):
    """A thread block, with the channels and remote buffers of its GPU that it uses."""

    id: _Number
    ops: list[PlanOperation]
    channels: list[_table(channel_type=_Kind, channel_ids=list[_Number])] = []
    remote_buffer_refs: list[_table(access_channel_type=_Kind, remote_buffer_ids=list[_Number])] = []


class PlanChannels(_Table):
    """Channels of a GPU: to peers, or of a switch (whose buffer was ``buff`` in version 0.8)."""

    channel_type: _Kind
    connected_to: list[_Number] = []
    rank_groups: list[_table(ranks=list[_Number])] = []
    buffer_type: _Buffer = None
    buff: _Buffer = None


class PlanGpu(_Table):
    """What a GPU has and does."""

    id: _Number
    input_chunks: _Number
    output_chunks: _Number
    scratch_chunks: _Number
    threadblocks: Annotated[list[ThreadBlock], Field(max_length=1024)]
    channels: list[PlanChannels] = []
    remote_buffers: list[_table(rank=_Number, type=Literal["i", "o", "s"])] = []
    semaphores: Annotated[
        list[_table(init_value=Annotated[int, Field(ge=0, lt=1 << 16)])], Field(max_length=16)
    ] = []


class MscclppPlan(_Table):
    """An execution plan; ``root`` is ours, for collectives that have one."""

    name: Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]+$")]
    collective: str
    protocol: Literal["Simple", "LL"]
    inplace: bool
    reuse_resources: bool = False
    use_double_scratch_buffer: bool = False
    max_message_size: _Bytes = (1 << 64) - 1
    root: _Number | None = None
    gpus: Annotated[list[PlanGpu], Field(min_length=1, max_length=MOST_RANKS)]
