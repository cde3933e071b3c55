"""Packs a program and a Python package as a wheel: PROGRAM PACKAGE VERSION TAG DIRECTORY.

`pip install` puts the program on the PATH and makes the package importable.
"""

import base64
import hashlib
import os
import sys
import time
import zipfile

program, package, version, tag, directory = sys.argv[1:]
name = f"setpoint-{version}"
moment = max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800)  # Archives know nothing before 1980.
metadata = f"""Metadata-Version: 2.1
Name: setpoint
Version: {version}
Summary: A Kubernetes control plane in one program, with operators for training, inference and virtual machines
License: Apache-2.0
Requires-Python: >=3.8
"""
wheel = f"Wheel-Version: 1.0\nGenerator: setpoint\nRoot-Is-Purelib: false\nTag: {tag}\n"
with open(program, "rb") as file:
    files = [
        (f"{name}.data/scripts/setpoint", file.read(), 0o755),
        (f"{name}.dist-info/METADATA", metadata.encode(), 0o644),
        (f"{name}.dist-info/WHEEL", wheel.encode(), 0o644),
    ]
for module in sorted(os.listdir(package)):
    if module.endswith(".py"):
        with open(os.path.join(package, module), "rb") as file:
            files.append((f"setpoint/{module}", file.read(), 0o644))
record = f"{name}.dist-info/RECORD"
lines = []
for path, content, _ in files:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    lines.append(f"{path},sha256={digest},{len(content)}\n")
files.append((record, "".join(lines + [f"{record},,\n"]).encode(), 0o644))
with zipfile.ZipFile(os.path.join(directory, f"{name}-{tag}.whl"), "w", zipfile.ZIP_DEFLATED) as archive:
    for path, content, mode in files:
        entry = zipfile.ZipInfo(path, time.gmtime(moment)[:6])
        entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, (0o100000 | mode) << 16
        archive.writestr(entry, content)
