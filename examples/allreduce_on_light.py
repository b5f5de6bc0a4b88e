"""An all-reduce over the light of 32 tiles: made, proved, costed beside a ring, and drawn.

``python examples/allreduce_on_light.py [FOLDER]`` writes ``all-reduce-circuits.html`` (a page that plays),
``all-reduce-circuits.png`` (all rounds beside each other) and ``all-reduce.json`` (the schedule) there. A few
seconds.
"""

import sys
from pathlib import Path

from wavefabric.collectives import save, verify
from wavefabric.collectives.registry import build
from wavefabric.fabric import check_plan, cost, draw_circuits, load, plan_circuits

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
folder.mkdir(parents=True, exist_ok=True)
wafer = load("lightpath:4x8")
array = 16 << 20  # bytes that every GPU holds
elements = 2 * wafer.ranks


def seconds(schedule):
    verify(schedule)  # every rank ends with the sum of all, or this raises
    return cost(schedule, wafer, array / elements).seconds


schedules = {
    "ring": build("ring", "all-reduce", wafer.ranks, elements),
    "recursive, radix 2": build("recursive", "all-reduce", wafer.ranks, elements),
    "recursive, radix 4": build("recursive", "all-reduce", wafer.ranks, elements, radix=4),
}
for name, schedule in schedules.items():
    print(f"{name:20} {schedule.communication_rounds:3} rounds  {seconds(schedule) * 1e6:6.1f} us")

best = min(schedules.values(), key=seconds)
circuits = plan_circuits(best, wafer)  # routes, wavelengths and waveguides of every round
check_plan(circuits, best)  # proved apart from how they were found
time = cost(best, wafer, array / elements, plan=circuits)
print(f"best: {best.name}, {time.seconds / time.bound.seconds:.2f} times what no schedule can beat")

for ending in ("html", "png"):
    print("wrote", draw_circuits(best, circuits, folder / f"all-reduce-circuits.{ending}", time, force=True))
print("wrote", save(folder / "all-reduce.json", best, force=True))
