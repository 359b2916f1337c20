"""The convolution's schedule template as a search space, for whoever tunes it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from vdla.compiler.lower.nest import build_nests
from vdla.compiler.targets.vdla.build import Operator, build
from vdla.compiler.tune.features import Features, features
from vdla.compiler.tune.space import Point, Space
from vdla.compiler.tune.task import Task
from vdla.config import Config
from vdla.errors import LoweringError

from .conv2d import Conv2d, ConvTile, conv2d
from .conv_schedule import schedule_conv2d
from .records import TEMPLATE_VERSION, changed, shape_of
from .tiling import bound, candidates

__all__ = ["ConvTemplate"]


@dataclass(frozen=True)
class ConvTemplate:
    """A convolution of one shape on one accelerator.

    Parameters
    ----------
    conv : Conv2d
        As `shape_of` gives it.
    config : Config
    vthreads : int
    """

    conv: Conv2d
    config: Config
    vthreads: int = 2

    unit = "cycles"

    def __reduce__(self) -> tuple[Any, ...]:
        return ConvTemplate, (self.conv, self.config, self.vthreads)  # the space is made again

    @classmethod
    def of(cls, conv: Conv2d, config: Config, vthreads: int = 2) -> ConvTemplate:
        """Return the template of a convolution, less what its time does not depend on."""
        return cls(shape_of(conv), config, vthreads)

    @cached_property
    def task(self) -> Task:
        """The key of its records."""
        config = self.config
        target = {
            "kind": "vdla",
            "config": f"{config.hash:016x}",
            "dram_latency_cycles": config.dram_latency_cycles,
            "dram_pace": list(config.dram_pace),
            "vthreads": self.vthreads,
        }
        return Task("conv2d", TEMPLATE_VERSION, changed(self.conv), target)

    @cached_property
    def space(self) -> Space:
        """Every tile that fits the scratchpads."""
        return Space(asdict(tile) for tile in candidates(self.conv, self.config, self.vthreads))

    def prior(self, point: Point) -> float:
        """Return an analytic estimate of a point's cycles."""
        return bound(self.conv, _tile(point), self.config)

    def features(self, point: Point) -> Features | None:
        """Return what a cost model sees of a point, None where it cannot be lowered."""
        try:
            return features(build_nests(self._scheduled(point)[0]).body)
        except LoweringError:
            return None

    def build(self, point: Point) -> Operator:
        """Return a point as a program.

        Raises
        ------
        LoweringError
            It does not fit, or cannot be lowered.
        """
        schedule, tensors = self._scheduled(point)
        return build(schedule, tensors.arguments, self.config)

    def _scheduled(self, point: Point) -> tuple[Any, Any]:
        tensors = conv2d(self.conv, self.config)
        return schedule_conv2d(tensors, _tile(point), self.config), tensors


def _tile(point: Point) -> ConvTile:
    return ConvTile(**point)  # type: ignore[arg-type]
