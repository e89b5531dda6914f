"""Fills in what a build says of the wheel: its index page, its addresses and its SBOM.

With KOHORT_REPOSITORY, the address of the repository on GitHub, the links of the README lead to the
files of this version, and the metadata names the addresses. The release workflow sets it. Without
it they stay relative, as in a clone.
"""

import hashlib
import json
import os
import re
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)]+)\)")
CHANGELOG = "CHANGELOG.md"
MACHINE_CODE = "kohort/columnar/machine_code"


class IndexPage(MetadataHookInterface):
    """Sets `readme` and `urls`, which pyproject.toml calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Raises OSError if the README cannot be read."""
        text = Path(self.root, "README.md").read_text("utf-8")
        if repository := os.environ.get("KOHORT_REPOSITORY", "").rstrip("/"):
            tag = f"v{metadata['version']}"
            text = with_absolute_links(text, repository, tag)
            metadata["urls"] = {
                "Homepage": repository,
                "Documentation": f"{repository}/tree/{tag}/docs",
                "Repository": repository,
                "Changelog": f"{repository}/blob/{tag}/{CHANGELOG}",
                "Issues": f"{repository}/issues",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def with_absolute_links(text: str, repository: str, tag: str) -> str:
    """Markdown whose links and pictures do not need the files beside it."""

    def absolute(match: re.Match[str]) -> str:
        mark, label, target = match.groups()
        return f"{mark}[{label}]({repository}/{'raw' if mark else 'blob'}/{tag}/{target})"

    return LINK.sub(absolute, text)


class BillOfMaterials(BuildHookInterface[Any]):
    """Puts a CycloneDX SBOM into the wheel (PEP 770)."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Raises OSError if the machine code cannot be read."""
        path = Path(mkdtemp()) / "kohort.cdx.json"
        bill = bill_of_materials(Path(self.root, "src"), self.metadata)
        path.write_text(json.dumps(bill, indent=1) + "\n", "utf-8")
        build_data["sbom_files"].append(str(path))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        for each in map(Path, build_data["sbom_files"]):
            each.unlink()
            each.parent.rmdir()


def bill_of_materials(source: Path, metadata: Any) -> dict[str, Any]:
    """The wheel, its machine code with the compiler that made it, and what it depends on.

    `source`: the directory of the package; `metadata`: hatchling's.
    """
    compiler = json.loads((source / f"{MACHINE_CODE}.json").read_text("utf-8"))["compiler"]
    own = f"pkg:pypi/{metadata.name}@{metadata.version}"
    required = sorted(metadata.core.dependencies_complex.values(), key=lambda each: each.name)
    requirements = [f"pkg:pypi/{each.name}" for each in required]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": own,
                "name": metadata.name,
                "version": metadata.version,
                "purl": own,
                "licenses": [{"license": {"id": metadata.core.license_expression}}],
            }
        },
        "components": [
            *(_file(source, f"{MACHINE_CODE}.{end}", compiler) for end in ("bc", "o")),
            *(
                {
                    "type": "library",
                    "bom-ref": purl,
                    "name": each.name,
                    "purl": purl,
                    "description": f"requirement {each}",
                }
                for each, purl in zip(required, requirements, strict=True)
            ),
        ],
        "dependencies": [{"ref": own, "dependsOn": requirements}],
    }


def _file(source: Path, name: str, compiler: str) -> dict[str, Any]:
    content = hashlib.sha256((source / name).read_bytes()).hexdigest()
    return {
        "type": "file",
        "bom-ref": name,
        "name": name,
        "description": f"compiled from the modules beside it by {compiler}",
        "hashes": [{"alg": "SHA-256", "content": content}],
    }
