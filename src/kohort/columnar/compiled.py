"""The kernels as they are compiled, and as the package carries them."""

import hashlib
import json
import os
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

KERNELS: Final = {
    "kernels": ("scan", "read_records", "read_headers"),
    "batch_field_kernels": ("repeat_batch_fields",),
    "field_kernels": ("find_fields",),
    "encoding_kernels": ("partition_keys", "write_records"),
    "commit_kernels": ("decode_commits", "gather"),
    "commit_tables": (),
    "slot_kernels": ("find_slots", "link_slots", "free_slots"),
    "commit_fold_kernels": ("fold_commits",),
    "lag_kernels": ("link_samples", "compute_lags"),
}
"""Names of the kernels by module."""
HERE: Final[Traversable] = files(__package__)
"""Where the package is: a directory, or inside a zip file that Spark sends to its executors."""
_BITCODE: Final = "machine_code.bc"
_OBJECT: Final = "machine_code.o"
_ABOUT: Final = "machine_code.json"


class Compiled:
    """Compiled kernels, as LLVM bitcode and object file."""

    def __init__(
        self, bitcode: bytes, object_file: bytes, *, triple: str, sources: str, compiler: str
    ) -> None:
        self.bitcode = bitcode
        self.object_file = object_file
        self.triple = triple
        """Platform of the object file."""
        self.sources = sources
        """Digest of the compiled sources."""
        self.compiler = compiler
        """Versions of the libraries that compiled it."""

    def save(self, directory: Path) -> None:
        """Write it for `load`. Raises OSError."""
        about = {"triple": self.triple, "sources": self.sources, "compiler": self.compiler}
        for name, content in (
            (_BITCODE, self.bitcode),
            (_OBJECT, self.object_file),
            (_ABOUT, json.dumps(about, indent=1).encode() + b"\n"),  # last: it describes the others
        ):
            new = directory / f"{name}.{os.getpid()}"
            new.write_bytes(content)
            new.replace(directory / name)


def load(directory: Traversable) -> Compiled | None:
    """Load the output of `save`, None if there is none."""
    try:
        about = json.loads((directory / _ABOUT).read_bytes())
        return Compiled(
            (directory / _BITCODE).read_bytes(),
            (directory / _OBJECT).read_bytes(),
            **about,
        )
    except FileNotFoundError:
        return None


def sources(directory: Traversable | None = None) -> str:
    """Digest of the kernels' source, and of how they are compiled, in the package or a copy."""
    digest = hashlib.sha256()
    for module in (*KERNELS, "compiling", "numba_compiler"):
        digest.update(((directory or HERE) / f"{module}.py").read_bytes())
    return digest.hexdigest()
