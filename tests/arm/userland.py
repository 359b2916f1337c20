"""A Debian for ARM in a folder, run by qemu: what a board has, without the board.

That for ARMv7 holds what a PYNQ image has that matters here: Python with numpy from the
distribution, a virtual environment with pip where PYNQ keeps its own, and an OpenSSH server. That
for AArch64 has Python with numpy alone. Packages are chosen, fetched and verified by debootstrap,
then unpacked here, because their installation scripts take ten minutes under emulation and do only
a few things that are needed: those are done below.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from vdla.runtime.cache import cache_folder

__all__ = [
    "AARCH64",
    "ARMV7",
    "BARE_PYTHON",
    "PYNQ_PYTHON",
    "USER",
    "Architecture",
    "Userland",
    "cached_root",
]

SUITE = "bookworm"
USER = "xilinx"
"""The user of PYNQ's images."""
USER_ID = 1000
PYNQ_PYTHON = "/usr/local/share/pynq-venv/bin/python3"
"""Where PYNQ's images have the Python that pynq is installed in."""

BARE_PYTHON = "/usr/local/share/bare/bin/python3"
"""One without numpy and pip."""

INSTALL = "apt-get install -y binfmt-support debootstrap qemu-user-static"
USELESS = ("usr/share/doc", "usr/share/locale", "usr/share/man", "var/cache/apt/archives")


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """What a userland is for.

    Attributes
    ----------
    debian : str
        Debian's name of it.
    qemu : str
        What the kernel hands its programs to.
    libraries : str
        The folder of its libraries.
    packages : tuple of str
    """

    debian: str
    qemu: str
    libraries: str
    packages: tuple[str, ...]

    @property
    def binfmt(self) -> Path:
        """Where the kernel says whether it does."""
        return Path("/proc/sys/fs/binfmt_misc", self.qemu)


ARMV7 = Architecture(
    debian="armhf",
    qemu="qemu-arm",
    libraries="arm-linux-gnueabihf",
    packages=("openssh-server", "python3-numpy", "python3-venv"),
)
AARCH64 = Architecture(
    debian="arm64",
    qemu="qemu-aarch64",
    libraries="aarch64-linux-gnu",
    packages=("python3-numpy",),
)


class Userland:
    """A root folder and the commands that run in it.

    Parameters
    ----------
    root : Path
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(
        self,
        *command: str,
        user: str = USER,
        environment: Mapping[str, str] | None = None,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in it and return what it printed."""
        result = subprocess.run(
            ["chroot", f"--userspec={user}", str(self.root), *command],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            env=self.environment(user) | dict(environment or {}),
        )
        if check:
            assert result.returncode == 0, result.stdout + result.stderr
        return result

    @staticmethod
    def environment(user: str = USER) -> dict[str, str]:
        """Return what a login gives a user, and nothing of this process."""
        home = "/root" if user == "root" else f"/home/{user}"
        paths = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {"HOME": home, "PATH": paths, "USER": user, "LANG": "C.UTF-8"}

    def copy(self, folder: Path) -> Userland:
        """Return a copy to install into."""
        subprocess.run(["cp", "-a", "--reflink=auto", str(self.root), str(folder)], check=True)
        return Userland(folder)


def cached_root(machine: Architecture = ARMV7) -> Userland:
    """Return the pristine userland, built where the cache has none for this recipe.

    A build is made in a folder of its own and renamed when it is complete, so one that is
    interrupted leaves nothing that looks finished.
    """
    _require(machine)
    folder = cache_folder("arm" if machine is ARMV7 else machine.debian)
    folder.mkdir(parents=True, exist_ok=True)
    root = folder / hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one build for all of pytest's workers
        if not root.exists():
            for left_over in folder.iterdir():  # of other recipes and of interrupted builds
                if left_over.is_dir():
                    shutil.rmtree(left_over)
            with tempfile.TemporaryDirectory(dir=folder, prefix="building-") as building:
                made = Path(building, "root")
                _build(made, machine)
                made.rename(root)
    return Userland(root)


def _require(machine: Architecture) -> None:
    """Skip where this machine cannot run it, with what to install."""
    if os.geteuid() != 0:
        pytest.skip("an ARM userland needs chroot: run the tests as root")
    if shutil.which("debootstrap") is None:
        pytest.skip(f"no debootstrap; install it with: {INSTALL}")
    binfmt = machine.binfmt
    if not binfmt.exists() or not binfmt.read_text(encoding="ascii").startswith("enabled"):
        pytest.skip(
            "the kernel does not start ARM programs with qemu; "
            f"install it with: {INSTALL} && update-binfmts --enable {machine.qemu}"
        )


def _mirror() -> str:
    """Return the Debian mirror that apt of this machine uses."""
    fields = "$(ORIGIN)|$(CODENAME)|$(COMPONENT)|$(REPO_URI)"
    listed = _output("apt-get", "indextargets", "--format", fields, "Created-By: Packages")
    for line in listed.splitlines():
        origin, codename, component, uri = line.split("|")
        if origin == "Debian" and component == "main" and "-" not in codename:
            return uri
    pytest.skip("apt of this machine has no Debian mirror; add one and run: apt-get update")


def _proxies() -> dict[str, str]:
    """Return how downloads leave this machine: as its environment says, or else as apt does."""
    found = {name: value for name, value in os.environ.items() if name.endswith("_proxy")}
    for scheme in ("http", "https"):
        line = _output("apt-config", "shell", "P", f"Acquire::{scheme}::Proxy").strip()
        if line:
            found.setdefault(f"{scheme}_proxy", line.removeprefix("P=").strip("'"))
    return found


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _call(*command: str | Path, root: Path | None = None) -> None:
    words: Sequence[str] = [str(word) for word in command]
    if root is not None:
        words = ["chroot", str(root), *words]
    result = subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": "/root", "LANG": "C.UTF-8", **_proxies()},
    )
    assert result.returncode == 0, f"{words}: {result.stdout[-2000:]}{result.stderr[-2000:]}"


def _build(root: Path, machine: Architecture) -> None:
    include = f"--include={','.join(machine.packages)}"
    _call(
        "debootstrap",
        "--foreign",
        f"--arch={machine.debian}",
        "--variant=minbase",
        include,
        SUITE,
        root,
        _mirror(),
    )
    for package in sorted((root / "var/cache/apt/archives").glob("*.deb")):
        _unpack(package, root)
    _configure(root, machine)
    if machine is ARMV7:
        _resemble_pynq(root)
    for name in USELESS:
        shutil.rmtree(root / name, ignore_errors=True)
    shutil.rmtree(root / "debootstrap")


def _unpack(package: Path, root: Path) -> None:
    with subprocess.Popen(
        ["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE
    ) as archive:
        _tar = ["tar", "-x", "-p", "--keep-directory-symlink", "-C", str(root)]
        subprocess.run(_tar, stdin=archive.stdout, check=True)
    assert archive.returncode == 0, package


def _configure(root: Path, machine: Architecture) -> None:
    """Do what the scripts of these packages would do."""
    masters = root / "usr/share/base-passwd"
    users = (
        "sshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"
        f"{USER}:x:{USER_ID}:{USER_ID}::/home/{USER}:/bin/bash\n"
    )
    passwd = (masters / "passwd.master").read_text(encoding="ascii").replace(":*:", ":x:")
    (root / "etc/passwd").write_text(passwd + users, encoding="ascii")
    group = (masters / "group.master").read_text(encoding="ascii").replace(":*:", ":x:")
    (root / "etc/group").write_text(f"{group}{USER}:x:{USER_ID}:\n", encoding="ascii")
    # numpy's BLAS is what update-alternatives would point to.
    library = root / "usr/lib" / machine.libraries
    (root / "etc/ld.so.conf.d/00-blas.conf").write_text(
        "".join(f"/{library.relative_to(root)}/{name}\n" for name in ("blas", "lapack")),
        encoding="ascii",
    )
    _call("ldconfig", root=root)
    # Compiled once here, and not by every test; so is pip below.
    _call("python3", "-c", "import numpy", root=root)
    home = root / "home" / USER
    home.mkdir()
    os.chown(home, USER_ID, USER_ID)


def _resemble_pynq(root: Path) -> None:
    """Add what a PYNQ image has beside the distribution's packages."""
    (root / "run/sshd").mkdir(parents=True, exist_ok=True)
    _call("python3", "-m", "venv", "--without-pip", Path(BARE_PYTHON).parents[1], root=root)
    venv = Path(PYNQ_PYTHON).parents[1]
    plain = ["--without-pip", "--system-site-packages"]
    _call("python3", "-m", "venv", *plain, venv, root=root)
    site = next((root / venv.relative_to("/")).glob("lib/python3*/site-packages"))
    for wheel in (root / "usr/share/python-wheels").glob("pip-*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    _call(PYNQ_PYTHON, "-c", "import pip._internal.commands.install", root=root)
    # On a board it belongs to root, reached with sudo; but a program that qemu runs is not given
    # the rights of its set-user-ID bit.
    _call("chown", "-R", f"{USER_ID}:{USER_ID}", root / venv.relative_to("/"))
