"""`run --plan`: options of ranks taken from a plan instead of from the user."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from wavefabric.cli.common.decomposition import DecompositionOptions
from wavefabric.cli.common.options import changed, option, options, refuse
from wavefabric.cli.common.ranks import PANEL, RankOptions, is_rank_zero, on_ranks
from wavefabric.cli.run_options import RunOptions
from wavefabric.errors import InputError, quoted
from wavefabric.exchange.launch import environment
from wavefabric.results.provenance import PLAN


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
        os.environ[PLAN] = json.dumps(record)
        chosen, carrier = record["options"], record["transport"]
        transport, _, protocol = carrier.partition(", ")
        if protocol:
            os.environ["WAVEFABRIC_PROTOCOL"] = protocol
        else:
            os.environ.pop("WAVEFABRIC_PROTOCOL", None)
        several_hosts = on_ranks() and environment.local_size() != ranks.count
        order = () if record["cpu"] or several_hosts else tuple(record["placement"])
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
            return _read(Path(str(self.plan)), ranks.count)
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


def _read(path: Path, ranks: int) -> dict[str, Any]:
    from wavefabric.cli.common.files import read_json

    content = read_json(path, "--plan")
    try:
        chosen = content["candidates"][content["choice"]]
        common = {key: content[key] for key in ("reason", "device", "fabric", "ranks", "cpu")}
        record = chosen | common | {"steps": content["problem"]["steps"]}
        for key, kind in (("options", dict), ("transport", str), ("placement", list), ("seconds", dict)):
            if not isinstance(record[key], kind):
                raise TypeError
        if not record["options"].keys() <= _OPTIONS:
            raise KeyError
    except (KeyError, IndexError, TypeError):
        raise InputError(
            f"--plan: {path} is no plan; allowed: auto, or a JSON file of wavefabric plan -o"
        ) from None
    if record["ranks"] != ranks:
        raise InputError(f"--plan: {path} is for {record['ranks']} ranks; allowed: a plan for {ranks}")
    return record


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
