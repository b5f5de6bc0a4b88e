"""Vector code for a CPU: functions written in LLVM's language by Python and compiled for this processor.

Numba's loops become vector code only where LLVM can prove that arrays do not overlap. The transforms of
`wavefabric.spectral` are therefore emitted instruction by instruction, for one length each, and called from
kernels by their addresses (`execute`).
"""

import contextlib
import hashlib
import itertools
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from wavefabric.errors import InputError
from wavefabric.files.output import replacing
from wavefabric.system import numba_cache
from wavefabric.system.compiling import compiling

#: Of a vector, whatever the processor: two instructions where its registers are shorter.
VECTOR_BYTES = 32
#: Parameters of every function: addresses of tables, of what is read and written, and of an operator.
PARAMETERS = ("table", "source", "target", "operator")

binding.initialize_native_target()
binding.initialize_native_asmprinter()

# Names of functions: those of one engine differ.
_NUMBERS = itertools.count()
_INDEX, _LANE = ir.IntType(64), ir.IntType(32)


@intrinsic
def _execute(typingctx, function, table, source, target, operator):  # pyright: ignore
    """``function(table, source, target, operator)`` for addresses, all of them integers."""

    def generate(context, builder, signature, arguments):
        pointer = cgutils.voidptr_t
        kind = ir.FunctionType(ir.VoidType(), [pointer] * 4)
        call = builder.inttoptr(arguments[0], kind.as_pointer())
        builder.call(call, [builder.inttoptr(value, pointer) for value in arguments[1:]])
        return context.get_dummy_value()

    return types.void(*(types.uintp,) * 5), generate


#: Call from compiled code: ``execute(function, table, source, target, operator)``.
execute: Any = _execute


