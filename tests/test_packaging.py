"""The package as others get it: listed completely, installed cleanly, light to import."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import vdla

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]
PACKAGE_DIRS: dict[str, str] = SETUPTOOLS["package-dir"]

# Distributions whose name is not the name that is imported.
IMPORTED_AS = {"pillow": "PIL", "pyyaml": "yaml", "scikit-learn": "sklearn"}
# Distributions that are run, not imported: where, and by which words.
RUN_BY = {
    "nbstripout": (".pre-commit-config.yaml", "entry: nbstripout"),
    "build": ("tests/test_packaging.py", '"-m", "build"'),
    "codespell": ("pyproject.toml", '["codespell"]'),
    "mypy": ("pyproject.toml", '["mypy"]'),
    "pre-commit": (".github/CONTRIBUTING.md", "`pre-commit install`"),
    "pytest-xdist": ("README.md", "pytest -n auto"),
    "ruff": ("pyproject.toml", '["ruff", "check"]'),
    "tox": (".ci/run", "tox"),
}


def packages_on_disk() -> list[str]:
    found = []
    for package, directory in PACKAGE_DIRS.items():
        for marker in (ROOT / directory).rglob("__init__.py"):
            below = marker.parent.relative_to(ROOT / directory).parts
            found.append(".".join([package, *below]))
    return sorted(found)


def test_every_package_on_disk_is_listed() -> None:
    assert SETUPTOOLS["packages"] == packages_on_disk()


def test_every_directory_with_modules_is_a_package() -> None:
    missing = [
        str(module.parent.relative_to(ROOT))
        for directory in PACKAGE_DIRS.values()
        for module in (ROOT / directory).rglob("*.py")
        if not (module.parent / "__init__.py").exists()
    ]
    assert missing == []


def requirement_names(requirements: list[str]) -> list[str]:
    names = (re.match(r"[A-Za-z0-9._-]+", text) for text in requirements)
    return [name[0] for name in names if name and name[0] != "vdla"]


def imported_modules(paths: list[Path]) -> set[str]:
    found = set()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found.update(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found


def test_every_dependency_is_used() -> None:
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    shipped = [p for directory in PACKAGE_DIRS.values() for p in (ROOT / directory).rglob("*.py")]
    used = imported_modules(shipped)
    wanted = requirement_names(project["dependencies"] + extras["flash"] + extras["host"])
    assert [name for name in wanted if IMPORTED_AS.get(name, name) not in used] == []

    used_by_tests = imported_modules(list((ROOT / "tests").rglob("*.py")))
    for name in requirement_names(extras["lint"] + extras["dev"]):
        if name in RUN_BY:
            file, words = RUN_BY[name]
            assert words in (ROOT / file).read_text(encoding="utf-8")
        else:
            assert IMPORTED_AS.get(name, name) in used_by_tests, (
                f"{name} is required and used nowhere"
            )


def test_every_dependency_has_its_reason_beside_it() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if re.match(r'    "[a-z0-9._-]+ ?[><=]', line)]
    assert len(lines) >= 8
    assert [line for line in lines if "  # " not in line] == []


def run_python(code: str, *, python: str = sys.executable, cwd: Path | None = None) -> str:
    result = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, cwd=cwd, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_importing_vdla_loads_nothing_heavier_than_numpy() -> None:
    code = (
        "import sys, vdla\n"
        "names = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(names - set(sys.stdlib_module_names)))"
    )
    loaded = set(ast.literal_eval(run_python(code)))
    private = {name for name in loaded if name.startswith("_")}  # editable finders and the like
    assert loaded - private <= {"numpy", "vdla"}


@pytest.mark.parametrize("module", ["vdla.config", "vdla.sim", "vdla.runtime.cli.app"])
def test_light_modules_stay_light(module: str) -> None:
    code = f"import sys, {module}; print(sorted(sys.modules))"
    loaded = {name.partition(".")[0] for name in ast.literal_eval(run_python(code))}
    assert loaded & {"numba", "llvmlite", "onnx", "pandas", "tflite", "PIL", "scipy"} == set()


def test_public_names_are_listed_and_sorted() -> None:
    assert vdla.__all__ == sorted(vdla.__all__, key=lambda name: (not name.isupper(), name))
    assert set(vdla.__all__) <= set(dir(vdla))


def test_lazy_names_are_the_objects_of_their_modules() -> None:
    from vdla.config import PYNQ_Z1, Config

    assert vdla.Config is Config
    assert vdla.PYNQ_Z1 is PYNQ_Z1


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'vdla' has no attribute 'PYNQ_Z9'"):
        _ = vdla.PYNQ_Z9


def test_the_package_is_installed_with_its_type_marker() -> None:
    spec = find_spec("vdla")
    assert spec is not None
    assert spec.origin is not None
    assert Path(spec.origin).with_name("py.typed").exists()


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Build a wheel from the tree, and one from an sdist of the tree, away from the tree."""
    folder = tmp_path_factory.mktemp("wheels")
    tree = folder / "tree"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    ).stdout
    for name in filter(None, listed.splitlines()):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tree / name)

    def build(where: str, *arguments: str) -> Path:
        command = [sys.executable, "-m", "build", "--outdir", str(folder / where), *arguments]
        result = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        return next((folder / where).glob("*.whl"))

    return {
        "wheel": build("direct", "--wheel", str(tree)),
        "wheel from the sdist": build("through-sdist", str(tree)),
    }


@pytest.mark.slow
@pytest.mark.parametrize("which", ["wheel", "wheel from the sdist"])
def test_the_wheel_holds_every_module_and_nothing_beside_vdla(
    wheels: dict[str, Path], which: str
) -> None:
    with zipfile.ZipFile(wheels[which]) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names} == {
        "vdla",
        f"vdla-{vdla.__version__}.dist-info",
    }
    expected = set()
    for package, patterns in SETUPTOOLS["package-data"].items():
        top = max((p for p in PACKAGE_DIRS if f"{package}.".startswith(f"{p}.")), key=len)
        folder = Path(PACKAGE_DIRS[top], *package.removeprefix(top).strip(".").split("."))
        base = ROOT / folder
        found = {str(p.relative_to(base)) for pattern in patterns for p in base.glob(pattern)}
        assert found, f"package-data of {package} names no file"
        expected |= {f"{package.replace('.', '/')}/{name}" for name in found}
    assert "vdla/py.typed" in expected
    for package, directory in PACKAGE_DIRS.items():
        for module in (ROOT / directory).rglob("*.py"):
            expected.add(f"{package.replace('.', '/')}/{module.relative_to(ROOT / directory)}")
    assert {name for name in names if ".dist-info/" not in name} == expected


@pytest.mark.slow
@pytest.mark.parametrize("which", ["wheel", "wheel from the sdist"])
def test_an_installed_wheel_imports(wheels: dict[str, Path], which: str, tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--target", str(site), str(wheels[which])], check=True)
    modules = list(PACKAGE_DIRS)
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r})\n"
        f"import {', '.join(modules)}\n"
        f"print([sys.modules[name].__file__ for name in {modules!r}])"
    )
    for origin in ast.literal_eval(run_python(code)):
        assert Path(origin).is_relative_to(site)


def test_the_editable_install_finds_every_package() -> None:
    missing = [name for name in SETUPTOOLS["packages"] if find_spec(name) is None]
    assert missing == []
