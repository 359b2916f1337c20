"""Compiled files: what goes in comes out, and what is wrong with a file is said."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

import vdla
from tests.networks import residual
from vdla.compiler.network import compile_graph
from vdla.config import PYNQ_Z1, TINY, ULTRA96
from vdla.errors import ModuleError
from vdla.module import FORMAT_VERSION, Execute, Launch, Module, Pack, Unpack, load, save


@pytest.fixture(scope="module")
def module() -> Module:
    return compile_graph(residual(), TINY)


@pytest.fixture
def path(module: Module, tmp_path: Path) -> Path:
    save(module, tmp_path / "net.vdla")
    return tmp_path / "net.vdla"


def assert_same(a: object, b: object, where: str = "module") -> None:
    assert type(a) is type(b), where
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype, where
        np.testing.assert_array_equal(a, b, err_msg=where)
    elif isinstance(a, dict):
        assert sorted(a) == sorted(b), where
        for key in a:
            assert_same(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, tuple):
        assert len(a) == len(b), where
        for i, pair in enumerate(zip(a, b, strict=True)):
            assert_same(*pair, f"{where}[{i}]")
    elif hasattr(a, "__dict__"):
        assert_same(vars(a), vars(b), where)
    else:
        assert a == b, where


def test_a_module_comes_back_whole(module: Module, path: Path) -> None:
    kinds = {type(step) for step in module.steps}
    assert {Execute, Launch, Pack, Unpack} == kinds  # what the comparison is meant to cover
    assert_same(load(path), module)


def test_saving_again_gives_the_same_bytes(module: Module, path: Path, tmp_path: Path) -> None:
    save(module, tmp_path / "again.vdla")
    save(load(path), tmp_path / "reloaded.vdla")
    assert (tmp_path / "again.vdla").read_bytes() == path.read_bytes()
    assert (tmp_path / "reloaded.vdla").read_bytes() == path.read_bytes()


def test_compiling_again_gives_the_same_bytes(path: Path, tmp_path: Path) -> None:
    save(compile_graph(residual(), TINY), tmp_path / "again.vdla")
    assert (tmp_path / "again.vdla").read_bytes() == path.read_bytes()


def test_a_file_is_replaced_whole_and_nothing_is_left_beside_it(module: Module, path: Path) -> None:
    save(module, path)
    assert [p.name for p in path.parent.iterdir()] == ["net.vdla"]


def test_a_file_that_cannot_be_written(module: Module, tmp_path: Path) -> None:
    with pytest.raises(ModuleError, match="must go to a folder that can be written: .*No such"):
        save(module, tmp_path / "nowhere" / "net.vdla")


def test_a_name_that_no_file_can_have(module: Module, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModuleError, match="must go to a folder that can be written: .*Not a dir"):
        save(module, tmp_path / "file" / "net.vdla")
    with pytest.raises(ModuleError, match="must go to a folder that can be written: .*too long"):
        save(module, tmp_path / ("a" * 300))
    with pytest.raises(ModuleError, match=r"^A compiled file must have a name, not \.: name a"):
        save(module, Path())


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModuleError, match=r"must be readable: .*: No such file .*vdla compile"):
        load(tmp_path / "net.vdla")


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "a.tflite").write_bytes(b"\x1c\0\0\0TFL3 and so on")
    with pytest.raises(ModuleError, match="one that vdla compile wrote; .* is no zip archive"):
        load(tmp_path / "a.tflite")


def test_another_zip_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("letter.txt", "Dear")
    with pytest.raises(ModuleError, match=r"must hold manifest.json; .*without it"):
        load(tmp_path / "a.zip")


@pytest.mark.parametrize("kept", [0.02, 0.5, 0.9, 0.999])
def test_a_file_cut_short(path: Path, kept: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(ModuleError, match="must be whole; .* is cut short or damaged"):
        load(path)


@pytest.mark.parametrize("place", [0.05, 0.4, 0.8])
def test_a_flipped_bit_is_noticed(path: Path, place: float) -> None:
    data = bytearray(path.read_bytes())
    data[int(len(data) * place)] ^= 4
    path.write_bytes(data)
    with pytest.raises(ModuleError, match="must be whole"):
        load(path)


def rewritten(path: Path, **changes: object) -> Path:
    """Return a copy of a file with some values of its manifest changed, None to drop them."""
    source = io.BytesIO(path.read_bytes())
    target = path.with_name("changed.vdla")
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "manifest.json":
                manifest = {**json.loads(data), **changes}
                data = json.dumps({k: v for k, v in manifest.items() if v is not None}).encode()
            new.writestr(name, data)
    return target


def test_another_format_version(path: Path) -> None:
    message = (
        rf"must have format version {FORMAT_VERSION}, not 99: .* was written by vdla 7\.1, and "
        rf"this is {vdla.__version__}\. Compile the network again with this version\."
    )
    with pytest.raises(ModuleError, match=message):
        load(rewritten(path, format_version=99, vdla_version="7.1"))


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "other"},
        {"steps": None},
        {"config_hash": "0123456789abcdef"},
        {"steps": [{"kind": "dance"}]},
        {"layers": [{"name": "a"}]},
        {"config": {"block_in": 3}},
        {"segments": [{"offset": 0, "data": {"array": 12345}}]},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_manifest_that_makes_no_sense(path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(ModuleError, match="must be whole; .* is cut short or damaged"):
        load(rewritten(path, **changes))


def test_another_configuration_is_refused_field_by_field(path: Path) -> None:
    with pytest.raises(ModuleError) as caught:
        load(path, PYNQ_Z1)
    text = str(caught.value)
    assert f"is for tiny (hash {TINY.hash:016x})" in text
    assert f"not for {PYNQ_Z1.name} (hash {PYNQ_Z1.hash:016x})" in text
    assert "block_in is 4 in the file and 16 here" in text
    assert "axi_outstanding is 4 in the file and 8 here" in text
    assert "axi_data_bits" not in text  # the same in both
    assert text.endswith(f"Compile the network again for {PYNQ_Z1.name}.")


def test_another_clock_is_taken_over(path: Path) -> None:
    faster = TINY.replace(clock_mhz=250.0, dram_latency_cycles=60)
    found = load(path, faster)
    assert found.config == faster
    assert all(program.config == faster for program in found.programs)
    assert ULTRA96.hash != TINY.hash
