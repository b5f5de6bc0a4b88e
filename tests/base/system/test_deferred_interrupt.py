"""Ctrl-C and SIGTERM between time steps."""

import os
import signal
import threading

import pytest

from wavefabric.base.system.deferred_interrupt import DeferredInterrupt, Terminated, exit_code, terminable


def press():
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_is_deferred():
    before = signal.getsignal(signal.SIGINT)
    with DeferredInterrupt() as interrupt:
        interrupt.check()
        assert not interrupt.requested
        press()
        assert interrupt.requested
        with pytest.raises(KeyboardInterrupt):
            interrupt.check()
        with pytest.raises(KeyboardInterrupt):
            interrupt.check()
    assert signal.getsignal(signal.SIGINT) is before


def test_the_second_is_not():
    with DeferredInterrupt() as interrupt:
        press()
        with pytest.raises(KeyboardInterrupt):
            press()
        assert interrupt.requested


def terminate(number=signal.SIGTERM):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_sigterm_is_deferred_too_and_may_come_again(number):
    with DeferredInterrupt() as interrupt:
        terminate(number)
        terminate(number)
        assert interrupt.requested
        with pytest.raises(Terminated):
            interrupt.check()
        press()
        with pytest.raises(KeyboardInterrupt):
            press()
    assert signal.getsignal(number) is signal.SIG_DFL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_sigterm_raises_once_elsewhere(number):
    with terminable():
        assert exit_code() == 130
        with pytest.raises(Terminated):
            terminate(number)
        terminate()  # the first is at work
        assert exit_code() == 143
    assert signal.getsignal(number) is signal.SIG_DFL
    with terminable():
        assert exit_code() == 130


def test_a_handler_of_others_is_left_alone():
    seen = []
    signal.signal(signal.SIGTERM, lambda *_: seen.append(1))
    try:
        with terminable(), DeferredInterrupt() as interrupt:
            terminate()
            assert not interrupt.requested
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert seen == [1]


def test_an_error_inside_puts_the_handler_back():
    before = signal.getsignal(signal.SIGINT)

    class FaultError(Exception):
        pass

    with pytest.raises(FaultError), DeferredInterrupt():
        raise FaultError
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_leave_signals_alone():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work():
        with DeferredInterrupt() as interrupt:
            seen.append(signal.getsignal(signal.SIGINT))
            interrupt.check()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
    assert signal.getsignal(signal.SIGINT) is before
