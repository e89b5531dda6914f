"""Compiles the kernels with numba, for the files that the package carries: `make kernels`.

The machine code is for any processor of the platform, and the same bytes on each of them: a test
compares them. Only the order of operands in the bitcode differs between versions of Python.

numba's runtime is left out (`_nrt`), for no kernel allocates. It would count references to each
array at each call of a helper: 67 ns a record instead of 11.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryFile
from types import FunctionType
from typing import Any, Final

import llvmlite.binding as llvm  # type: ignore[import-untyped]
import numba
import numba.extending
from llvmlite import ir
from numba import types
from numba.core import cgutils, config

from kohort.columnar.compiled import KERNELS, Compiled, sources
from kohort.columnar.compiling import Helper, Kernel, Parameter, copy

_codegen: Any = cgutils
_config: Any = config
_njit: Any = numba.njit
_intrinsic: Any = numba.extending.intrinsic
_HELPER: Final = {"nogil": True, "forceinline": True, "_nrt": False}


def compile_kernels() -> Compiled:
    """Compile all of them, which takes some seconds, in a process that compiled nothing else."""
    _config.CPU_NAME, _config.CPU_FEATURES = "generic", ""
    module = llvm.parse_assembly("")
    for name, kernels in KERNELS.items():
        names = _namespace(f"{__package__}.{name}")
        for kernel in kernels:
            module.link_in(_compiled(names[kernel], names))
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    triple = llvm.get_process_triple()
    machine = llvm.Target.from_triple(triple).create_target_machine(opt=3)
    passes = llvm.create_new_module_pass_manager()
    for variable in module.global_variables:  # of numba; kernels have no Python objects
        variable.linkage = "internal"
    passes.add_global_dead_code_eliminate_pass()
    passes.add_strip_symbols_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    module.verify()
    return Compiled(
        module.as_bitcode(),
        machine.emit_object(module),
        triple=triple,
        sources=sources(),
        compiler=", ".join(f"{name} {version(name)}" for name in ("numba", "llvmlite")),
    )


def _namespace(module: str) -> dict[str, Any]:
    """The module's names, with helpers that numba compiles."""
    names = dict(vars(import_module(module)))
    for name, value in list(names.items()):
        if value is copy:
            names[name] = _memcpy
        elif isinstance(value, Helper):
            namespace = _namespace(value.module) if value.module != module else names
            names[name] = _njit(**_HELPER)(_with_names(value.function, namespace))
    return names


def _with_names(function: Callable[..., Any], names: dict[str, Any]) -> Callable[..., Any]:
    return FunctionType(function.__code__, names, function.__name__)


def _compiled(kernel: Kernel, names: dict[str, Any]) -> Any:
    """The LLVM module of a kernel, which has nothing else that others could call."""
    name = kernel.function.__name__
    signature = types.int64(*map(_type, kernel.parameters))
    compiled = _njit(signature, nogil=True, _nrt=False)(_with_names(kernel.function, names))
    result = compiled.overloads[signature.args]
    module = llvm.parse_assembly(result.library.get_llvm_str())
    for function in module.functions:
        if function.name == result.fndesc.llvm_func_name:
            function.linkage, function.name = "external", name
        elif not function.is_declaration:
            function.linkage = "internal"
    return module


def _type(parameter: Parameter) -> Any:
    element = numba.from_dtype(parameter.element)
    if not parameter.dimensions:
        return element
    return types.Array(element, parameter.dimensions, "C", readonly=parameter.readonly)


@_intrinsic  # type: ignore[untyped-decorator]
def _memcpy(
    _context: Any, target: Any, target_at: Any, source: Any, source_at: Any, size: Any
) -> Any:
    signature = types.void(target, target_at, source, source_at, size)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target_type, _, source_type, _, _ = signature.args
        target, target_at, source, source_at, size = arguments
        to = builder.gep(
            _codegen.create_struct_proxy(target_type)(context, builder, target).data, [target_at]
        )
        source_pointer = builder.gep(
            _codegen.create_struct_proxy(source_type)(context, builder, source).data, [source_at]
        )
        _codegen.raw_memcpy(builder, to, source_pointer, size, ir.Constant(size.type, 1))
        return context.get_dummy_value()

    return signature, generate


if __name__ == "__main__":
    target_directory = Path(sys.argv[1])
    with TemporaryFile(dir=target_directory):  # what cannot be written need not be compiled
        pass
    compile_kernels().save(target_directory)
