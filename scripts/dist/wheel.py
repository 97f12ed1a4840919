"""Builds a platform wheel from the pure wheel of the Python SDK and the program.

    wheel.py PURE_WHEEL PROGRAM OUTPUT_DIRECTORY

pip copies what is in `*.data/scripts` to the directory of the environment's commands, so `skillbox` is on the PATH.
"""

import base64
import hashlib
import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path


def platform_tag(program):
    """The platforms whose glibc has every symbol version that the program needs (PEP 600)."""
    symbols = subprocess.run(["objdump", "-T", program], check=True, capture_output=True, text=True).stdout
    versions = {tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols)}
    major, minor = max(versions)
    return f"manylinux_{major}_{minor}_{os.uname().machine}"


def record_line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
    return f"{name},sha256={digest},{len(data)}"


def write_entry(wheel, name, data, mode, timestamp):
    entry = zipfile.ZipInfo(name, timestamp)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o100000 | mode) << 16
    wheel.writestr(entry, data)


def main(pure, program, output):
    name, version, *_ = Path(pure).name.split("-")
    tag = f"py3-none-{platform_tag(program)}"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(pure) as wheel:
        files = {entry: wheel.read(entry) for entry in wheel.namelist() if entry != f"{info}/RECORD"}
    metadata = files[f"{info}/WHEEL"].decode()
    assert "Root-Is-Purelib: true" in metadata and "Tag: py3-none-any" in metadata, metadata
    metadata = metadata.replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
    files[f"{info}/WHEEL"] = metadata.replace("Tag: py3-none-any", f"Tag: {tag}").encode()
    script = f"{name}-{version}.data/scripts/skillbox"
    files[script] = Path(program).read_bytes()
    record = [record_line(entry, data) for entry, data in files.items()] + [f"{info}/RECORD,,"]
    files[f"{info}/RECORD"] = "\n".join(record).encode() + b"\n"
    timestamp = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    with zipfile.ZipFile(Path(output, f"{name}-{version}-{tag}.whl"), "w") as wheel:
        for entry, data in files.items():
            write_entry(wheel, entry, data, 0o755 if entry == script else 0o644, timestamp)


if __name__ == "__main__":
    main(*sys.argv[1:])
