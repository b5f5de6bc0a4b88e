"""Noise that a receiver's own estimates add: carrier phase of noisy symbols, phase noise of lasers, taps."""

import math

import numpy as np
from scipy.special import ndtr

from wavefabric.optics.fibre.fibre import Array
from wavefabric.optics.signal.carrier import BLIND_OWN
from wavefabric.optics.signal.constellation import Constellation
from wavefabric.optics.signal.receiver import Receiver
from wavefabric.optics.theory.quadrature import window_weights

#: Variance (rad²) of a phase of which nothing but the quarter turn is known.
_UNKNOWN = math.pi**2 / 48


def added_error(receiver: Receiver, error: Array, rows: Array, dispersion: Array) -> Array:
    """Return what a receiver that gets noise over signal ``error``, of any shape, adds to it in EVM².

    ``rows`` are those that an equaliser takes together, ``dispersion`` is |β2| z in s², both of a shape that
    broadcasts. Trained taps add their coefficients over the symbols that trained them; local oscillators
    (2π)²|β2| z Δν R/6 where dispersion is compensated; lasers 2πΔν n/12R within the n symbols of one phase.
    """
    grid, lines = receiver.transmitter.grid, receiver.linewidth + receiver.transmitter.linewidth
    added = error * _training(receiver, rows)
    added = added + (2 * math.pi) ** 2 * dispersion * receiver.linewidth * grid.symbol_rate / 6
    size = receiver.tracked or grid.symbols
    walk = math.expm1(min(2 * math.pi * lines / grid.symbol_rate * (size - 1 / size) / 12, 50.0))
    if receiver.phase in ("viterbi-viterbi", "blind-search") and size < grid.symbols:
        walk = walk + _blind(receiver, size, error + added)
    return added + (1 + error + added) * walk


def _training(receiver: Receiver, rows: Array) -> Array | float:
    """Noise of the taps of a MIMO equaliser over that of the signal, mean over the judged symbols."""
    options, symbols = receiver.equaliser, receiver.transmitter.grid.symbols
    if options is None:
        return 0.0
    known, free = options.training, rows * options.taps * (1 + receiver.transmitter.rolloff)
    if not (options.decision_directed and receiver.transmitter.format.digital):
        return free / np.maximum(known - free, 1)
    memory = options.memory or symbols
    grown = min(max(memory, known), symbols)
    return free * (math.log(grown / known) + (symbols - grown) / memory) / (symbols - known)


def _blind(receiver: Receiver, size: int, error: Array) -> Array:
    """Variance (rad²) of the phase that ``size`` symbols give blindly, less what it takes of their own noise.

    A window of weights w finds the phase Σ w h/m, h a function of each symbol that is 0 in the mean, and m
    its mean change per radian. A symbol's own noise σ² follows h/m by σ²/2, whatever h is (Stein's identity).
    Of the fourth power h = Im (1 + e)⁴/4, with moments of Gaussian e. A blind search is stationary where
    the mean of h = Im y d* vanishes, d the decision for y.
    """
    blind, error = receiver.phase == "blind-search", np.minimum(error, 1e6)
    weights = window_weights(size, BLIND_OWN if blind else None)
    if blind:
        square, slope = np.vectorize(_decisions, excluded=[0])(receiver.transmitter.format, error)
    else:
        square, slope = error / 2 + (9 * error**2 + 12 * error**3 + 3 * error**4) / 4, 1.0
    variance = (weights**2).sum() * square / np.maximum(slope, 1e-3) ** 2
    return _UNKNOWN * np.tanh(variance / _UNKNOWN) - weights[size] * error


def _decisions(form: Constellation, error: float) -> tuple[float, float]:
    """E h² and the slope of h = Im y d* for noise over signal ``error``: each quadrature by itself."""
    sent, sigma = np.unique(np.imag(form.points)), math.sqrt(max(error, 1e-12) / 2)
    bounds = np.array([-np.inf, *(sent[1:] + sent[:-1]) / 2, np.inf])
    far = (bounds - sent[:, None]) / sigma
    density = np.exp(-(far**2) / 2) / math.sqrt(2 * math.pi)
    chance = np.diff(ndtr(far), axis=1)
    # Means of a d, e d and d² over levels a sent, noise e and decisions d for a + e.
    kept, noise = (sent * (chance @ sent)).mean(), -sigma * (np.diff(density, axis=1) @ sent).mean()
    square = 2 * (0.5 + sigma**2) * (chance @ sent**2).mean() - 2 * (kept + noise) ** 2
    return square, 2 * kept - noise / sigma**2
