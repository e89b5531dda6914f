"""Names the extra of a package that a command needs and that is not installed."""

from typing import Final

_ARROW: Final = ("numpy", "pyarrow", "llvmlite")
_EXTRAS: Final = {
    "pyspark": "spark",
    "py4j": "spark",
    "asyncpg": "postgres",
    "jwt": "oauth",
    "cryptography": "pkcs12",
    "confluent_kafka": "registry",
    "kohort_conformance": "conformance",
    "jinja2": "report",
    "resvg_py": "report",
    **dict.fromkeys(_ARROW, "arrow"),
}
_EXTRAS_OF_COMMANDS: Final = {"spark": "spark", "history": "spark", "certs": "certs"}
"""Extras with all packages that these commands need."""
_ONLY: Final = ("report",)
"""Extras of a subcommand that the extra of its command does not have."""


def advice(command: str, missing: ModuleNotFoundError) -> str | None:
    """The refusal of a command; None if the missing module is of no extra."""
    package = (missing.name or "").partition(".")[0]
    if package not in _EXTRAS:
        return None
    extra = _EXTRAS[package]
    if extra not in _ONLY:
        extra = _EXTRAS_OF_COMMANDS.get(command, extra)
    return f"kohort {command} needs {package}: pip install 'kohort[{extra}]'"
