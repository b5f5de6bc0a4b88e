"""Define the elements of a link in a run file: fibres, amplifiers, losses, filters and mode couplers.

The keys of [link] without ``element`` are short for a list of these: fibre and amplifier in turn.
"""

import itertools
from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictStr

from wavefabric.base.errors import InputError
from wavefabric.optics.run_file import values

Gain = Annotated[float, values.in_unit("dB", least=0, most=200)]
_Tilt = Annotated[float, values.in_unit("1/Hz", least=-1e-9, most=1e-9)]
_Power = Annotated[float, values.in_unit("W", above=0, most=1e6)]
NoiseFigure = Annotated[float, values.in_unit("dB", least=0, most=100)]
Channels = Annotated[list[values.Count], Field(max_length=values.MOST_CHANNELS)]
ModeDependence = Annotated[float, values.in_unit("dB", least=0, most=30)]


class PumpTable(values.RunFileTable):
    """Describes a Raman pump: optical frequency in Hz, power in W, shared equally by all modes."""

    frequency: values.Frequency
    power: _Power
    direction: Literal["forward", "backward"] = "backward"


class FibreElement(values.RunFileTable):
    """Describes a piece of fibre: its length in m, the name of its table [fibres.NAME], None for [fibre].

    ``temperature`` (K) is that of the spontaneous Raman scattering of the ``pumps``.
    """

    kind: Literal["fibre"]
    length: values.Length
    fibre: StrictStr | None = None
    pumps: Annotated[list[PumpTable], Field(max_length=100)] = Field(default_factory=list)
    temperature: Annotated[float, values.in_unit("K", least=1, most=2000)] = 300.0

    @property
    def table(self) -> str:
        """Return the key of the fibre's table in the run file."""
        return "fibre" if self.fibre is None else f"fibres.{self.fibre}"


class AmplifierElement(values.RunFileTable):
    """Describes an amplifier. Gains and noise figure in dB, powers in W, tilt in 1/Hz.

    Without ``gain`` and ``power`` it compensates the mean loss since the amplifier before. ``power`` is the
    mean output power of all channels and modes together. With a ``saturation_power``, ``gain`` is that of
    small signals, and the gain follows `saturated_gain`.
    """

    kind: Literal["amplifier"] = "amplifier"
    gain: Gain | None = None
    power: _Power | None = None
    saturation_power: _Power | None = None
    noise_figure: NoiseFigure | None = None
    gain_tilt: _Tilt = 0.0
    gain_flattening: StrictBool = False
    mode_dependent_gain: ModeDependence = 0.0

    def check(self) -> None:
        if self.gain is not None and self.power is not None:
            raise InputError("power: given together with gain; allowed: one of the two, or neither")
        if self.saturation_power is not None and self.gain is None:
            raise InputError("saturation_power: given without gain; allowed: with the small-signal gain")


class LossElement(values.RunFileTable):
    """Describes a lumped loss, such as a connector, in dB: one for all modes, or a list with one per mode."""

    kind: Literal["loss"]
    loss: Gain | Annotated[list[Gain], Field(min_length=1)]


class FilterElement(values.RunFileTable):
    """Describes a cascade of optical filters, as in ROADMs: super-Gaussian pass bands about the channels.

    ``bandwidth`` is the full width at half maximum of one filter, Hz, ``order`` its order, ``loss`` the loss
    of the cascade, dB. ``block`` lists the channels that it drops, from 1 by ascending frequency; ``add``
    those that are added after it with their launch power, in place of what was there.
    """

    kind: Literal["filter"]
    bandwidth: values.Frequency
    order: Annotated[values.Count, Field(le=100)] = 1
    filters: Annotated[values.Count, Field(le=10_000)] = 1
    loss: Gain = 0.0
    block: Channels = Field(default_factory=list)
    add: Channels = Field(default_factory=list)


class MixingElement(values.RunFileTable):
    """Describes a random unitary mixing of the modes of each group, or of all modes."""

    kind: Literal["mixing"] = "mixing"
    within: Literal["groups", "all"] = "groups"


Element = Annotated[
    FibreElement | AmplifierElement | LossElement | FilterElement | MixingElement,
    Field(discriminator="kind"),
]


