"""`run --plan`: options of ranks taken from a plan instead of from the user."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from wavefabric.cli.common.decomposition import DecompositionOptions
from wavefabric.cli.common.options import changed, option, options, refuse
from wavefabric.cli.common.ranks import PANEL, RankOptions, is_rank_zero, on_ranks
from wavefabric.cli.run_options import RunOptions
from wavefabric.errors import InputError, quoted
from wavefabric.exchange.launch import environment
from wavefabric.results.provenance import PLAN

if TYPE_CHECKING:
    from wavefabric.planner import RunPlan


@options(PANEL)
class PlannedOptions:
    """How a plan is made for this run."""

    plan: str | None = option(
        "auto: predict every way to share the run among the ranks, and take the best; or a JSON file of "
        "`wavefabric plan -o`."
    )
    fabric: str | None = option("With --plan auto: fabric between the GPUs, a preset or a file.")
    device_file: str | None = option(
        "With --plan auto: how fast the device is, as of `wavefabric plan`. \\[default: by the GPU's name]"
    )
    max_error: float | None = option(
        "With --plan auto: class of error allowed, such as 1e-3. \\[default: 0, the answers of one rank]"
    )

    def apply(
        self, file: Path, options: RunOptions, ranks: RankOptions, cut: DecompositionOptions
    ) -> tuple[RunOptions, RankOptions, DecompositionOptions]:
        """The same options as a plan says; without one as they are."""
        if self.plan is None:
            refuse(changed(self), "without --plan", "with --plan auto")
            return options, ranks, cut
        if ranks.count == 1:
            refuse(changed(self, "plan"), "for one rank", "with --ranks 2 or more")
        by_hand = changed(cut) | changed(options, "exchange") | changed(ranks, "transport", "placement")
        refuse(by_hand, "with --plan", "without")
        record = self._record(file, ranks)
        from wavefabric.device.select import cuda_count

        if not record["cpu"] and (ranks.device == "cpu" or not cuda_count()):
            actual = f"a plan for GPUs ({record['device']}), and ranks on CPUs"
            raise InputError(f"--plan: {actual}; allowed: a device file of this CPU")
        os.environ[PLAN] = json.dumps(record)
        chosen, carrier = record["options"], record["carrier"]
        transport, _, protocol = carrier.partition(", ")
        if protocol:
            os.environ["WAVEFABRIC_PROTOCOL"] = protocol
        else:
            os.environ.pop("WAVEFABRIC_PROTOCOL", None)
        several_hosts = on_ranks() and environment.local_size() != ranks.count
        order = () if record["cpu"] or several_hosts else tuple(record["order"])
        exchange = {key: value for key, value in chosen.items() if key == "exchange"}
        blocks = {key: value for key, value in chosen.items() if key != "exchange"}
        return (
            replace(options, **exchange),
            replace(ranks, transport=transport, order=order),
            replace(cut, **blocks),
        )

    def _record(self, file: Path, ranks: RankOptions) -> dict[str, Any]:
        """The chosen candidate, the same on all ranks; the one that starts them tells them."""
        if text := os.environ.get(PLAN):
            return json.loads(text)
        if self.plan != "auto":
            refuse(
                changed(self, "fabric", "device_file", "max_error"), "with a plan's file", "with --plan auto"
            )
            return json.loads(_read(Path(str(self.plan)), ranks.count).record())
        from wavefabric.cli.plan import make_plan

        device = self.device_file or _known_device(ranks)
        plan = make_plan(file, ranks.count, self.fabric, device, {"max_error": self.max_error or 0.0})
        if is_rank_zero() and not ranks.invocation.comm:
            typer.echo(
                f"plan: {plan.choice.words}, {1e3 * plan.choice.seconds.step:.3g} ms a step: {plan.reason}",
                err=True,
            )
        return json.loads(plan.record())


#: What a plan may say of a run.
_OPTIONS = {"decomposition", "grid", "overlap", "bell", "exchange"}


def _read(path: Path, ranks: int) -> RunPlan:
    from wavefabric.cli.common.files import read_json
    from wavefabric.planner.plan import read_plan

    try:
        plan = read_plan(read_json(path, "--plan"))
        right = plan.choice.options.keys() <= _OPTIONS
    except InputError as error:
        raise InputError(f"--plan: {path} is no plan ({error})") from None
    if not right:
        allowed = ", ".join(sorted(_OPTIONS))
        raise InputError(f"--plan: {path}: options {sorted(plan.choice.options)}; allowed: {allowed}")
    if plan.ranks != ranks:
        raise InputError(f"--plan: {path} is for {plan.ranks} ranks; allowed: a plan for {ranks}")
    return plan


def _known_device(ranks: RankOptions) -> str:
    """The device file of this machine's GPU, by its name."""
    from wavefabric.device import describe
    from wavefabric.planner.rates import DEVICE_NAMES

    gpus = [] if ranks.device == "cpu" else [gpu["model"] for gpu in describe()["gpus"]]
    for name in DEVICE_NAMES:
        if gpus and name.lower() in gpus[0].lower():
            return name
    here = quoted(gpus[0]) if gpus else "a CPU"
    raise InputError(
        f"--device-file: missing, none is known of {here}; allowed: a file of wavefabric bench solver-rates"
    )
