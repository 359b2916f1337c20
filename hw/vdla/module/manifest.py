"""A module as a JSON object and a list of arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.config import Config
from vdla.program import Program

from .gpu import Gpu, GpuArgument, GpuCall, GpuKernel, GpuRegion, GpuRun
from .native import Native, NativeRun
from .parts import (
    Buffer,
    Execute,
    Launch,
    Layer,
    MemoryUse,
    Module,
    Pack,
    PlacedLayer,
    Relayout,
    Segment,
    Step,
    TensorInfo,
    Unpack,
)

__all__ = ["from_manifest", "to_manifest"]

Array = NDArray[Any]

_ARRAY = "array"
"""The one key of the object that stands for an array, with its number."""

_STEPS: dict[str, type[Pack | Unpack | Relayout | Execute | Launch]] = {
    "pack": Pack,
    "unpack": Unpack,
    "relayout": Relayout,
    "execute": Execute,
    "launch": Launch,
}
_STEP_NAMES = {kind: name for name, kind in _STEPS.items()}


@dataclass
class _Writer:
    arrays: list[Array] = field(default_factory=list)

    def value(self, value: Any) -> Any:
        """Return what JSON can hold: arrays by number, numpy's numbers as Python's."""
        if isinstance(value, np.ndarray):
            self.arrays.append(value)
            return {_ARRAY: len(self.arrays) - 1}
        if isinstance(value, Mapping):
            return {str(key): self.value(item) for key, item in value.items()}
        if isinstance(value, (tuple, list)):
            return [self.value(item) for item in value]
        return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class _Reader:
    arrays: Sequence[Array]

    def value(self, value: Any) -> Any:
        """Undo `_Writer.value`; lists become tuples."""
        if isinstance(value, dict):
            if value.keys() == {_ARRAY}:
                return self.arrays[value[_ARRAY]]
            return {key: self.value(item) for key, item in value.items()}
        return tuple(map(self.value, value)) if isinstance(value, list) else value


def to_manifest(module: Module) -> tuple[dict[str, Any], list[Array]]:
    """Return a module as a JSON object, and the arrays that it names by number."""
    writer = _Writer()
    manifest = {
        "name": module.name,
        "config": module.config.to_dict(),
        "config_hash": f"{module.config.hash:016x}",
        "inputs": module.inputs,
        "outputs": module.outputs,
        "tensors": [vars(tensor) for tensor in module.tensors.values()],
        "layers": [vars(layer) for layer in module.layers],
        "steps": [{"kind": _STEP_NAMES[type(step)], **asdict(step)} for step in module.steps],
        "programs": [
            {
                "instructions": program.instructions,
                "labels": program.labels,
                "layer_of": program.layer_of.astype(np.int32),
            }
            for program in module.programs
        ],
        "buffers": [asdict(buffer) for buffer in module.buffers],
        "segments": [vars(segment) for segment in module.segments],
        "arena_bytes": module.arena_bytes,
        "memory": asdict(module.memory),
        "per_image": module.per_image,
        "labels": module.labels,
        "native": None if module.native is None else _from_native(module.native),
    }
    if module.gpu is not None:
        manifest["gpu"] = _from_gpu(module.gpu)
    return writer.value(manifest), writer.arrays


def from_manifest(manifest: Mapping[str, Any], arrays: Sequence[Array]) -> Module:
    """Undo `to_manifest`.

    Raises
    ------
    KeyError, TypeError, IndexError, VdlaError
        Something is missing or of the wrong kind.
    """
    config = Config.from_dict(manifest["config"])
    found = _Reader(arrays).value({k: v for k, v in manifest.items() if k != "config"})
    programs = tuple(
        Program(
            config,
            p["instructions"].astype(np.uint64, copy=False),
            p["labels"],
            p["layer_of"].astype(np.int64),
        )
        for p in found["programs"]
    )
    return Module(
        name=found["name"],
        config=config,
        tensors={t["name"]: TensorInfo(**t) for t in found["tensors"]},
        layers=tuple(Layer(**layer) for layer in found["layers"]),
        inputs=found["inputs"],
        outputs=found["outputs"],
        steps=tuple(map(_step, found["steps"])),
        programs=programs,
        buffers=tuple(Buffer(**b) for b in found["buffers"]),
        segments=tuple(Segment(**s) for s in found["segments"]),
        arena_bytes=found["arena_bytes"],
        memory=MemoryUse(**found["memory"]),
        per_image=found["per_image"],
        labels=found["labels"],
        native=None if found["native"] is None else _to_native(found["native"]),
        gpu=_to_gpu(found["gpu"]) if "gpu" in found else None,
    )


def _step(values: dict[str, Any]) -> Step:
    values = dict(values)
    kind = _STEPS[values.pop("kind")]
    if kind is Launch:
        values["layers"] = tuple(PlacedLayer(**layer) for layer in values["layers"])
    return kind(**values)


def _from_native(native: Native) -> dict[str, Any]:
    return {
        "level": native.level,
        "library": np.frombuffer(native.library, np.uint8),
        "constants": native.constants,
        "runs": [asdict(run) for run in native.runs],
    }


def _to_native(values: dict[str, Any]) -> Native:
    return Native(
        level=values["level"],
        library=values["library"].tobytes(),
        constants=values["constants"],
        runs=tuple(NativeRun(**run) for run in values["runs"]),
    )


def _from_gpu(gpu: Gpu) -> dict[str, Any]:
    return {
        "target": gpu.target,
        "kernels": [asdict(kernel) for kernel in gpu.kernels],
        # Pairs, for a tensor may be called what stands for an array.
        "runs": [
            {
                **vars(run),
                "calls": [asdict(call) for call in run.calls],
                "constants": list(run.constants.items()),
                "regions": [(name, asdict(region)) for name, region in run.regions.items()],
            }
            for run in gpu.runs
        ],
    }


def _to_gpu(values: dict[str, Any]) -> Gpu:
    return Gpu(
        target=values["target"],
        kernels=tuple(map(_to_gpu_kernel, values["kernels"])),
        runs=tuple(map(_to_gpu_run, values["runs"])),
    )


def _to_gpu_kernel(values: dict[str, Any]) -> GpuKernel:
    arguments = tuple(GpuArgument(**one) for one in values["arguments"])
    return GpuKernel(**{**values, "arguments": arguments})


def _to_gpu_run(values: dict[str, Any]) -> GpuRun:
    made = {
        "calls": tuple(GpuCall(**one) for one in values["calls"]),
        "constants": dict(values["constants"]),
        "regions": {name: GpuRegion(**one) for name, one in values["regions"]},
    }
    return GpuRun(**{**values, **made})
