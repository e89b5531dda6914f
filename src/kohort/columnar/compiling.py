"""Compiles the kernels of this room with numba, with explicit types, and caches them on disk.

With explicit types a kernel is compiled, or loaded, when its module is imported. That takes about 2
s the first time, and milliseconds from then on. The machine code is kept beside the module, or in
the user's cache directory if that is not writable (or in `NUMBA_CACHE_DIR`). If none is writable,
every process compiles.

The kernels release the GIL, so threads decode in parallel. None of them allocates, so numba's
runtime is left out (`_nrt`). It would count references to each array at each call of a helper: 67
ns a record instead of 11.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import numba
import numba.extending
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils

_codegen: Any = cgutils
_njit: Any = numba.njit
_intrinsic: Any = numba.extending.intrinsic

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _array(element: Any, *, dimensions: int = 1, readonly: bool = False) -> Any:
    return types.Array(element, dimensions, "C", readonly=readonly)


INPUT: Final = _array(types.uint8, readonly=True)
INPUT32: Final = _array(types.int32, readonly=True)
INPUT64: Final = _array(types.int64, readonly=True)
BYTES: Final = _array(types.uint8)
INT32: Final = _array(types.int32)
INT64: Final = _array(types.int64)
TABLE: Final = _array(types.int64, dimensions=2)
NUMBER: Final = types.int64


def kernel(*arguments: Any, returns: Any = NUMBER) -> Callable[[_Function], _Function]:
    """Compile a function for exactly these types of its arguments."""

    def compile_it(function: _Function) -> _Function:
        signature = returns(*arguments)
        try:
            compiled: _Function = _njit(signature, cache=True, nogil=True, _nrt=False)(function)
        except RuntimeError as error:  # numba's word for "no directory to keep it in"
            if "no locator" not in str(error):
                raise
            compiled = _njit(signature, nogil=True, _nrt=False)(function)
        return compiled

    return compile_it


def helper(function: _Function) -> _Function:
    """Compile a function that kernels of the same module call.

    It is compiled with each of them. The cache checks the age of that one file only.
    """
    compiled: _Function = _njit(nogil=True, forceinline=True, _nrt=False)(function)
    return compiled


@_intrinsic  # type: ignore[untyped-decorator]
def copy(_context: Any, target: Any, target_at: Any, source: Any, source_at: Any, size: Any) -> Any:
    """`target[target_at : target_at + size] = source[source_at : source_at + size]`, unchecked.

    It is a memcpy.
    """
    signature = types.void(target, target_at, source, source_at, size)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target_type, _, source_type, _, _ = signature.args
        target, target_at, source, source_at, size = arguments
        to = builder.gep(
            _codegen.create_struct_proxy(target_type)(context, builder, target).data, [target_at]
        )
        of = builder.gep(
            _codegen.create_struct_proxy(source_type)(context, builder, source).data, [source_at]
        )
        _codegen.raw_memcpy(builder, to, of, size, ir.Constant(size.type, 1))
        return context.get_dummy_value()

    return signature, generate
