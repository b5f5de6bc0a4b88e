"""Ctrl-C between time steps."""

import os
import signal
import threading

import pytest

from wavefabric.interrupt import Deferred


def press():
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_is_deferred():
    before = signal.getsignal(signal.SIGINT)
    with Deferred() as interrupt:
        interrupt.check()
        assert not interrupt.asked
        press()
        assert interrupt.asked
        with pytest.raises(KeyboardInterrupt):
            interrupt.check()
        with pytest.raises(KeyboardInterrupt):
            interrupt.check()
    assert signal.getsignal(signal.SIGINT) is before


def test_the_second_is_not():
    with Deferred() as interrupt:
        press()
        with pytest.raises(KeyboardInterrupt):
            press()
        assert interrupt.asked


def test_an_error_inside_puts_the_handler_back():
    before = signal.getsignal(signal.SIGINT)

    class FaultError(Exception):
        pass

    with pytest.raises(FaultError), Deferred():
        raise FaultError
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_leave_signals_alone():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work():
        with Deferred() as interrupt:
            seen.append(signal.getsignal(signal.SIGINT))
            interrupt.check()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
    assert signal.getsignal(signal.SIGINT) is before