class VectorCode:
    """A function of `PARAMETERS` while it is being emitted; all are arrays of one real type.

    Attributes ``lanes`` (real numbers of a vector), ``builder`` and, by name, the parameters. For arithmetic
    with vectors ``add``, ``subtract``, ``multiply`` and those below.
    """

    def __init__(self, dtype, name: str | None = None):
        self.dtype = np.dtype(dtype)
        self.real = ir.FloatType() if self.dtype.itemsize == 4 else ir.DoubleType()
        self.lanes = VECTOR_BYTES // self.dtype.itemsize
        self.vector = ir.VectorType(self.real, self.lanes)
        self._bits = ir.VectorType(ir.IntType(8 * self.dtype.itemsize), self.lanes)
        self._module = ir.Module("vectors")
        self._module.triple = binding.get_process_triple()
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer()] * len(PARAMETERS))
        self._function = ir.Function(self._module, kind, name or f"transform_{next(_NUMBERS)}")
        self.builder = ir.IRBuilder(self._function.append_basic_block())
        self.add, self.subtract, self.multiply = self.builder.fadd, self.builder.fsub, self.builder.fmul
        arguments = [self.builder.bitcast(value, self.real.as_pointer()) for value in self._function.args]
        self.table, self.source, self.target, self.operator = arguments

    # --- Numbers, loops, memory -------------------------------------------------------------------------

    def scratch(self, vectors: int):
        """Space for so many vectors on the stack."""
        capacity: Any = self.builder.alloca(ir.ArrayType(self.real, vectors * self.lanes))
        capacity.align = 2 * VECTOR_BYTES
        return self.builder.bitcast(capacity, self.real.as_pointer())

    def index(self, *terms):
        """Sum of terms: whole numbers, values, or pairs (value, whole number) for their product."""
        total, constant = None, 0
        for value, factor in (term if isinstance(term, tuple) else (term, 1) for term in terms):
            if isinstance(value, int):
                constant += value * factor
                continue
            part = value if factor == 1 else self.builder.mul(value, _INDEX(factor))
            total = part if total is None else self.builder.add(total, part)
        if total is None:
            return _INDEX(constant)
        return total if constant == 0 else self.builder.add(total, _INDEX(constant))

    def loop(self, count: int, body: Callable[[Any], None]) -> None:
        """body(i) for i = 0 … count − 1."""
        if count == 1:
            body(0)
        if count <= 1:
            return
        before, inside = self.builder.block, self._function.append_basic_block()
        self.builder.branch(inside)
        self.builder.position_at_end(inside)
        i = self.builder.phi(_INDEX)
        i.add_incoming(_INDEX(0), before)
        body(i)
        following = self.builder.add(i, _INDEX(1))
        i.add_incoming(following, self.builder.block)
        after = self._function.append_basic_block()
        again = self.builder.icmp_signed("<", following, _INDEX(count))
        self.builder.cbranch(again, inside, after)
        self.builder.position_at_end(after)

    def _at(self, array, index, kind):
        index = _INDEX(index) if isinstance(index, int) else index
        return self.builder.bitcast(self.builder.gep(array, [index]), kind.as_pointer())

    def load(self, array, index, lanes: int = 0):
        """Neighbouring numbers from ``array[index]`` on, a vector of them if not said otherwise."""
        kind = ir.VectorType(self.real, lanes or self.lanes)
        return self.builder.load(self._at(array, index, kind), align=self.dtype.itemsize)

    def store(self, value, array, index) -> None:
        """The reverse of `load` and `load_one`."""
        self.builder.store(value, self._at(array, index, value.type), align=self.dtype.itemsize)

    def load_one(self, array, index):
        """One number."""
        return self.builder.load(self._at(array, index, self.real), align=self.dtype.itemsize)

    def fetch(self, array, index) -> None:
        """Ask for the cache line of ``array[index]`` in the second-level cache."""
        byte = ir.IntType(8).as_pointer()
        address = self.builder.bitcast(self.builder.gep(array, [index]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, _LANE, _LANE, _LANE])
        function = self._module.declare_intrinsic("llvm.prefetch.p0i8", (), kind)
        self.builder.call(function, [address, _LANE(0), _LANE(2), _LANE(1)])

    # --- Arithmetic -------------------------------------------------------------------------------------

    def constant(self, *values: float):
        """A vector of these numbers, repeated."""
        return ir.Constant(self.vector, [*map(float, values)] * (self.lanes // len(values)))

    def multiply_add(self, a, b, c):
        """a b + c, rounded once where the processor can."""
        name = f"llvm.fmuladd.v{self.lanes}f{8 * self.dtype.itemsize}"
        function = self._module.declare_intrinsic(name, (), ir.FunctionType(self.vector, [self.vector] * 3))
        return self.builder.call(function, [a, b, c])

    def multiply_constant(self, a, *values: float):
        """a times a constant vector; in single precision with what its rounding leaves.

        A factor off by 3e-8 is so in every transform of a simulation, and for all values alike.
        """
        rest = self._rest(values)
        product = self.constant(*values)
        if rest is None:
            return self.multiply(a, product)
        return self.multiply_add(a, product, self.multiply(a, rest))

    def sum_of_products(self, first: tuple, second: tuple):
        """a b + c d of two pairs, a vector and a constant one each (a tuple), as `multiply_constant`."""
        (a, b), (c, d) = first, second
        rests = self._rest(b), self._rest(d)
        if rests[0] is None or rests[1] is None:
            return self.multiply_add(c, self.constant(*d), self.multiply(a, self.constant(*b)))
        small = self.multiply_add(c, rests[1], self.multiply(a, rests[0]))
        return self.multiply_add(c, self.constant(*d), self.multiply_add(a, self.constant(*b), small))

    def _rest(self, values: tuple[float, ...]):
        """What rounding constants to single precision leaves, a vector; None in double precision."""
        if self.dtype.itemsize == 8:
            return None
        return self.constant(*(value - float(np.float32(value)) for value in values))

    def negate(self, a, *lanes: bool):
        """−a, or in those of the ``lanes``, repeated, that are true."""
        sign = -(1 << 8 * self.dtype.itemsize - 1)
        which = (lanes or (True,)) * (self.lanes // len(lanes or (True,)))
        mask = ir.Constant(self._bits, [sign if one else 0 for one in which])
        return self.builder.bitcast(self.builder.xor(self.builder.bitcast(a, self._bits), mask), self.vector)

    def pick(self, a, b, lanes):
        """A vector of lanes of ``a`` followed by ``b``, by their numbers."""
        mask = ir.Constant(ir.VectorType(_LANE, len(lanes)), list(lanes))
        return self.builder.shuffle_vector(a, b, mask)

    def undefined(self, lanes: int = 0):
        """A vector of any numbers."""
        return ir.Constant(ir.VectorType(self.real, lanes or self.lanes), ir.Undefined)

    def repeated(self, array, index, count: int = 1):
        """A vector of ``count`` neighbouring numbers from ``array[index]`` on, repeated."""
        if count == 1:
            value = self.builder.insert_element(self.undefined(), self.load_one(array, index), _LANE(0))
            return self.pick(value, self.undefined(), [0] * self.lanes)
        value = self.load(array, index, count)
        return self.pick(value, self.undefined(count), [*range(count)] * (self.lanes // count))

    def joined(self, numbers: list):
        """A vector of single numbers."""
        vector = self.undefined()
        for lane, number in enumerate(numbers):
            vector = self.builder.insert_element(vector, number, _LANE(lane))
        return vector

    def lane(self, vector, number: int):
        """One number of a vector."""
        return self.builder.extract_element(vector, _LANE(number))

    def transposed(self, rows: list) -> list:
        """As many vectors as a vector has lanes: lane i of vector j becomes lane j of vector i."""
        step = 1
        while step < self.lanes:
            # Blocks of `step` lanes change places between rows that lie `step` apart.
            kept = [i if i & step == 0 else i - step + self.lanes for i in range(self.lanes)]
            taken = [i + step if i & step == 0 else i + self.lanes for i in range(self.lanes)]
            rows = [
                self.pick(rows[j], rows[j + step], kept)
                if j & step == 0
                else self.pick(rows[j - step], rows[j], taken)
                for j in range(self.lanes)
            ]
            step *= 2
        return rows

    # --- The end ----------------------------------------------------------------------------------------

    def compiled(self) -> "Function":
        """The function, compiled for this processor."""
        self.builder.ret_void()
        return Function.of(self._module, self._function.name)


class Function:
    """Compiled code by its ``address``, valid for good; ``code`` is what may be kept of it."""

    def __init__(self, code: bytes, name: str):
        with _LOCK:
            engine = _compiler()[1]
            engine.add_object_file(binding.ObjectFileRef.from_data(code))
            engine.finalize_object()
            self.code, self.address = code, engine.get_function_address(name)

    @classmethod
    def of(cls, module: ir.Module, name: str) -> "Function":
        """That of a module."""
        with _LOCK:
            machine = _compiler()[0]
            module.data_layout = str(machine.target_data)
            parsed = binding.parse_assembly(str(module))
            parsed.verify()
            # No passes over the code: they take as long as all else, and find nothing that counts. An engine
            # gets the machine's code alone: it would keep a module, some megabytes.
            code = machine.emit_object(parsed)
        return cls(code, name)


#: One thread compiles at a time: two first ones would make an engine each, and one would go with its code.
_LOCK = threading.RLock()
_KEPT: dict[str, Function] = {}


def kept(what: str, compiled: Callable[[str], Function]) -> Function:
    """The function that ``what`` describes in full: of this process, from a file of another, or compiled.

    ``compiled(name)`` makes it under that name. Files lie with Numba's kernels, in a directory named by all
    sources that compiled code comes from.
    """
    name = "transform_" + hashlib.sha256(repr((what, _processor())).encode()).hexdigest()[:32]
    with _LOCK:
        if name not in _KEPT:
            if (code := _read(name)) is not None:
                _KEPT[name] = Function(code, name)
            else:
                with compiling():
                    _KEPT[name] = compiled(name)
                _write(name, _KEPT[name].code)
        return _KEPT[name]


def _file(name: str) -> Path:
    folder = numba_cache.directory() / "vectors"
    folder.mkdir(exist_ok=True)
    return folder / f"{name}.o"


def _read(name: str) -> bytes | None:
    """Code that was kept whole, or None."""
    with contextlib.suppress(OSError):
        kept = _file(name).read_bytes()
        if hashlib.sha256(kept[32:]).digest() == kept[:32]:
            return kept[32:]
    return None


def _write(name: str, code: bytes) -> None:
    """Where files can be written."""
    with contextlib.suppress(OSError, InputError), replacing(_file(name)) as partial:
        partial.write_bytes(hashlib.sha256(code).digest() + code)


def _processor() -> tuple[str, str]:
    """Name and features of this processor, as LLVM has them."""
    try:
        features = binding.get_host_cpu_features().flatten()
    except RuntimeError:  # LLVM cannot tell; those that go with the name
        features = ""
    return binding.get_host_cpu_name(), features


@cache
def _compiler() -> tuple[binding.TargetMachine, binding.ExecutionEngine]:
    """What compiles for this processor, and what holds its code."""

    cpu, features = _processor()

    def machine() -> binding.TargetMachine:
        target = binding.Target.from_default_triple()
        return target.create_target_machine(cpu=cpu, features=features, opt=2, jit=True)

    # An engine takes its machine over.
    return machine(), binding.create_mcjit_compiler(binding.parse_assembly(""), machine())
