"""A message before Numba compiles: a first run would seem to hang for several seconds."""

from collections.abc import Callable

#: What to call before the first compilation of this process; None once it has been called.
_callback: Callable[[], None] | None = None
_listening = False


def before_first(callback: Callable[[], None] | None) -> None:
    """Call this once, right before the first kernel is compiled; never if all come from Numba's cache."""
    global _callback
    _callback = callback


def listen() -> None:
    """Hear from Numba when it compiles, if there is a callback; imports Numba."""
    global _listening
    if _callback is None or _listening:
        return
    from numba.core import event

    class Listener(event.Listener):
        # Numba starts this event after a look into its cache, and only if nothing was there.
        def on_start(self, event) -> None:
            global _callback
            callback, _callback = _callback, None
            if callback is not None:
                callback()

        def on_end(self, event) -> None: ...

    event.register("numba:compile", Listener())
    _listening = True
