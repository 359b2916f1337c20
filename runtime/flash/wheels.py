"""The wheels that a board without a network needs: vdla's own, and those of what it requires.

What is installed here is packed into wheels again, so the board gets what was tested here, and
this computer needs no network either. Only what a board's Python needs and this one does not have
is downloaded.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from vdla.errors import DeviceError
from vdla.runtime.cache import cache_folder

__all__ = ["FROM_BOARD", "environment_of", "requirements", "wheels_for"]

FROM_BOARD = {"numpy"}
"""Compiled, so the board's image must have them."""

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Of every file in a wheel, so that the same content makes the same wheel."""
_PIPS_OWN = {"INSTALLER", "RECORD", "REQUESTED", "direct_url.json"}
_WHEEL = "Wheel-Version: 1.0\nGenerator: vdla\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def wheels_for(python: str, machine: str) -> list[Path]:
    """Return vdla's wheel and then those of what it requires, all of pure Python.

    Parameters
    ----------
    python : str
        Version of the board's Python.
    machine : str
        Its processor, as ``uname -m`` has it.

    Raises
    ------
    DeviceError
        vdla cannot be built, or a package is neither installed here nor to be had.
    """
    own = _distribution("vdla")
    if own is None:
        raise DeviceError("vdla must be installed to be copied to a board: pip install vdla[flash]")
    checkout = _checkout(own)
    wheels = [_pack(own) if checkout is None else _build(checkout)]
    environment = environment_of(python, machine)
    waiting = list(requirements(own, environment))
    seen = set(FROM_BOARD)
    while waiting:
        wanted = waiting.pop(0)
        name = canonicalize_name(wanted.name)
        if name in seen:
            continue
        seen.add(name)
        found = _distribution(name)
        if found is not None and _goes_to(found, wanted, python):
            wheels.append(_pack(found))
            waiting += requirements(found, environment)
        else:
            wheels.append(_download(wanted, python))
            waiting += requirements(_Wheel(wheels[-1]), environment)
    return wheels


def requirements(
    distribution: metadata.Distribution, environment: Mapping[str, str]
) -> Iterator[Requirement]:
    """Yield what a distribution requires, without extras, in an environment."""
    for text in distribution.requires or []:
        one = Requirement(text)
        if one.marker is None or one.marker.evaluate(dict(environment)):
            yield one


def environment_of(python: str, machine: str) -> dict[str, str]:
    """Return what decides, on a board, which requirements hold."""
    return {
        "extra": "",
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": python,
        "python_version": ".".join(python.split(".")[:2]),
        "sys_platform": "linux",
    }


class _Wheel(metadata.Distribution):
    """The metadata of a wheel that is not installed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read_text(self, filename: str) -> str | None:
        with zipfile.ZipFile(self.path) as archive:
            for name in archive.namelist():
                if name.endswith(f".dist-info/{filename}"):
                    return archive.read(name).decode()
        return None

    def locate_file(self, path: object) -> Path:
        return Path(str(path))


def _distribution(name: str) -> metadata.Distribution | None:
    """Return what is installed; a source tree's egg-info on the path is not."""
    found = metadata.distributions(name=name)
    return next((one for one in found if one.read_text("RECORD") is not None), None)


def _checkout(own: metadata.Distribution) -> Path | None:
    """Return the source tree that an editable install leads to."""
    origin = json.loads(own.read_text("direct_url.json") or "{}")
    if not origin.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlsplit(origin["url"]).path))


def _goes_to(found: metadata.Distribution, wanted: Requirement, python: str) -> bool:
    """Return whether what is installed here is of pure Python and runs on the board's."""
    tags = found.read_text("WHEEL") or ""
    needs = SpecifierSet(str(found.metadata.json.get("requires_python", "")))
    return (
        "Root-Is-Purelib: true" in tags
        and "-none-any" in tags
        and wanted.specifier.contains(found.version, prereleases=True)
        and needs.contains(python, prereleases=True)
    )


def _folder() -> Path:
    folder = cache_folder("wheels")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _pack(distribution: metadata.Distribution) -> Path:
    """Write the wheel that a distribution was installed from."""
    contents = {}
    info = ""
    for file in distribution.files or []:
        if ".." in file.parts or "__pycache__" in file.parts or file.is_absolute():
            continue
        if file.parts[0].endswith(".dist-info"):
            info = file.parts[0]
            if file.name in _PIPS_OWN or file.name == "WHEEL":
                continue
        contents[file.as_posix()] = Path(str(distribution.locate_file(file))).read_bytes()
    contents[f"{info}/WHEEL"] = _WHEEL.encode()
    rows = [
        f"{name},sha256={_record_hash(data)},{len(data)}" for name, data in sorted(contents.items())
    ]
    contents[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    path = _folder() / f"{info.removesuffix('.dist-info')}-py3-none-any.whl"
    partial = path.with_suffix(f".{os.getpid()}")  # another process may pack the same
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
    partial.replace(path)
    return path


def _record_hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def _build(checkout: Path) -> Path:
    """Build the wheel of a source tree, once for each state of it."""
    digest = hashlib.sha256((checkout / "pyproject.toml").read_bytes())
    for top in ("bitstreams", "compiler", "hw", "runtime", "sim"):
        for file in sorted((checkout / top).rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(str(file.relative_to(checkout)).encode())
                digest.update(hashlib.sha256(file.read_bytes()).digest())
    folder = _folder() / digest.hexdigest()[:16]
    found = sorted(folder.glob("vdla-*.whl"))
    if not found:
        # Through an sdist: a wheel built in the tree would take up what an earlier build left.
        _call([sys.executable, "-m", "build", "--outdir", str(folder), str(checkout)], "vdla")
        found = sorted(folder.glob("vdla-*.whl"))
    return found[0]


def _download(wanted: Requirement, python: str) -> Path:
    folder = _folder() / f"{canonicalize_name(wanted.name)}-for-{python}"
    found = sorted(folder.glob("*-none-any.whl"))
    if not found:
        short = "".join(python.split(".")[:2])
        choice = ["--only-binary=:all:", "--platform=any", "--implementation=py", "--abi=none"]
        choice += [f"--python-version={short}", f"--dest={folder}", "--no-deps", "--quiet"]
        _call(
            [sys.executable, "-m", "pip", "download", *choice, f"{wanted.name}{wanted.specifier}"],
            f"{wanted.name}, of pure Python for Python {python},",
        )
        found = sorted(folder.glob("*-none-any.whl"))
    return found[0]


def _call(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise DeviceError(
            f"A board gets a wheel of {what} from this computer, and it cannot be had here: "
            f"{lines[-1] if lines else 'no reason given'}: the command was: {' '.join(command)}"
        )
