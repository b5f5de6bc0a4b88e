"""The equations of the time step in plain NumPy or JAX: double precision, full transforms, no speed.

Written from Treeby & Cox 2010 (doi:10.1117/1.3360308) and Treeby et al. 2012 (doi:10.1121/1.4712021), apart
from the package: only `Problem` is shared. Fields are ``(Nz, Ny, Nx)``.
"""

import math

import numpy as np


class PlainSolver:
    """Takes time steps of a problem; `p`, `u` and `rho` (lists, x first) are the fields so far.

    With ``xp`` = ``jax.numpy`` whatever the problem has of medium and sources may be differentiated.
    """

    def __init__(self, problem, xp=np):
        self.problem, self.number, self.xp = problem, 0, xp
        self.density = self.double(problem.density)
        self.density_staggered = [self.double(rho) for rho in problem.density_staggered]
        self.sound_speed = c = self.double(problem.sound_speed)
        shape, d = problem.array_shape, problem.dimensions
        self.p = xp.zeros(shape)
        self.u = [xp.zeros(shape) for _ in range(d)]
        self.rho = [xp.zeros(shape) for _ in range(d)]
        self.k = [
            self.along(2 * np.pi * np.fft.fftfreq(problem.shape[axis], problem.spacing[axis]), axis)
            for axis in range(d)
        ]
        if problem.axisymmetric:
            self.k[1] = self.along(2 * np.pi * np.fft.fftfreq(4 * shape[1], problem.spacing[1]), 1)
        magnitude = np.sqrt(sum(k**2 for k in self.k)) + np.zeros(
            shape if not problem.axisymmetric else (1, 4 * shape[1], shape[2])
        )
        half = problem.reference_speed * problem.dt / 2 * magnitude * problem.k_space
        self.kappa = np.where(half == 0, 1.0, np.sin(half) / np.where(half == 0, 1.0, half))
        self.source_kappa = np.cos(half)
        y = problem.alpha_power
        with np.errstate(divide="ignore"):
            self.loss_operator = np.where(magnitude == 0, 0.0, magnitude ** (y - 2))
            self.shift_operator = np.where(magnitude == 0, 0.0, magnitude ** (y - 1))
        # dB/(MHz^y cm) to Np/m (rad/s)^-y
        alpha = self.double(problem.alpha_coeff) * 100 * math.log(10) / 20 / (2 * math.pi * 1e6) ** y
        self.tau = -2 * alpha * c ** (y - 1)
        self.eta = 2 * alpha * c**y * math.tan(math.pi * y / 2)
        self.layer = [self.pml(axis, 0.0) for axis in range(d)]
        self.layer_staggered = [self.pml(axis, 0.5) for axis in range(d)]

    def double(self, values):
        """An array in double precision, whatever it was."""
        return self.xp.asarray(values, float)

    @staticmethod
    def put(field, index, values):
        """The field with other values at flat indices."""
        if not isinstance(field, np.ndarray):
            return field.reshape(-1).at[index].set(values).reshape(field.shape)
        out = field.copy()
        out.reshape(-1)[index] = values
        return out

    @staticmethod
    def along(vector, axis):
        """A vector laid along an axis (0 = x)."""
        return vector.reshape([-1 if 2 - i == axis else 1 for i in range(3)])

    def pml(self, axis, offset):
        """exp(-dt/2 alpha c/dx d^4): d, from 1 at the first and last points' outer edge to 0 inside."""
        problem, n = self.problem, self.problem.shape[axis]
        size, alpha = problem.pml_size[axis], problem.pml_alpha[axis]
        offset *= problem.staggered
        depth = np.zeros(n)
        for i in range(size):
            if axis != 1 or not problem.axisymmetric:
                depth[i] = (size - i - offset) / size
            depth[n - size + i] = (i + 1 + offset) / size
        rate = alpha * problem.reference_speed / problem.spacing[axis] * depth**4
        return self.along(np.exp(-rate * problem.dt / 2), axis)

    def derivative(self, field, axis, sign):
        """k-space derivative half a point further (+1) or back (-1)."""
        k = self.k[axis]
        factor = 1j * k * np.exp(sign * 0.5j * k * self.problem.spacing[axis] * self.problem.staggered)
        return self.multiplied(field, factor * self.kappa, self.symmetry(axis) if sign < 0 else "even")

    def multiplied(self, field, operator, symmetry="even"):
        """By a transform; of an axisymmetric grid of the field mirrored to four times its length."""
        xp = self.xp
        if not self.problem.axisymmetric:
            return xp.fft.ifftn(operator * xp.fft.fftn(field)).real
        if symmetry == "even":  # 0 one point after the last
            zero = xp.zeros_like(field[:, :1])
            whole = xp.concatenate([field, zero, -field[:, :0:-1]], axis=1)
            whole = xp.concatenate([whole, -whole], axis=1)
        else:
            back = field[:, ::-1]
            signs = (1, 1, -1, -1) if symmetry == "odd_half" else (1, -1, -1, 1)
            whole = xp.concatenate([s * f for s, f in zip(signs, (field, back) * 2, strict=True)], axis=1)
        return xp.fft.ifftn(operator * xp.fft.fftn(whole)).real[:, : field.shape[1]]

    def divergence(self):
        """Derivatives of the velocity; along a radius with u/r."""
        slopes = [self.derivative(u, axis, -1) for axis, u in enumerate(self.u)]
        if self.problem.axisymmetric:
            spacing = self.problem.spacing[1]
            r = (np.arange(self.p.shape[1])[:, None] + 0.5) * spacing
            back = np.exp(-0.5j * self.k[1] * spacing)
            slopes[1] = slopes[1] + self.multiplied(self.u[1] / r, back * self.kappa, "even_half")
        return slopes

    def shifted(self, axis):
        """A velocity component at the points of the pressure."""
        factor = np.exp(-0.5j * self.k[axis] * self.problem.spacing[axis] * self.problem.staggered)
        return self.multiplied(self.u[axis], factor, self.symmetry(axis))

    @staticmethod
    def symmetry(axis):
        """Of a velocity component of an axisymmetric grid."""
        return "odd_half" if axis == 1 else "even"

    def inject(self, field, index, signal, mode, symmetry="even"):
        """One step of a source."""
        if self.number >= len(signal):
            return field
        values = self.xp.broadcast_to(self.double(signal[self.number]), index.shape)
        if mode == "dirichlet":
            return self.put(field, index, values)
        more = self.put(self.xp.zeros_like(field), index, values)
        return field + (self.multiplied(more, self.source_kappa, symmetry) if mode == "additive" else more)

    def step(self):
        """One time step."""
        problem, dt, d = self.problem, self.problem.dt, self.problem.dimensions
        for axis in range(d):
            f, rho0 = self.layer_staggered[axis], self.density_staggered[axis]
            self.u[axis] = f * (f * self.u[axis] - dt / rho0 * self.derivative(self.p, axis, 1))
        if problem.velocity_source is not None:
            source = problem.velocity_source
            for axis, signal in enumerate(source.signals):
                if signal is not None:
                    self.u[axis] = self.inject(
                        self.u[axis], source.index, signal, source.mode, self.symmetry(axis)
                    )
        transducer = problem.transducer
        if transducer is not None and self.number < transducer.steps:
            padded = self.xp.concatenate([self.double(transducer.signal), self.xp.zeros(1)])
            sample = np.minimum(transducer.delay + self.number, len(transducer.signal))
            pushed = self.u[0].reshape(-1)[transducer.index] + padded[sample]
            self.u[0] = self.put(self.u[0], transducer.index, pushed)

        slopes = self.divergence()
        mass = self.density
        if problem.nonlinearity is not None:
            mass = mass + 2 * sum(self.rho)
        for axis in range(d):
            f = self.layer[axis]
            self.rho[axis] = f * (f * self.rho[axis] - dt * mass * slopes[axis])
        if problem.pressure_source is not None:
            source = problem.pressure_source
            self.rho = [self.inject(part, source.index, source.signal, source.mode) for part in self.rho]

        total = sum(self.rho)
        bracket = total
        if problem.nonlinearity is not None:
            bracket = bracket + self.double(problem.nonlinearity) * total**2 / (2 * self.density)
        rate = self.density * sum(slopes)
        if problem.absorption == "stokes":
            bracket = bracket + self.tau * rate
        elif problem.absorption == "power_law":
            bracket = bracket + self.tau * self.multiplied(rate, self.loss_operator)
            if problem.dispersion:
                bracket = bracket - self.eta * self.multiplied(total, self.shift_operator)
        self.p = self.sound_speed**2 * bracket

        if self.number == 0 and problem.initial_pressure is not None:
            self.p = self.double(problem.initial_pressure)
            self.rho = [self.p / (d * self.sound_speed**2) for _ in range(d)]
            for axis in range(d):
                rho0 = self.density_staggered[axis]
                self.u[axis] = dt / (2 * rho0) * self.derivative(self.p, axis, 1)
        self.number += 1

    def fields(self):
        """By the names of `coefficients.Fields.named`."""
        axes = "xyz"[: self.problem.dimensions]
        result = {"p": self.p}
        result |= {f"u{a}": field for a, field in zip(axes, self.u, strict=True)}
        result["rho"] = sum(self.rho)
        for axis, (name, part) in enumerate(zip(axes, self.rho, strict=True)):
            inside = self.layer[axis].reshape(-1) != 1
            if inside.any():
                result[f"rho{name}"] = np.compress(inside, part, 2 - axis)
        return result
