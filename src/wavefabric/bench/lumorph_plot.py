"""Pictures of ``lumorph``: the paper's points as markers, ours as lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wavefabric.bench import lumorph_plot_routes, lumorph_plot_times


def plot(result: dict[str, Any], path: str | Path) -> list[Path]:
    """Draw what was recomputed.

    Parameters
    ----------
    result : dict
        From `wavefabric.bench.lumorph.run`.
    path : str or Path
        Image file; its ending picks the format. Figures 7 and 8 go there, others beside it, with ``-routes``
        (figures 3, 5, 6) and ``-baselines`` (radices and baselines) behind the name.

    Returns
    -------
    list of Path
        What was written.
    """
    path = Path(path)
    makers = (
        ("", lumorph_plot_times.times, ("7", "8")),
        ("-routes", lumorph_plot_routes.routes, ("5", "3", "6")),
        ("-baselines", lumorph_plot_times.others, ("radix", "baselines")),
    )
    written = []
    for ending, draw, wanted in makers:
        if any(name in result["figures"] for name in wanted):
            written.append(path.with_name(f"{path.stem}{ending}{path.suffix}"))
            draw(result["figures"], written[-1])
    return written
