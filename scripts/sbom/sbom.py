"""Creates the CycloneDX SBOM of the program from the dependencies that `cargo metadata` resolves."""

import json
import os
import pathlib
import subprocess
import sys
import tomllib
import uuid

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = SchemaVersion.V1_6
# The crate of the released program.
PROGRAM = "cli"


def metadata():
    target = os.environ.get("SBOM_TARGET", "x86_64-unknown-linux-gnu")
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout)


def locked():
    """Returns the checksums of the registry crates in Cargo.lock, by name and version."""
    packages = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    return {(package["name"], package["version"]): package["checksum"] for package in packages if "checksum" in package}


def reached(nodes, start, kinds):
    """Returns the transitive dependencies of a package, following dependencies of these kinds."""
    found, waiting = {start}, [start]
    while waiting:
        for dependency in needs(nodes[waiting.pop()], kinds) - found:
            found.add(dependency)
            waiting.append(dependency)
    return found


def needs(node, kinds):
    return {dep["pkg"] for dep in node["deps"] if any(kind["kind"] in kinds for kind in dep["dep_kinds"])}


def component(package, checksums, is_linked):
    name, version = package["name"], package["version"]
    checksum = checksums.get((name, version))
    purl = PackageURL("cargo", name=name, version=version) if checksum else None
    repository = package["repository"]
    # An older notation for a choice of licences.
    licence = (package["license"] or "").replace("/", " OR ")
    return Component(
        type=ComponentType.LIBRARY,
        name=name,
        version=version,
        bom_ref=str(purl) if purl else f"skillbox/{name}@{version}",
        purl=purl,
        scope=ComponentScope.REQUIRED if is_linked else ComponentScope.EXCLUDED,
        licenses=[LicenseFactory().make_from_string(licence)] if licence else [],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=checksum)] if checksum else [],
        external_references=[ExternalReference(type=ExternalReferenceType.VCS, url=XsUri(repository))] if repository else [],
    )


def make():
    resolved, checksums = metadata(), locked()
    packages = {package["id"]: package for package in resolved["packages"]}
    nodes = {node["id"]: node for node in resolved["resolve"]["nodes"]}
    program = next(id for id in resolved["workspace_members"] if packages[id]["name"] == PROGRAM)
    # Linked crates, and crates that run during the build. Tests and benchmarks are not part of the release.
    linked = reached(nodes, program, {None})
    all_kinds = {None, "build"}
    ids = reached(nodes, program, all_kinds)
    components = {id: component(packages[id], checksums, id in linked) for id in ids if id != program}
    root = Component(type=ComponentType.APPLICATION, name="skillbox", version=packages[program]["version"], bom_ref="skillbox")
    bom = Bom(components=components.values(), serial_number=uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(sorted(checksums.items()))))
    bom.metadata.component = root
    for id in ids:
        bom.register_dependency(components.get(id, root), [components[needed] for needed in needs(nodes[id], all_kinds)])
    return make_outputter(bom, OutputFormat.JSON, SCHEMA).output_as_string(indent=2) + "\n"


def problem(text):
    """Returns the validation error of CycloneDX's schema, or None."""
    return JsonStrictValidator(SCHEMA).validate_str(text)


def main(file):
    text = make()
    if found := problem(text):
        sys.exit(f"sbom: not valid: {found}")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    print(f"sbom: {len(json.loads(text)['components'])} components in {file}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
