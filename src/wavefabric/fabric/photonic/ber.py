"""Bit error rates of an optical receiver limited by thermal noise, and what they need.

With two levels I₀, I₁ and noise σ the bit error rate is ½ erfc(Q/√2), Q = (I₁ − I₀)/(2σ) (Agrawal,
Fiber-Optic Communication Systems, 4th ed., section 4.6, doi:10.1002/9780470918524). Four equidistant levels
between the same two outer ones have eyes a third as high. Of four symbols the inner two are wrong on either
side, the outer two on one, ¾ erfc(Q/(3√2)) in all; with Gray coding one of the two bits is wrong: ⅜
erfc(Q/(3√2)) (Proakis & Salehi, Digital Communications, 5th ed., section 4.3).
"""

from __future__ import annotations

import math

from wavefabric.errors import InputError

#: Levels a symbol, by format.
LEVELS = {"NRZ": 2, "PAM4": 4}
#: Factor before erfc, and what Q is divided by in it.
_FORMS = {"NRZ": (0.5, math.sqrt(2.0)), "PAM4": (0.375, 3.0 * math.sqrt(2.0))}


def bits_per_symbol(fmt: str) -> int:
    """1 or 2."""
    return _levels(fmt).bit_length() - 1


def bit_error_rate(fmt: str, q: float) -> float:
    """Bit error rate from the Q of the outer eye, (I_highest − I_lowest) / (2σ).

    Parameters
    ----------
    fmt : str
        ``"NRZ"`` or ``"PAM4"``.
    q : float
        From 0.

    Examples
    --------
    >>> f"{bit_error_rate('NRZ', 6):.3e}, {bit_error_rate('PAM4', 18):.3e}"
    '9.866e-10, 7.399e-10'
    """
    _levels(fmt)
    factor, divisor = _FORMS[fmt]
    return factor * math.erfc(q / divisor)


def needed_q(fmt: str, ber: float) -> float:
    """Q of the outer eye at which the bit error rate is `ber`: the inverse of `bit_error_rate`.

    Raises
    ------
    InputError
        For a rate that is not above 0 and below what guessing gives.

    Examples
    --------
    >>> f"{needed_q('NRZ', 1e-12):.3f}, {needed_q('PAM4', 1e-4):.3f}"
    '7.034, 10.937'
    """
    from scipy.special import erfcinv

    _levels(fmt)
    factor, divisor = _FORMS[fmt]
    if not 0 < ber < factor:
        raise InputError(f"bit error rate: {ber} given; allowed: above 0 and below {factor} ({fmt})")
    return divisor * float(erfcinv(ber / factor))


def _levels(fmt: str) -> int:
    if fmt not in LEVELS:
        raise InputError(f"format: {fmt!r} given; allowed: {', '.join(LEVELS)}")
    return LEVELS[fmt]
