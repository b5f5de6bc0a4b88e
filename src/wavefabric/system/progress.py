"""How a long computation reports its progress, and warns."""

import sys


class Progress:
    """Shows where a long computation is; this one shows nothing."""

    def start(self, total_steps: float | None, label: str) -> None:
        """Begin; ``total_steps`` is None if it is not known."""

    def update(self, done: float, message: str = "") -> None:
        """So many steps are done, counted from `start`."""

    def finish(self) -> None:
        """End, also after an error."""


def warn(text: str) -> None:
    """One line on stderr: nothing is refused, but the result may not be what it seems."""
    print(f"wavefabric: warning: {text}", file=sys.stderr, flush=True)
