"""Define the JSON keys of MSCCL++ execution plans, and the limits of the executor that runs them.

Grammar and limits: github.com/microsoft/mscclpp, src/core/executor/execution_plan.cc (the parser) and
src/core/include/execution_common.hpp.
"""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, create_model

from wavefabric.collectives.conditions import COLLECTIVES
from wavefabric.collectives.plans.plan import MOST_RANKS

#: Limits: operations and channels of a thread block, channels of an operation, barriers and semaphores of a
#: GPU, bytes of scratch with ``reuse_resources``; thread blocks, all of which run at once, one on each of the
#: 108 multiprocessors of an A100.
OPERATIONS, CHANNELS, PER_OPERATION, SEMAPHORES, SCRATCH_BYTES, BLOCKS = 64, 16, 8, 16, 1 << 26, 108
#: Names of collectives in MSCCL++, and in this package; transfers define collectives of other names.
COLLECTIVE_NAMES = {name.replace("-", ""): name for name in COLLECTIVES}
#: Operations that move data, with what they read and write. A letter is a buffer: ``l`` local, ``r`` remote,
#: ``m`` on all ranks of a switch; capital: packets in scratch; ``*``: any number of the last letter.
_MOVES = (
    "copy:l:l put:l*:r* pws:l*:r* pwsf:l*:r* get:r*:l* re:ll*:l res:ll*:lr* rre:lr*:l rres:lr*:lr* "
    "glres:m:m gstore:l:m cpkt:l:L upkt:L:l ppkt:l*:R* rppkt:L:R* repkt:lL*:l respkt:lL*:lR* "
    "recpkt:lL*:lL recspkt:lL*:lLR* gstorepkt:L:M"
)
MOVES = {name: (reads, writes) for name, reads, writes in (word.split(":") for word in _MOVES.split())}
#: Operations with one source per destination, and operations that a port can do.
PAIRED, BY_PORT = ("put", "pws", "pwsf", "get", "ppkt"), ("put", "pws", "pwsf", "ppkt", "rppkt")
_OTHERS = ["signal", "rlxsignal", "wait", "rlxwait", "sem_release", "sem_acquire", "barrier", "nop", "flush"]

_WHOLE = Annotated[int, Field(ge=0, lt=1 << 31)]
_SIZE = Annotated[int, Field(ge=1, lt=1 << 31)]
_BYTES = Annotated[int, Field(ge=0, lt=1 << 64)]
_BUFFER = Annotated[str, Field(pattern="^[ios]$")]
_KIND = Annotated[str, Field(pattern="^(memory|port|switch|none)$")]


def _table(**fields: Any) -> Any:
    """Create a Pydantic model with these keys; a key with a default may be missing."""
    keys: Any = {key: kind if isinstance(kind, tuple) else (kind, ...) for key, kind in fields.items()}
    return create_model("Table", __config__=ConfigDict(strict=True), **keys)


def _some(kind: Any, most: int = 4096, least: int = 0) -> Any:
    return Annotated[list[kind], Field(max_length=most, min_length=least)]


def _names(names: list[str]) -> Any:
    return Annotated[str, Field(pattern=f"^({'|'.join(names)})$")]


_CHUNKS = _table(
    index=_WHOLE,
    size=_SIZE,
    type=(_BUFFER | None, None),
    buffer_id=(_WHOLE | None, None),
    switch_channel_id=(_WHOLE | None, None),
)
_OPERATION = {
    "channel_ids": (_some(_WHOLE, PER_OPERATION), []),
    "channel_type": (_KIND, "none"),
    "src_buff": (_some(_CHUNKS, 2 + PER_OPERATION), []),
    "dst_buff": (_some(_CHUNKS, 2 + PER_OPERATION), []),
    "reduce_op": (_names(["sum"]), "sum"),
    "tbg_info": (_table(tb_id=_WHOLE, tbg_size=_SIZE) | None, None),
    "barrier_id": (Annotated[int, Field(ge=0, lt=SEMAPHORES)], 0),
    "num_threadblocks": (_SIZE, 1),
    "semaphore_ids": (_some(_WHOLE, SEMAPHORES), []),
    "iter_context": (_table(unit_size=_SIZE, num_chunks=_SIZE) | None, None),
}
_REPEATED = _table(name=_names([*(n for n in MOVES if "pkt" not in n), *_OTHERS]), **_OPERATION)
_BLOCK = _table(
    id=_WHOLE,
    ops=_some(_table(name=_names([*MOVES, *_OTHERS, "pipeline"]), ops=(_some(_REPEATED), []), **_OPERATION)),
    channels=(_some(_table(channel_type=_KIND, channel_ids=_some(_WHOLE))), []),
    remote_buffer_refs=(_some(_table(access_channel_type=_KIND, remote_buffer_ids=_some(_WHOLE))), []),
)
_CHANNELS = _table(  # before version 0.8 `buffer_type` was `buff`
    channel_type=_KIND,
    connected_to=(_some(_WHOLE), []),
    rank_groups=(_some(_table(ranks=_some(_WHOLE, least=1))), []),
    buffer_type=(_BUFFER | None, None),
    buff=(_BUFFER | None, None),
)
_GPU = _table(
    id=_WHOLE,
    input_chunks=_WHOLE,
    output_chunks=_WHOLE,
    scratch_chunks=_WHOLE,
    threadblocks=_some(_BLOCK),
    channels=(_some(_CHANNELS), []),
    remote_buffers=(_some(_table(rank=_WHOLE, type=_BUFFER)), []),
    semaphores=(_some(_table(init_value=Annotated[int, Field(ge=0, lt=1 << 16)]), SEMAPHORES), []),
)
#: An execution plan; ``root`` is an extension of this package, for collectives that have one.
PLAN = _table(
    name=Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]+$")],
    collective=str,
    protocol=_names(["Simple", "LL"]),
    inplace=bool,
    reuse_resources=(bool, False),
    use_double_scratch_buffer=(bool, False),
    max_message_size=(_BYTES, (1 << 64) - 1),
    root=(_WHOLE | None, None),
    gpus=_some(_GPU, MOST_RANKS, 1),
)
