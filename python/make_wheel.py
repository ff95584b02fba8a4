#!/usr/bin/env python3
"""Makes wheels of what is built: make_wheel.py PROGRAMS FOLDER. PROGRAMS is build/bin; the wheels are written to FOLDER.

tfdist          the package, and the command beside Python. It is static, so the wheel is for every Linux that pip knows.
tfdist_runtime  tfdist-runtime beside it, where the command looks for it. Its tag says which glibc it needs.

The same programs make the same bytes: no time, owner or path is in a wheel. scripts/package calls this.
"""

import base64
import hashlib
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
OLDEST_GLIBC = (2, 17)  # of those that pip has a name for on all machines
MACHINE = platform.machine()
EARLIEST = (1980, 1, 1, 0, 0, 0)  # that a zip file can say

METADATA = """Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: {summary}
Requires-Python: >=3.9
Classifier: Environment :: Console
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Typing :: Typed
"""


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def version():
    return re.search(r"project\(tfdist VERSION (\S+)", (HERE.parent / "CMakeLists.txt").read_text())[1]


def tags(program):
    """Where the program runs: PEP 600."""
    if "INTERP" not in output_of("readelf", "--program-headers", "--wide", program):
        needed = OLDEST_GLIBC
    else:
        names = re.findall(r"GLIBC_(\d+)\.(\d+)", output_of("readelf", "--version-info", "--wide", program))
        needed = max(OLDEST_GLIBC, *((int(major), int(minor)) for major, minor in names))
    older_name = [f"manylinux2014_{MACHINE}"] if needed == OLDEST_GLIBC else []
    return [f"manylinux_{needed[0]}_{needed[1]}_{MACHINE}", *older_name]


def stripped(program):
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run(["strip", "-o", file.name, program], check=True)
        return pathlib.Path(file.name).read_bytes()


def write_wheel(folder, name, summary, program, files):
    """`files`: bytes by their paths, beside the program."""
    platforms = tags(program)
    full_name = f"{name}-{version()}"
    info = f"{full_name}.dist-info"
    script = f"{full_name}.data/scripts/{program.name}"
    files = {
        **files,
        script: stripped(program),
        f"{info}/METADATA": METADATA.format(name=name.replace("_", "-"), version=version(), summary=summary).encode(),
        f"{info}/WHEEL": "\n".join(["Wheel-Version: 1.0", "Generator: make_wheel.py", "Root-Is-Purelib: false",
                                    *(f"Tag: py3-none-{platform}" for platform in platforms), ""]).encode(),
    }
    files[f"{info}/RECORD"] = record(files, f"{info}/RECORD")
    path = folder / f"{full_name}-py3-none-{'.'.join(platforms)}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name_inside, data in files.items():
            entry = zipfile.ZipInfo(name_inside, EARLIEST)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, as the mode is
            entry.external_attr = (0o100755 if name_inside == script else 0o100644) << 16
            wheel.writestr(entry, data)
    return path


def record(files, its_own_path):
    """PEP 376: path, hash and size of each file."""
    lines = []
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}\n")
    return ("".join(lines) + f"{its_own_path},,\n").encode()


def main(programs, folder):
    folder.mkdir(parents=True, exist_ok=True)
    package = {f"tfdist/{path.name}": path.read_bytes() for path in sorted((HERE / "tfdist").iterdir()) if path.is_file()}
    write_wheel(folder, "tfdist", "runs distributed training jobs on machines reached by SSH", programs / "tfdist", package)
    write_wheel(folder, "tfdist_runtime", "the built-in training program of tfdist", programs / "tfdist-runtime", {})


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.splitlines()[0])
    main(*map(pathlib.Path, sys.argv[1:]))