class LinkTable(values.RunFileTable):
    """Describes [link]: spans, each followed by an amplifier, or a list of elements that is repeated.

    length in m, one for each span or one for all; noise_figure and gains in dB.
    """

    length: values.Lengths | None = None
    spans: Annotated[values.Count, Field(le=values.MOST_SPANS)] = 1
    noise_figure: NoiseFigure | None = None
    gain: Gain | None = None
    mix_groups: StrictBool = False
    mode_dependent_gain: ModeDependence = 0.0
    gain_tilt: _Tilt = 0.0
    gain_flattening: StrictBool = False
    element: Annotated[list[Element], Field(min_length=1)] | None = None
    repeat: Annotated[values.Count, Field(le=values.MOST_SPANS)] = 1

    def check(self) -> None:
        if self.element is None:
            if self.length is None:
                raise InputError(
                    "length: missing; allowed: the length of a span, a list, or [[link.element]]"
                )
            if "repeat" in self.model_fields_set:
                raise InputError("repeat: given without [[link.element]]; allowed: spans, with one length")
            if isinstance(self.length, list) and "spans" in self.model_fields_set:
                actual = f"{self.spans} given with a list of {len(self.length)} lengths"
                raise InputError(f"spans: {actual}; allowed: one length with spans, or the list alone")
        elif other := sorted(self.model_fields_set - {"element", "repeat"}):
            raise InputError(f"{other[0]}: given together with [[link.element]]; allowed: one of the two")
        elif not any(isinstance(each, FibreElement) for each in self.element):
            raise InputError('element: no fibre given; allowed: at least one element of kind = "fibre"')
        elif len(self.element) * self.repeat > values.MOST_ELEMENTS:
            number = len(self.element) * self.repeat
            raise InputError(f"repeat: makes {number} elements; allowed: up to {values.MOST_ELEMENTS}")

    @property
    def elements(self) -> tuple[Element, ...]:
        """Return all elements of the link in the order in which light passes them."""
        if self.element is not None:
            return tuple(self.element * self.repeat)
        keys = ("gain", "noise_figure", "gain_tilt", "gain_flattening", "mode_dependent_gain")
        amplifier: Element = AmplifierElement.model_construct(**{key: getattr(self, key) for key in keys})
        after = [amplifier, MixingElement()] if self.mix_groups else [amplifier]
        lengths = self.length if isinstance(self.length, list) else [self.length] * self.spans
        alike = dict.fromkeys(lengths)  # one object for all pieces of a length: making one takes 0.3 ms
        pieces = {length: FibreElement.model_construct(kind="fibre", length=length) for length in alike}
        return tuple(each for length in lengths for each in (pieces[length], *after))

    def without_noise(self) -> "LinkTable":
        """Return a copy whose amplifiers add no noise."""
        quiet, elements = {"noise_figure": None}, self.element
        if elements is not None:
            is_amplifier = [isinstance(each, AmplifierElement) for each in elements]
            pairs = zip(elements, is_amplifier, strict=True)
            elements = [each.model_copy(update=quiet) if noisy else each for each, noisy in pairs]
        return self.model_copy(update=quiet | {"element": elements})

    @property
    def span_ends(self) -> list[int]:
        """Return the number of elements up to the end of each span.

        A span ends behind an amplifier and the mode coupler that may follow it; the last one ends the link.
        """
        ends, elements = [], self.elements
        for number, each in enumerate(elements, start=1):
            mixed = number < len(elements) and isinstance(elements[number], MixingElement)
            if isinstance(each, AmplifierElement):
                ends.append(number + mixed)
        return ends if ends and ends[-1] == len(elements) else [*ends, len(elements)]

    @property
    def span_count(self) -> int:
        """Return the number of spans, after each of which the signal may be received."""
        return len(self.span_ends)

    @property
    def pieces(self) -> list[FibreElement]:
        """Return the pieces of fibre of the link, in order."""
        return [each for each in self.elements if isinstance(each, FibreElement)]

    @property
    def total_length(self) -> float:
        """Return the length of all fibre of the link, m."""
        if self.element is None and isinstance(self.length, float):
            return self.length * self.spans
        return sum(each.length for each in self.pieces)

    @property
    def distances(self) -> list[float]:
        """Return the distance of the end of each element from the transmitter, m, after a first 0."""
        lengths = [each.length if isinstance(each, FibreElement) else 0.0 for each in self.elements]
        if isinstance(self.length, float):  # products, since sums would round
            passed = itertools.accumulate((length > 0 for length in lengths), initial=0)
            return [number * self.length for number in passed]
        return list(itertools.accumulate(lengths, initial=0.0))
