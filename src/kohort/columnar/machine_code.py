"""Loads the kernels' machine code.

The package carries it as LLVM's bitcode, and for Linux on x86-64 as an object file too: bitcode
takes 0.2 s to become machine code, an object file a millisecond.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import llvmlite.binding as llvm  # type: ignore[import-untyped]

from kohort.columnar.compiled import HERE, KERNELS, Compiled, load, sources
from kohort.errors import KohortError

_COMPILER: Final = "kohort.columnar.numba_compiler"


@cache
def addresses() -> Mapping[str, int]:
    """Address of each kernel, by name. Raises KohortError if they cannot be compiled."""
    compiled = load(HERE)
    if compiled is None or compiled.sources != sources():
        compiled = _compile()
    engine = engine_of(compiled)
    _engines.append(engine)
    return {name: engine.get_function_address(name) for names in KERNELS.values() for name in names}


_engines: Final[list[Any]] = []
"""The owners of the machine code."""


def _compile() -> Compiled:
    """Compile in another process, so that this one does not keep numba's memory."""
    command = [sys.executable, "-m", _COMPILER, str(HERE)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    compiled = load(HERE)
    if compiled is None or compiled.sources != sources():
        why = done.stderr.strip().rpartition("\n")[2]
        raise KohortError(
            "this copy of Kohort has no machine code for its kernels, and cannot make it with"
            f" `python -m {_COMPILER}`, which needs numba and to write to {HERE}: {why}"
        )
    return compiled


def engine_of(compiled: Compiled) -> Any:
    """The MCJIT engine that owns its machine code."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    triple = llvm.get_process_triple()
    machine = llvm.Target.from_triple(triple).create_target_machine(opt=2)
    if compiled.triple == triple:
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        engine.add_object_file(llvm.ObjectFileRef.from_data(compiled.object_file))
    else:
        module = llvm.parse_bitcode(compiled.bitcode)
        module.triple, module.data_layout = triple, str(machine.target_data)
        engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine
