"""Putting vdla, an overlay and networks on a board, and seeing that they work."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from vdla.bitstreams import MANIFEST, Manifest
from vdla.boards import BOARDS, board_of_image
from vdla.errors import DeviceError
from vdla.runtime.flash.cargo import Cargo
from vdla.runtime.flash.machine import File, Machine
from vdla.runtime.flash.wheels import FROM_BOARD, environment_of, requirements, wheels_for
from vdla.runtime.selftest.report import FAILED

__all__ = ["flash", "vdla_on"]

INSTALLED = "installed.json"
TESTED = "tested.toml"
SPARE_BYTES = 4 << 20
"""Left free on the board beside what is written: self-tests and caches take some."""

Progress = Callable[[int, int, str], None]
Ask = Callable[[str], "str | None"]


def vdla_on(machine: Machine) -> list[str]:
    """Return the words that start vdla's command there."""
    return [machine.facts["executable"], "-m", "vdla.runtime.cli"]


def flash(
    machine: Machine, cargo: Cargo, *, ask: Ask, progress: Progress | None = None
) -> dict[str, Any]:
    """Install on a board what is not there yet, and run the self-test.

    Everything that is there already, and whole, stays; so after an interruption the same call
    goes on where it stopped.

    Parameters
    ----------
    machine : Machine
    cargo : Cargo
    ask : callable
        Returns a password for a prompt, None where nobody can be asked.
    progress : callable, optional
        Called with KiB sent, KiB in all, and what is being done.

    Returns
    -------
    dict
        ``board``, ``python``, ``vdla``, ``sent`` and ``present`` (files, below ``folder``),
        ``installed`` (whether pip had to), ``selftest`` (what it printed).

    Raises
    ------
    VdlaError
        The board has not what it needs, or fails.
    """
    tell = progress or (lambda done, total, doing: None)
    tell(0, 1, "looking at the board")
    _require(machine, cargo)
    manifest = cargo.manifest(_here(machine))
    if manifest is not None and cargo.device == "pynq":
        _require_pynq(machine, manifest)
    tell(0, 1, "making wheels")
    wheels = wheels_for(machine.facts["python"], machine.facts["machine"])

    tell(0, 1, "waiting for another vdla on the board")
    machine.lock()
    files = _files(cargo, manifest, wheels)
    missing = machine.missing(files)
    to_install = _to_install(machine, files[: len(wheels)])
    _require_room(machine, missing, wheels if to_install else [])
    _send(machine, missing, tell)
    machine.call("keep", folder="wheels", names=[wheel.name for wheel in wheels])
    if to_install:
        tell(1, 1, "installing")
        _install(machine, files[: len(wheels)], ask)
    tell(1, 1, "testing")
    tested = _self_test(machine, cargo, manifest, ask)
    return {
        "board": None if manifest is None else manifest.board,
        "machine": machine.facts["machine"],
        "python": machine.facts["python"],
        "vdla": metadata.version("vdla"),
        "folder": machine.facts["folder"],
        "sent": [file.name for file in missing],
        "present": [file.name for file in files if file not in missing],
        "installed": to_install,
        "selftest": tested,
    }


def _here(machine: Machine) -> str:
    here = board_of_image(str(machine.facts["board"]))
    return "" if here is None else here.name


def _require(machine: Machine, cargo: Cargo) -> None:
    """Refuse a board that lacks what it must bring itself."""
    facts, packages = machine.facts, machine.facts["packages"]
    where = f"{facts['executable']} of {machine.name}"
    environment = environment_of(facts["python"], facts["machine"])
    own = metadata.distribution("vdla")
    for wanted in [one for one in requirements(own, environment) if one.name in FROM_BOARD]:
        found = packages[wanted.name]
        if found is None or not wanted.specifier.contains(found, prereleases=True):
            raise DeviceError(
                f"A board must have {wanted.name} {wanted.specifier}, which is compiled and so "
                f"comes with its image, and {where} has {found or 'none'}: take PYNQ's image, run: "
                f"sudo apt-get install python3-{wanted.name}, or name another Python with --python"
            )
    if packages["pip"] is None:
        raise DeviceError(
            f"A board's Python must have pip, and {where} has none: run: sudo apt-get install "
            "python3-pip, or name another Python with --python"
        )
    if facts["managed"]:
        raise DeviceError(
            f"A board's Python must be one that pip may install into, and {where} belongs to the "
            "system: make a virtual environment (python3 -m venv --system-site-packages FOLDER) "
            "and name its Python with --python"
        )
    if cargo.device == "pynq" and packages["pynq"] is None:
        raise DeviceError(
            f"A board must have pynq, and {where} does not: flash its SD card with PYNQ's image, "
            "or name the Python that has pynq with --python"
        )


def _require_pynq(machine: Machine, manifest: Manifest) -> None:
    # Boards pin the patch release that tests ran with; an image's own of the same minor will do.
    wanted = re.sub(r"==(\d+\.\d+)\.\d+", r"==\1.*", BOARDS[manifest.board].pynq[0])
    found = machine.facts["packages"]["pynq"]
    if not Requirement(wanted).specifier.contains(found, prereleases=True):
        raise DeviceError(
            f"{manifest.board} must have {wanted}, and {machine.name} has pynq {found}: "
            "flash its SD card with the PYNQ image of that version"
        )


def _files(cargo: Cargo, manifest: Manifest | None, wheels: Sequence[Path]) -> list[File]:
    """Return all files for the board, the wheels first; an overlay's manifest follows the rest."""
    files = [File.of(path, f"wheels/{path.name}") for path in wheels]
    if manifest is not None:
        for name in (*manifest.files, MANIFEST):
            files.append(File.of(manifest.folder / name, f"overlays/{manifest.board}/{name}"))
    files += [File.of(path, f"networks/{path.name}") for path in cargo.networks]
    return files


def _installation(machine: Machine, wheels: Sequence[File]) -> str:
    names = {file.name: file.sha256 for file in wheels}
    return json.dumps({"into": machine.facts["site"], "wheels": names})


def _to_install(machine: Machine, wheels: Sequence[File]) -> bool:
    """Return whether these wheels are not what was installed last."""
    there = machine.call("read", name=INSTALLED)["text"]
    return there != _installation(machine, wheels) or machine.facts["packages"]["vdla"] is None


def _require_room(machine: Machine, missing: Sequence[File], wheels: Sequence[Path]) -> None:
    unpacked = 0
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            unpacked += sum(entry.file_size for entry in archive.infolist())
    wanted = {
        "folder": sum(file.nbytes for file in missing) + SPARE_BYTES,
        "site": unpacked + SPARE_BYTES if wheels else 0,
    }
    free = {"folder": "free_bytes", "site": "site_free_bytes"}
    for place, nbytes in wanted.items():
        there = machine.facts[free[place]]
        if nbytes > there:
            raise DeviceError(
                f"{machine.name} must have {nbytes >> 20} MiB free in {machine.facts[place]}, and "
                f"has {there >> 20} MiB: remove files there, or take a larger SD card"
            )


def _send(machine: Machine, missing: Sequence[File], tell: Progress) -> None:
    total = sum(file.nbytes for file in missing)
    done = 0
    for file in missing:

        def sent(nbytes: int, name: str = file.source.name) -> None:
            nonlocal done
            done += nbytes
            tell(done >> 10, total >> 10, f"copying {name}")

        machine.send(file, sent)


def _install(machine: Machine, wheels: Sequence[File], ask: Ask) -> None:
    """Install with pip, from the copied wheels and nothing else."""
    facts = machine.facts
    root = not facts["writable"]
    if root:
        machine.become_root(ask, f"install into {facts['site']}")
    machine.call("write", name=INSTALLED, text="")
    folder = f"{facts['folder']}/wheels"
    pip = [facts["executable"], "-m", "pip", "--isolated", "--disable-pip-version-check", "install"]
    pip += ["--no-index", "--find-links", folder, "--only-binary", ":all:", "--no-compile"]
    environment = environment_of(facts["python"], facts["machine"])
    wanted = requirements(metadata.distribution("vdla"), environment)
    others = [f"{one.name}{one.specifier}" for one in wanted if one.name not in FROM_BOARD]
    own = f"{facts['folder']}/{wheels[0].name}"
    machine.doing("pip installed")
    # What the image has already, and in range, stays as it is: notebooks there depend on it.
    for words in (others, ["--no-deps", "--force-reinstall", own]):
        done = machine.run([*pip, *words], root=root)
        if done.code:
            errors = [line for line in done.said if line.startswith("ERROR")] or done.said[-1:]
            raise DeviceError(
                f"pip must install vdla on {machine.name}, and it fails: "
                f"{errors[0] if errors else f'exit code {done.code}'}: the wheels are in {folder} "
                "there, to try it by hand"
            )
    if root:
        _share(machine)
    machine.call("write", name=INSTALLED, text=_installation(machine, wheels))


def _share(machine: Machine) -> None:
    """Let root, as whom PYNQ's notebooks run, find the overlays and networks of this user."""
    script = (
        'to=~root/.local/share/vdla; [ -e "$to" ] || { mkdir -p "${to%/*}" && ln -s "$0" "$to"; }'
    )
    machine.run(["sh", "-c", script, machine.facts["folder"]], root=True)


def _self_test(
    machine: Machine, cargo: Cargo, manifest: Manifest | None, ask: Ask
) -> dict[str, Any]:
    on_board = cargo.device == "pynq"
    root = on_board and not machine.facts["root"]
    if root:
        machine.become_root(ask, "drive the accelerator")
    folder = machine.facts["folder"]
    environment = {}
    if manifest is not None and on_board:
        environment["VDLA_OVERLAY"] = f"{folder}/overlays/{manifest.board}"
    command = [*vdla_on(machine), "selftest", "--device", cargo.device, "--json"]
    config = cargo.config(manifest)
    if config is not None:
        machine.call("write", name=TESTED, text=config.to_toml())
        command += ["--config", f"{folder}/{TESTED}"]
    command += [f"{folder}/networks/{path.name}" for path in cargo.networks[:1]]
    machine.doing("the self-test ran")
    done = machine.run(command, environment=environment, root=root)
    try:
        report = json.loads(done.output)
        failed = [check for check in report["checks"] if check["status"] == FAILED]
    except ValueError:
        said = [line for line in done.said if line.strip()] or [f"exit code {done.code}"]
        wrong = said[-1].removeprefix("vdla: ")
    else:
        if not failed and not done.code:
            return dict(report)
        wrong = "; ".join(f"{one['grade']}, {one['name']}: {one['detail']}" for one in failed[:3])
        wrong = f"{len(failed)} of {len(report['checks'])} checks: {wrong}"
    raise DeviceError(
        f"The self-test must pass on {machine.name}, and it fails: {wrong}: all is installed "
        f"there; see more with: vdla selftest --device {cargo.device}"
    )
