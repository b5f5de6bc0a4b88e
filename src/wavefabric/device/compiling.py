"""A word before Numba compiles: a first run would seem to hang for several seconds."""

from __future__ import annotations

from collections.abc import Callable

#: What to call before the first compilation of this process; None once it has been called.
_say: Callable[[], None] | None = None
_listening = False


def tell(say: Callable[[], None] | None) -> None:
    """Call ``say`` once, right before the first kernel is compiled; never if all come from Numba's cache.

    None takes an earlier one back.
    """
    global _say
    _say = say


def listen() -> None:
    """Hear from Numba when it compiles, if somebody wants to be told; imports Numba."""
    global _listening
    if _say is None or _listening:
        return
    from numba.core import event

    class Listener(event.Listener):
        # Numba starts this event after a look into its cache, and only if nothing was there.
        def on_start(self, event) -> None:
            global _say
            say, _say = _say, None
            if say is not None:
                say()

        def on_end(self, event) -> None:
            """Nothing: the next one is not told."""

    event.register("numba:compile", Listener())
    _listening = True
