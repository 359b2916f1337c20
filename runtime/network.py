"""A compiled network, and running it on devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.config import Config
from vdla.errors import DeviceError, InputError
from vdla.module import Execute, Launch, Module, TensorInfo
from vdla.module import save as save_module
from vdla.program import Program
from vdla.runtime.device import Counters, Device
from vdla.runtime.devices import HARDWARE, PROCESSOR, open_device, parts_of
from vdla.runtime.gpu import open_gpu
from vdla.runtime.inputs import images_in, join_outputs, part_inputs
from vdla.runtime.progress import Progress, counting
from vdla.runtime.run import Answer, Run
from vdla.runtime.session import Outcome, Session, Timing, groups_of, memory_bytes
from vdla.runtime.waves import Waves

__all__ = ["Network", "Progress"]

Array = NDArray[Any]

_Opener = Callable[..., Session]
"""Opens a device for a module and the inputs of a pass, with waves if there are some."""

_MEMORY_BYTES = 256 << 20
"""What the images that run at once may take in a simulator."""


class Network:
    """A compiled network.

    Parameters
    ----------
    module : Module
        What `compile` makes and ``.vdla`` files hold.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self._session: Session | None = None

    @property
    def name(self) -> str:
        """Name of the network."""
        return self.module.name

    @property
    def config(self) -> Config:
        """The configuration it was compiled for."""
        return self.module.config

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs, in the order they run."""
        return self.module.programs

    @property
    def inputs(self) -> Mapping[str, TensorInfo]:
        """What each input takes, by name."""
        return {name: self.module.tensors[name] for name in self.module.inputs}

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one image of the first input, batch first."""
        return self.module.tensors[self.module.inputs[0]].shape

    @property
    def input_dtype(self) -> np.dtype[Any]:
        """Type of the first input."""
        return np.dtype(self.module.tensors[self.module.inputs[0]].dtype)

    @property
    def labels(self) -> tuple[str, ...]:
        """What each class is called; empty where nobody has said it."""
        return self.module.labels

    def labelled(self, labels: Sequence[str]) -> Network:
        """Return the network with names for its classes, which `save` keeps.

        Parameters
        ----------
        labels : sequence of str
            One for each score of the last output.

        Raises
        ------
        InputError
            They are not as many as the scores.
        """
        classes = prod(self.module.tensors[self.module.outputs[-1]].shape[1:])
        if len(labels) != classes:
            raise InputError(
                f"Labels must be as many as the classes of {self.name}, {classes}, not "
                f"{len(labels)}: give one a line, in the order of the scores."
            )
        return Network(replace(self.module, labels=tuple(labels)))

    @property
    def cpu_level(self) -> str | None:
        """The level of the processor that it has machine code for; None if it has none."""
        return None if self.module.native is None else self.module.native.level

    @property
    def gpu_target(self) -> str | None:
        """The language of the kernels that it has for a GPU; None if it has none."""
        return None if self.module.gpu is None else self.module.gpu.target

    @property
    def usual_device(self) -> str:
        """Where it runs if nobody says it."""
        if self.programs:
            return "cycle"
        return self.gpu_target or PROCESSOR

    @property
    def device(self) -> Device | None:
        """The device that `to` has loaded the network onto."""
        return None if self._session is None else self._session.device

    @property
    def gpu(self) -> str | None:
        """The GPU that `to` has loaded kernels of the network onto; None where it has not."""
        return None if self._session is None else self._session.host.gpu

    def save(self, path: str | Path) -> None:
        """Write the network to a ``.vdla`` file.

        Raises
        ------
        ModuleError
            The file cannot be written.
        """
        save_module(self.module, path)

    def to(self, device: str | Device, *, threads: int | None = None, pin: bool = False) -> Network:
        """Load the network onto a device, where it stays until another is named.

        Parameters
        ----------
        device : str or Device
            As `run` takes it, or an open device, which the network then owns.
        threads, pin
            As `run` takes them.

        Returns
        -------
        Network
            Itself.

        Raises
        ------
        DeviceError
            There is no such device, or the network does not fit its memory, or has no kernels for
            it.
        InputError
            There is no such number of threads.
        ModuleError
            The machine code is damaged or of another network.
        """
        self.close()
        self._check_kernels(device)
        self._session = _opened(self.module, device, threads=threads, pin=pin)
        return self

    def close(self) -> None:
        """Free the device that `to` has loaded the network onto."""
        if self._session is not None:
            session, self._session = self._session, None
            session.close()

    def __call__(self, inputs: Array | Mapping[str, Array]) -> Array | dict[str, Array]:
        """Return what the network says to images, on the device of `to`, or its usual one.

        Parameters
        ----------
        inputs : array or mapping of str to array
            As `run` takes them.

        Returns
        -------
        array or dict of str to array
            (n, ...) for (n, H, W, C), and one row for one image (H, W, C); by name, of a network
            with several outputs.
        """
        if self._session is None:
            self.to(self.usual_device)
        alone = not isinstance(inputs, Mapping) and np.ndim(inputs) == len(self.input_shape) - 1
        outputs = {
            name: array[0] if alone and self.module.per_image else array
            for name, array in self.run(inputs).outputs.items()
        }
        return next(iter(outputs.values())) if len(outputs) == 1 else outputs

    def stream(self, images: Iterable[Array]) -> Iterator[Answer]:
        """Run the network on one image after another, on the device of `to`, or its usual one.

        While the device computes, the next image is taken and packed, and the last answer unpacked.

        Parameters
        ----------
        images : iterable of array
            One image (H, W, C) each, of the input's dtype.

        Raises
        ------
        InputError
            An image has the wrong shape or dtype; the answers before it come first.
        """
        if self._session is None:
            self.to(self.usual_device)
        assert self._session is not None
        at_once = self.config.batch if self.module.per_image else 1
        source, counts = iter(images), []

        def passes() -> Iterator[Mapping[str, Array]]:
            while images := list(islice(source, at_once)):
                counts.append(len(images))
                if len(shapes := {np.shape(image) for image in images}) > 1:
                    raise InputError(
                        f"Images of a stream must have one shape, {self.input_shape[1:]}, not "
                        f"{' and '.join(map(str, sorted(shapes)))}: scale, cut or transpose them."
                    )
                yield from part_inputs(self.module, np.stack(images), at_once)[0]

        for outcome in self._session.stream(passes()):
            outputs = self._outputs(outcome)
            count = counts.pop(0)
            for index in range(count):
                rows = {
                    name: array[index] if self.module.per_image else array
                    for name, array in outputs.items()
                }
                yield Answer(rows, outcome.counters, outcome.timing, count, outcome.clock_mhz)

    def run(
        self,
        inputs: Array | Mapping[str, Array],
        *,
        device: str | None = None,
        check: bool = False,
        progress: Progress | None = None,
        max_images_at_once: int | None = None,
        waves: Waves | None = None,
        threads: int | None = None,
        pin: bool = False,
    ) -> Run:
        """Run the network on images.

        Parameters
        ----------
        inputs : array or mapping of str to array
            One image (H, W, C) or several (n, H, W, C), of the input's dtype. An input of another
            shape than (1, ...) comes in that shape, or with n on an axis before it.
        device : str, optional
            ``functional``: results only; ``cycle``: results and exact timing; ``rtl``: the
            gateware, simulated; ``pynq``: the board; ``cpu``: the processor alone, for a network
            with nothing on the accelerator; ``opencl`` or ``cuda``: a GPU alone, or with a part of
            its name, ``opencl:pocl``; ``cycle+opencl:pocl``: that GPU beside an accelerator. By
            default the device of `to`, or the cycle model, or where nothing is on the accelerator
            the GPU that the network has kernels for, or else the processor.
        check : bool
            Compare every layer with the integer interpreter, in a second run.
        progress : callable, optional
            Called with the steps done, the steps in all, and what runs.
        max_images_at_once : int, optional
            How many images a simulator holds at a time; by default as many as 256 MiB take.
        waves : Waves, optional
            Signals of the first image's run to write; the device is ``rtl``.
        threads : int, optional
            On how many threads the processor's machine code runs, the caller's included; by
            default one a core. On the device of `to` those that were said there.
        pin : bool
            Bind each of them but the caller's to a CPU of its own.

        Raises
        ------
        InputError
            An input has the wrong shape or dtype, or there is none; waves are asked of another
            device, or a check of the device of `to`; there is no such number of threads.
        DeviceError
            There is no such device, or the network has no kernels for it.
        ModuleError
            The machine code is damaged or of another network.
        """
        if check and device is None and self._session is not None:
            raise InputError(
                "A check must open the device itself, to keep every layer in its memory, not use "
                "the one of to(): name it with device=."
            )
        self._check_kernels(device)
        at_once = self._images_at_once(device, max_images_at_once)
        parts, stacked = part_inputs(self.module, inputs, at_once)
        counts = [images_in(self.module, part) for part in parts]
        tell = counting(progress, len(parts) * self._computing_steps() * (2 if check else 1))
        outputs: list[dict[str, Array]] = []
        counters: list[Counters] = []
        timings: list[Timing] = []
        seconds, difference = 0.0, None
        clock_mhz = self.config.clock_mhz

        def opened(module: Module, part: dict[str, Array], waves: Waves | None = None) -> Session:
            groups = groups_of(images_in(module, part), module)
            name = device or self.usual_device
            return _opened(module, name, groups, waves=waves, threads=threads, pin=pin)

        resident = self._session if device is None else None
        for index, outcome in enumerate(
            self._outcomes(parts, resident or opened, tell, waves, check)
        ):
            outputs.append(self._outputs(outcome))
            counters = counters or outcome.counters
            timings.append(outcome.timing)
            clock_mhz = outcome.clock_mhz
            seconds += sum(c.cpu_seconds for c in outcome.counters)
            if check and difference is None:
                first = sum(counts[:index])
                difference = self._difference(parts[index], first, outcome, opened, tell)
        return Run(
            module=self.module,
            outputs=join_outputs(self.module, outputs, stacked),
            counters=counters,
            timings=timings,
            clock_mhz=clock_mhz,
            sim_seconds=seconds,
            passes=sum(groups_of(count, self.module) for count in counts),
            images_a_pass=min(counts[0], self.config.batch),
            bit_exact=difference is None if check else None,
            first_difference=difference,
        )

    def _outcomes(
        self,
        parts: list[dict[str, Array]],
        place: Session | _Opener,
        tell: Callable[[str], None],
        waves: Waves | None,
        check: bool,
    ) -> Iterator[Outcome]:
        """Run parts one after another, those with as many images on one device.

        Where each is checked, none is open meanwhile: the check opens its own, and a board is one.
        """
        if isinstance(place, Session):
            yield from place.stream(parts, tell)
            return
        if waves is not None:  # of the first image alone
            first, *parts = parts
            with place(self.module, first, waves) as session:
                outcome = session.run(first, progress=tell)
            yield outcome
        while check and parts:
            part, *parts = parts
            with place(self.module, part) as session:
                outcome = session.run(part, progress=tell)
            yield outcome
        while parts:
            images = images_in(self.module, parts[0])
            alike = [part for part in parts if images_in(self.module, part) == images]
            parts = parts[len(alike) :]  # the last one alone may have fewer
            with place(self.module, alike[0]) as session:
                yield from session.stream(alike, tell)

    def _difference(
        self,
        inputs: Mapping[str, Array],
        first: int,
        outcome: Outcome,
        opened: _Opener,
        tell: Callable[[str], None],
    ) -> str | None:
        """Compare layers in a run that keeps them all, and outputs in the run that was counted."""
        from vdla.compiler.reference import Interpreter
        from vdla.runtime import check

        apart = check.spread(self.module)
        with opened(apart, inputs) as session:
            kept = session.run(inputs, keep=True, progress=tell)
        interpreter = Interpreter(check.graph_of(self.module))
        rounded = {**kept.values, **outcome.values}  # of machine code only what leaves a run
        expected = interpreter.run(inputs, keep_all=True, rounded=rounded)
        found = check.first_difference(apart, kept, outcome.values, expected)
        if found is None:
            return None
        return str(found.at_image(first) if self.module.per_image else found.in_image(first))

    def _outputs(self, outcome: Outcome) -> dict[str, Array]:
        constants = {name: self.module.tensors[name].data for name in self.module.outputs}
        return {
            name: outcome.values[name] if data is None else data for name, data in constants.items()
        }

    def _images_at_once(self, device: str | None, wanted: int | None) -> int:
        if wanted is not None and wanted < 1:
            raise InputError(f"max_images_at_once must be at least 1, not {wanted}.")
        batch = self.config.batch
        if device is None and self._session is not None:
            return self._session.device.images * batch
        if device is not None and parts_of(device)[0] in HARDWARE:
            return batch
        fitting = max(1, _MEMORY_BYTES // memory_bytes(self.module)) * batch
        return fitting if wanted is None else wanted

    def _check_kernels(self, device: str | Device | None) -> None:
        gpu = parts_of(device)[1] if isinstance(device, str) else None
        if gpu is not None and self.gpu_target is None:
            raise DeviceError(
                f"A network must have kernels to run on {gpu[0]}, and {self.name} has none: "
                f"compile it with the target {gpu[0]}, or with gpu={gpu[0]!r} beside an "
                "accelerator."
            )

    def _computing_steps(self) -> int:
        return sum(isinstance(step, (Execute, Launch)) for step in self.module.steps)


def _opened(
    module: Module,
    device: str | Device,
    images: int = 1,
    *,
    waves: Waves | None = None,
    threads: int | None,
    pin: bool,
) -> Session:
    """Load a module onto what a device's name says: an accelerator, and what is beside it."""
    if not isinstance(device, str):
        return Session(module, device, threads=threads, pin=pin)
    accelerator, gpu = parts_of(device)
    beside = None if gpu is None else open_gpu(*gpu)
    opened = open_device(accelerator, module.config, images=images, waves=waves)
    return Session(
        module,
        opened,
        threads=threads,
        pin=pin,
        gpu=beside,
        without_gpu=device == PROCESSOR,
    )
