"""Build, synthesise, verify and store schedules of collective operations, and compile them to run.

Defines `Schedule` and its initial and final conditions; builders/, synthesis/, formats/ and plans/ make,
find, convert and compile schedules. Imports only `wavefabric.base`: no fabric, no transport, no device.
"""

from wavefabric.collectives.builders.direct import direct_all_gather, direct_all_reduce
from wavefabric.collectives.builders.messages import all_to_all, greedy, point_to_point
from wavefabric.collectives.builders.ring import ring_all_gather, ring_all_reduce
from wavefabric.collectives.builders.sequence import in_sequence
from wavefabric.collectives.conditions import COLLECTIVES, Layout, kind, layout
from wavefabric.collectives.formats.json_file import from_json, load, save, to_json
from wavefabric.collectives.levels import levels
from wavefabric.collectives.registry import ALGORITHMS, Algorithm, build, why_refused
from wavefabric.collectives.schedule import TRANSFER, Schedule
from wavefabric.collectives.structure import ScheduleError
from wavefabric.collectives.verify import verify

__all__ = [
    "ALGORITHMS",
    "COLLECTIVES",
    "TRANSFER",
    "Algorithm",
    "Layout",
    "Schedule",
    "ScheduleError",
    "all_to_all",
    "build",
    "direct_all_gather",
    "direct_all_reduce",
    "from_json",
    "greedy",
    "in_sequence",
    "kind",
    "layout",
    "levels",
    "load",
    "point_to_point",
    "ring_all_gather",
    "ring_all_reduce",
    "save",
    "to_json",
    "verify",
    "why_refused",
]
