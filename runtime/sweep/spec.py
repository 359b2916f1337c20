"""What a sweep is to do, read from TOML or given as a dict, and checked before anything runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.config import Config, named
from vdla.errors import InputError

from .axes import MOST_INTEGER, MOST_POINTS, Axis, Span, read_axis, short

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from vdla.compiler.graph import Graph

__all__ = ["MAXIMIZED", "MINIMIZED", "SAMPLES", "Spec", "read_spec"]

SAMPLES = ("random", "latin-hypercube")
"""How points may be drawn."""

MINIMIZED = (
    "cycles",
    "milliseconds",
    "dram_bytes",
    "lut",
    "ff",
    "dsp",
    "bram36",
    "energy_mj_model",
)
MAXIMIZED = ("frames_per_second", "mac_utilization")
"""Columns of the table that may be a study's objective."""

_KEYS = {"networks", "config", "bind", "seed", "check", "axes", "sample", "study"}


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A sweep.

    Attributes
    ----------
    networks : dict of str to (str, Path or Graph)
        By the name that the table gives them.
    configs : tuple of Config
        What the axes change.
    bind : dict of str to int
        Sizes of open dimensions of ONNX files.
    axes : tuple of Axis
    seed : int
        Of samples, studies and the noise that runs through a network.
    check : bool
        Whether every layer is compared with the integer interpreter.
    sample : str or None
        One of `SAMPLES`; a whole grid, or a study, without.
    count : int
        Points of a sample, trials of a study.
    objectives : tuple of str
        Of a study; none for a grid or a sample.
    together : int
        Trials that a study proposes at a time.
    """

    networks: Mapping[str, str | Path | Graph]
    configs: tuple[Config, ...]
    bind: Mapping[str, int]
    axes: tuple[Axis, ...]
    seed: int
    check: bool
    sample: str | None
    count: int
    objectives: tuple[str, ...]
    together: int


def read_spec(given: str | Path | Mapping[str, Any]) -> Spec:
    """Return a specification that keeps the rules.

    Parameters
    ----------
    given : str, Path or mapping
        A TOML file, or what such a file would hold. Files that it names are sought from the
        file's folder. In a mapping, networks may be graphs and configurations objects.

    Raises
    ------
    InputError
        Names what is wrong, and what it should be.
    ConfigError
        There is no such configuration, or its file breaks a rule.
    """
    folder = Path()
    if not isinstance(given, Mapping):
        path = Path(given)
        folder, given = path.parent, _parsed(path)
    unknown = sorted(given.keys() - _KEYS)
    if unknown:
        raise InputError(
            f"A sweep must be described by {', '.join(sorted(_KEYS))}, not {unknown[0]!r}: what "
            "varies belongs under [axes]."
        )
    if "sample" in given and "study" in given:
        raise InputError(
            "A sweep must be a sample or a study, not both: leave [sample] or [study] out."
        )
    axes = _axes(given.get("axes", {}))
    sample, count = _sample(given.get("sample"))
    objectives, trials, together = _study(given.get("study"))
    if sample is None and not objectives:
        _check_grid(axes)
    return Spec(
        networks=_networks(given.get("networks"), folder),
        configs=_configs(given.get("config", "PYNQ_Z1"), folder),
        bind=_table("bind", given.get("bind", {})),
        axes=axes,
        seed=_whole("seed", given.get("seed", 0), 0),
        check=_flag("check", given.get("check", False)),
        sample=sample,
        count=count or trials,
        objectives=objectives,
        together=together,
    )


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"A sweep must be a readable file: {path}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"A sweep must be TOML: {path}: {error}") from None


def _networks(given: object, folder: Path) -> dict[str, str | Path | Graph]:
    listed: list[Any] = list(given) if isinstance(given, (list, tuple)) else [given]
    if given is None or not listed:
        raise InputError(
            "A sweep must name networks, not none: add, for example, networks = ['resnet18']."
        )
    found: dict[str, Any] = {}
    for network in listed:
        value: Any = network
        if isinstance(network, (str, Path)):
            text = str(network)
            name = Path(text).name
            if not name:
                raise InputError(f"A network must be a file or a name, not {text!r}: name one.")
            here = folder / text
            value = here if Path(text).suffix or here.is_file() else text
            if isinstance(value, Path) and not value.is_file():
                raise InputError(
                    f"A network must be a file that exists, not {value}: correct its name."
                )
        elif hasattr(network, "nodes") and hasattr(
            network, "tensors"
        ):  # the compiler is not loaded
            name = str(network.name)
        else:
            raise InputError(f"A network must be a file, a name or a Graph, not {network!r}.")
        if name in found:
            raise InputError(f"Networks must have different names, not {name} twice: rename one.")
        found[name] = value
    return found


def _configs(given: object, folder: Path) -> tuple[Config, ...]:
    listed = list(given) if isinstance(given, (list, tuple)) else [given]
    if not listed:
        raise InputError(
            "config must name at least one configuration, not []: leave it out for PYNQ_Z1."
        )
    found = []
    for one in listed:
        if isinstance(one, Config):
            found.append(one)
        elif isinstance(one, str) and one.endswith((".toml", ".json")):
            found.append(Config.from_toml(folder / one))
        elif isinstance(one, str):
            found.append(named(one))
        else:
            raise InputError(
                f"config must be a name or a file, not {one!r}: fields belong under [axes]."
            )
    return tuple(found)


def _axes(given: object) -> tuple[Axis, ...]:
    if not isinstance(given, Mapping):
        raise InputError(f"axes must be a table, not {given!r}: write [axes] and a line for each.")
    axes = tuple(read_axis(name, values) for name, values in given.items())
    setter: dict[str, str] = {}
    for axis in axes:
        for name in sorted(axis.sets):
            if name in setter:
                raise InputError(
                    f"One axis must set {name}, not both {setter[name]} and {axis.name}: leave it "
                    "out of one."
                )
            setter[name] = axis.name
    return axes


def _check_grid(axes: tuple[Axis, ...]) -> None:
    points = 1
    for axis in axes:
        if isinstance(axis.values, Span):
            raise InputError(
                f"An axis of a grid must have values that can be counted, and {axis.name} has only "
                "low and high: add step or powers_of_two, or draw points with [sample]."
            )
        points *= len(axis.values)
    if points > MOST_POINTS:
        raise InputError(
            f"A grid must have at most {MOST_POINTS:,} points a network, not {points:,}: draw "
            "some with [sample]."
        )


def _sample(given: object) -> tuple[str | None, int]:
    if given is None:
        return None, 0
    table = _table("sample", given, {"method", "count"})
    method = table.get("method", SAMPLES[1])
    if method not in SAMPLES:
        raise InputError(f"A sample's method must be one of {', '.join(SAMPLES)}, not {method!r}.")
    if "count" not in table:
        raise InputError("A sample must have a count of points: add, for example, count = 64.")
    return method, _whole("count", table["count"], 1, MOST_POINTS)


def _study(given: object) -> tuple[tuple[str, ...], int, int]:
    if given is None:
        return (), 0, 8
    table = _table("study", given, {"objectives", "trials", "together"})
    allowed = (*MINIMIZED, *MAXIMIZED)
    objectives = table.get("objectives", [])
    objectives = [objectives] if isinstance(objectives, str) else objectives
    if not isinstance(objectives, (list, tuple)) or not objectives:
        raise InputError(
            f"A study must have objectives, not {objectives!r}: some of {', '.join(allowed)}."
        )
    for one in objectives:
        if one not in allowed:
            raise InputError(f"An objective must be one of {', '.join(allowed)}, not {one!r}.")
        if objectives.count(one) > 1:
            raise InputError(f"A study must have each objective once, not {one} twice: drop one.")
    if "trials" not in table:
        raise InputError("A study must have a number of trials: add, for example, trials = 64.")
    trials = _whole("trials", table["trials"], 1, MOST_POINTS)
    return tuple(objectives), trials, _whole("together", table.get("together", 8), 1, MOST_POINTS)


def _table(name: str, given: object, keys: set[str] | None = None) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InputError(
            f"{name} must be a table, not {given!r}: write [{name}] and a line for each."
        )
    unknown = sorted(given.keys() - keys) if keys is not None else []
    if unknown:
        raise InputError(f"[{name}] must hold {', '.join(sorted(keys or ()))}, not {unknown[0]!r}.")
    return dict(given)


def _whole(name: str, value: object, least: int, most: int = MOST_INTEGER) -> int:
    if type(value) is not int or value < least:
        raise InputError(f"{name} must be an integer of at least {least}, not {short(value)}.")
    if value > most:
        raise InputError(f"{name} must be at most {most:,}, not {short(value)}.")
    return value


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name} must be true or false, not {value!r}.")
    return value
