"""Build Bruck's algorithms: all-gather and all-to-all in ⌈log_radix N⌉ rounds for any number of ranks.

Bruck, Ho, Kipnis, Upfal & Weathersby 1997, doi:10.1109/71.642949. Chunks keep their positions, so the
all-gather needs no final rotation; a block that wraps around the end of the array is two transfers.
"""

import numpy as np

from wavefabric.collectives.builders.transfers import assemble, transfers
from wavefabric.collectives.conditions import layout
from wavefabric.collectives.schedule import Schedule


def bruck(collective: str, ranks: int, elements: int, pieces: int = 1, radix: int = 2) -> Schedule:
    """Build an all-gather or all-to-all in which a rank sends to at most radix − 1 others per round."""
    build = _all_gather if collective == "all-gather" else _all_to_all
    return build(f"bruck {collective}, radix {radix}", ranks, elements, pieces, radix)


def _all_gather(name: str, ranks: int, elements: int, pieces: int, radix: int) -> Schedule:
    rank, parts, held, step = np.arange(ranks)[:, None], [], 1, 0
    while held < ranks:
        # Each rank holds the parts of `held` ranks, its own first, and receives parts of the next ranks.
        for distance in range(held, min(ranks, radix * held), held):
            part = (rank + np.arange(min(held, ranks - distance))) % ranks
            parts.append(transfers(step, rank, (rank - distance) % ranks, part * pieces, count=pieces))
        held, step = min(ranks, radix * held), step + 1
    return assemble(name, layout("all-gather", ranks, elements, pieces), parts)


def _all_to_all(name: str, ranks: int, elements: int, pieces: int, radix: int) -> Schedule:
    """Build an all-to-all: data for the rank i ahead move by one digit of i (in base ``radix``) at a time.

    The data of one rank for another are a block. All blocks of a rank with the same digit go to the same
    rank: they are packed in ``scratch``, sent together, and received in ``scratch``, or with the last digit
    in ``recv``. Block sizes differ between ranks, so each round uses new chunks of ``scratch``.
    """
    conditions = layout("all-to-all", ranks, elements, pieces)
    blocks_of = conditions.sizes[0].reshape(ranks, ranks, pieces)  # by sender and receiver
    rank = np.arange(ranks)[:, None]
    send, recv, scratch = 0, 1, 2
    buffer, chunk_of = np.full(ranks, send), (rank + np.arange(ranks)) % ranks * pieces
    sizes, base, step, weight = [], 0, 0, 1

    def move(round_, dst, source, target, buffers) -> np.ndarray:
        return transfers(round_, rank, dst, source, target, count=pieces, buffers=buffers)

    def new_chunks(blocks: np.ndarray, passed: int) -> np.ndarray:
        """Add chunks of ``scratch`` for ``blocks``, and return the number of each block's first chunk.

        Block i has to go i ranks ahead. It has already moved by the digits of i that weigh less than
        ``passed``, so the other digits tell for which rank it is.
        """
        nonlocal base
        first = base + np.arange(blocks.size) * pieces
        base += blocks.size * pieces
        origin = (rank - blocks % passed) % ranks
        sizes.append(blocks_of[origin, (origin + blocks) % ranks].reshape(ranks, -1))
        return first

    parts = [move(1, rank, rank * pieces, rank * pieces, (send, recv))]
    while weight < ranks:
        last = radix * weight >= ranks
        for digit in range(1, min(radix, -(-ranks // weight))):
            ahead = np.arange(ranks)
            # Reversed, as the order of blocks in ``recv`` is.
            blocks = ahead[ahead // weight % radix == digit][::-1]
            source, held = buffer[blocks], chunk_of[:, blocks]
            if blocks.size > 1:
                packed = np.tile(new_chunks(blocks, weight), (ranks, 1))
                parts.append(move(step, rank, held, packed, (source, scratch)))
                source, held = scratch, packed
            peer = (rank + digit * weight) % ranks
            if last:
                buffer[blocks], chunk_of[:, blocks] = recv, (rank - blocks) % ranks * pieces
            else:
                buffer[blocks], chunk_of[:, blocks] = scratch, new_chunks(blocks, radix * weight)
            arrived = chunk_of[peer[:, 0]][:, blocks]
            parts.append(move(step + 1, peer, held, arrived, (source, buffer[blocks])))
        weight, step = radix * weight, step + 2
    in_transit = np.flatnonzero(buffer == scratch)
    target = (rank - in_transit) % ranks * pieces
    parts.append(move(step, rank, chunk_of[:, in_transit], target, (scratch, recv)))
    return assemble(name, conditions, parts, np.concatenate(sizes, axis=1) if sizes else None)
