"""Kernels: loops over bytes that are written in Python and run as machine code.

`numba_compiler` compiles them to LLVM's bitcode, which the package carries. `machine_code` loads
that: a process that decodes needs neither numba nor the seconds that it takes. In a checkout whose
kernels have changed since, numba compiles them once more, and the new files are part of the change.

Kernels release the GIL, so threads decode in parallel. They allocate nothing and raise nothing.
"""

import ctypes
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar, cast

import numpy as np

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Parameter(NamedTuple):
    """The type of a kernel's argument: int64, or a contiguous array."""

    element: np.dtype[Any] = np.dtype(np.int64)
    dimensions: int = 0
    readonly: bool = False


NUMBER: Final = Parameter()
INPUT: Final = Parameter(np.dtype(np.uint8), 1, readonly=True)
INPUT32: Final = Parameter(np.dtype(np.int32), 1, readonly=True)
INPUT64: Final = Parameter(np.dtype(np.int64), 1, readonly=True)
BYTES: Final = Parameter(np.dtype(np.uint8), 1)
INT16: Final = Parameter(np.dtype(np.int16), 1)
INT32: Final = Parameter(np.dtype(np.int32), 1)
INT64: Final = Parameter(np.dtype(np.int64), 1)
FLOAT64: Final = Parameter(np.dtype(np.float64), 1)
TABLE: Final = Parameter(np.dtype(np.int64), 2)


class Kernel:
    """A function of numbers and arrays that returns an int64."""

    def __init__(self, function: Callable[..., Any], parameters: tuple[Parameter, ...]) -> None:
        self.function = function
        self.parameters = parameters

    def __repr__(self) -> str:
        return f"<Kernel {self.function.__name__}>"

    @cached_property
    def _machine_code(self) -> Callable[..., int]:
        from kohort.columnar.machine_code import addresses

        # numba's calling convention: an array is seven values or more, of which the first two (its
        # owners) do not count here; the result and an exception come by reference.
        types: list[Any] = [ctypes.c_void_p, ctypes.c_void_p]
        for parameter in self.parameters:
            if parameter.dimensions:
                types += [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 2 + [ctypes.c_void_p]
                types += [ctypes.c_int64] * 2 * parameter.dimensions
            else:
                types.append(ctypes.c_int64)
        return ctypes.CFUNCTYPE(ctypes.c_int32, *types)(addresses()[self.function.__name__])

    def __call__(self, *arguments: Any) -> int:
        """Raises TypeError for arrays of another type."""
        values: list[Any] = []
        for parameter, argument in zip(self.parameters, arguments, strict=True):
            if parameter.dimensions:
                values += _flattened(argument, parameter)
            else:
                values.append(argument)
        return _run(self._machine_code, values)

    def bind(self, *arguments: Any) -> "BoundKernel":
        """The kernel with these arrays; its calls give the numbers, those here do not count.

        For loops of calls: the arrays are converted for ctypes only once. Raises TypeError.
        """
        return BoundKernel(self._machine_code, self.parameters, arguments)


class BoundKernel:
    """A kernel with its arrays, which it keeps; `Kernel.bind` makes it."""

    def __init__(
        self,
        machine_code: Callable[..., int],
        parameters: tuple[Parameter, ...],
        arguments: tuple[Any, ...],
    ) -> None:
        self._machine_code = machine_code
        self._arrays = arguments
        self._values: list[Any] = []
        self._numbers: list[int] = []
        for parameter, argument in zip(parameters, arguments, strict=True):
            if parameter.dimensions:
                self._values += _flattened(argument, parameter)
            else:
                self._numbers.append(len(self._values))
                self._values.append(argument)

    def __call__(self, *numbers: int) -> int:
        """Call it with its numbers, in order."""
        values = self._values
        for at, number in zip(self._numbers, numbers, strict=True):
            values[at] = number
        return _run(self._machine_code, values)


def _run(machine_code: Callable[..., Any], values: list[Any]) -> int:
    result, error = ctypes.c_int64(), ctypes.c_void_p()
    machine_code(ctypes.addressof(result), ctypes.addressof(error), *values)
    return result.value


def _flattened(array: Any, parameter: Parameter) -> tuple[Any, ...]:
    described = array.__array_interface__
    address, is_readonly = described["data"]
    if (
        array.dtype != parameter.element
        or array.ndim != parameter.dimensions
        or described["strides"] is not None  # None is contiguous
        or (is_readonly and not parameter.readonly)
    ):
        raise TypeError(f"{parameter} is needed, not {array.dtype} of {array.ndim} dimensions")
    return None, None, array.size, array.itemsize, address, *array.shape, *array.strides


def kernel(*parameters: Parameter) -> Callable[[Callable[..., Any]], Kernel]:
    """Have a function compiled for exactly these types of its arguments; it returns an int64."""
    return lambda function: Kernel(function, parameters)


class Helper:
    """A function that kernels call; it is compiled into each of them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.module = function.__module__

    def __call__(self, *arguments: Any) -> Any:
        raise NotImplementedError("only kernels call it")


def helper(function: _Function) -> _Function:
    """Have a function compiled with the kernels that call it."""
    return cast("_Function", Helper(function))


@helper
def copy(target: Any, target_at: Any, source: Any, source_at: Any, size: Any) -> None:
    """`target[target_at : target_at + size] = source[source_at : source_at + size]`, unchecked."""
    raise NotImplementedError  # numba_compiler makes it a memcpy
