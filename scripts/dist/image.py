"""Writes the container image as an archive that `docker load`, `podman load` and skopeo read, without an engine.

    image.py DOCKERFILE PROGRAM VERSION > image.tar

The single layer has the same content as the last stage of the Dockerfile: the program, its shared libraries, the
certificates of this machine and an unprivileged user. Environment, user, entrypoint and so on are read from that stage.
"""

import hashlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
import time
from pathlib import Path

USER_ID = 65532
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
PASSWD = f"skillbox:x:{USER_ID}:{USER_ID}::/var/lib/skillbox:/usr/sbin/nologin\n"
GROUP = f"skillbox:x:{USER_ID}:\n"
TIMESTAMP = int(os.environ["SOURCE_DATE_EPOCH"])


def json_bytes(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def nanoseconds(text):
    return int(text.removesuffix("s")) * 1_000_000_000


def healthcheck(arguments):
    """The configuration of `HEALTHCHECK --interval=10s … CMD ["program"]`."""
    options, command = arguments.split(" CMD ")
    values = dict(option.removeprefix("--").split("=") for option in options.split())
    keys = {"interval": "Interval", "timeout": "Timeout", "start-period": "StartPeriod"}
    check = {keys[name]: nanoseconds(value) for name, value in values.items() if name in keys}
    return {"Test": ["CMD", *json.loads(command)], "Retries": int(values["retries"]), **check}


def image_config(dockerfile):
    """Returns the image configuration from the last stage. An unknown instruction is an error."""
    stage = Path(dockerfile).read_text().rpartition("\nFROM ")[2].splitlines()
    assert stage[0] == "scratch", f"the last stage begins with {stage[0]}, not with scratch"
    config = {}
    for line in filter(None, stage[1:]):
        instruction, arguments = line.split(" ", 1)
        if instruction == "ENV":
            config["Env"] = shlex.split(arguments)
        elif instruction == "LABEL":
            config["Labels"] = dict(label.split("=", 1) for label in shlex.split(arguments))
        elif instruction in ("ENTRYPOINT", "CMD"):
            config[instruction.title()] = json.loads(arguments)
        elif instruction == "USER":
            config["User"] = arguments
        elif instruction == "WORKDIR":
            config["WorkingDir"] = arguments
        elif instruction == "EXPOSE":
            config["ExposedPorts"] = {f"{arguments}/tcp": {}}
        elif instruction == "STOPSIGNAL":
            config["StopSignal"] = arguments
        elif instruction == "HEALTHCHECK":
            config["Healthcheck"] = healthcheck(arguments)
        else:
            assert line == "COPY --from=layout /out /", f"image.py does not know: {line}"
    return config


def libraries(program):
    """The paths at which the dynamic linker finds the program's libraries, and the linker itself."""
    listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    return sorted(set(re.findall(r"(/\S+) \(0x", listed)))


class Archive:
    """A reproducible tar archive: its bytes depend only on the added entries."""

    def __init__(self):
        self.buffer = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.buffer, mode="w", format=tarfile.PAX_FORMAT)
        self.directories = set()

    def directory(self, path, mode=0o755, owner=0):
        for parent in reversed(Path(path).parents[:-1]):
            if str(parent) not in self.directories:
                self.directory(str(parent))
        self.directories.add(path)
        self._add(path, tarfile.DIRTYPE, mode, owner)

    def file(self, path, data, mode=0o644):
        if str(Path(path).parent) not in self.directories | {"/", "."}:
            self.directory(str(Path(path).parent))
        self._add(path, tarfile.REGTYPE, mode, 0, data)

    def _add(self, path, kind, mode, owner, data=b""):
        entry = tarfile.TarInfo(path.lstrip("/"))
        entry.type, entry.mode, entry.size, entry.mtime = kind, mode, len(data), TIMESTAMP
        entry.uid = entry.gid = owner
        self.tar.addfile(entry, io.BytesIO(data))

    def bytes(self):
        self.tar.close()
        return self.buffer.getvalue()


def build_layer(program):
    layer = Archive()
    layer.file("/usr/local/bin/skillbox", Path(program).read_bytes(), 0o755)
    for library in libraries(program):
        layer.file(library, Path(library).read_bytes(), 0o755)
    layer.file(CERTIFICATES, Path(CERTIFICATES).read_bytes())
    layer.file("/etc/passwd", PASSWD.encode())
    layer.file("/etc/group", GROUP.encode())
    layer.directory("/var/lib/skillbox", 0o700, USER_ID)
    layer.directory("/tmp", 0o1777)
    return layer.bytes()


def main(dockerfile, program, version):
    archive = Archive()

    def blob(data, media_type):
        digest = hashlib.sha256(data).hexdigest()
        archive.file(f"blobs/sha256/{digest}", data)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(TIMESTAMP))
    layer = blob(build_layer(program), "application/vnd.oci.image.layer.v1.tar")
    config = blob(
        json_bytes({
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine],
            "os": "linux",
            "created": created,
            "config": image_config(dockerfile),
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
            "history": [{"created": created, "created_by": "scripts/dist/image.py"}],
        }),
        "application/vnd.oci.image.config.v1+json",
    )
    manifest_type = "application/vnd.oci.image.manifest.v1+json"
    manifest = blob(
        json_bytes({"schemaVersion": 2, "mediaType": manifest_type, "config": config, "layers": [layer]}), manifest_type
    )
    tag = f"skillbox:{version}"
    manifest["annotations"] = {"io.containerd.image.name": tag, "org.opencontainers.image.ref.name": version}
    archive.file("index.json", json_bytes({"schemaVersion": 2, "manifests": [manifest]}))
    archive.file("oci-layout", json_bytes({"imageLayoutVersion": "1.0.0"}))
    # For engines that do not support OCI archives.
    path = lambda descriptor: "blobs/sha256/" + descriptor["digest"].removeprefix("sha256:")  # noqa: E731
    archive.file(
        "manifest.json", json_bytes([{"Config": path(config), "RepoTags": [tag], "Layers": [path(layer)]}])
    )
    sys.stdout.buffer.write(archive.bytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
