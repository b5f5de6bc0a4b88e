"""Sensor values of a field, on one device or on several ranks."""

from __future__ import annotations

from typing import Any

import numpy as np

from wavefabric.acoustics.problem import Cuboids, Interpolation, Recording
from wavefabric.acoustics.recording.delivery import RankParts


class Sampler:
    """Reads a field at the sensor.

    Of several ranks each samples the grid points that it owns. Points between those of the grid belong to
    rank 0, and every rank adds the share of the corners that it owns.
    """

    def __init__(self, stages, recording: Recording, comm=None):
        c, where = stages.coefficients, recording.where
        self._device, self._kernels = c.device, c.kernels
        self._interpolates = isinstance(where, Interpolation)
        self._parts: RankParts | None = None
        #: Where the points of this rank are among all, with several ranks.
        self.columns: RankParts | None = None
        weights = np.zeros((0, 1))
        if isinstance(where, Interpolation):
            corners, weights = where.corners, where.weights
        else:
            index = where.indices(c.subdomain.shape) if isinstance(where, Cuboids) else where
            corners = np.asarray([] if index is None else index, np.int64)[:, None]
        #: Values that this rank records.
        self.samples = len(corners)
        if comm is not None and self._interpolates:
            corners, weights = self._part(corners, weights, c.subdomain, comm)
            self._values = self._device.empty((1, len(corners)), c.dtype)
        elif comm is not None:
            mask, local = c.subdomain.local_index(corners[:, 0])
            self.columns = RankParts.of_columns(comm, np.flatnonzero(mask), len(corners))
            corners, self.samples = local[:, None], len(local)
        self._corners = self._device.asarray(np.ascontiguousarray(corners, np.int64))
        self._weights = self._device.asarray(np.ascontiguousarray(weights, np.float64))

    def _part(self, corners: np.ndarray, weights: np.ndarray, part, comm) -> tuple[np.ndarray, np.ndarray]:
        """Corners and weights of the points with corners here."""
        mask, local = part.local_index(corners)
        index, own = np.zeros(corners.shape, np.int64), np.where(mask, weights, 0.0)
        index[mask] = local
        here = mask.any(axis=1)
        self._parts = RankParts.of_columns(comm, np.flatnonzero(here), len(corners))
        if comm.rank:
            self.samples = 0
        self.columns = RankParts.of_columns(comm, np.arange(self.samples), len(corners))
        # A corner that is elsewhere has no weight: any point of this one's own serves.
        spare = np.where(mask, index, index.max(axis=1, keepdims=True, where=mask, initial=0))
        return spare[here], own[here]

    def read(self, target: Any, row: int, field: Any) -> None:
        """``target[row]``, shape (samples,), ← values of ``field``; collective with several ranks."""
        if self._parts is None:
            self._kernels.sample(target, row, field, self._corners, self._weights, self._interpolates)
            return
        self._kernels.sample(self._values, 0, field, self._corners, self._weights, True)
        values = self._parts.summed(np.asarray(self._device.to_host(self._values[0])))
        if values is not None:
            target[row] = self._device.asarray(values, target.dtype)
