"""Functions that kernels call where C's operators do something else than the loop IR's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vdla.compiler.te.ranges import dtype_range

from .dialect import DIALECTS, Dialect, constant_text

__all__ = ["HELPERS", "helper_name", "helper_texts"]


@dataclass(frozen=True)
class _Helper:
    """A function.

    Attributes
    ----------
    text : str
        Its parameters and its body. ``{type}`` is the C type of its dtype, ``{bits}`` that of as
        many bits without a sign, ``{of}`` another helper of the same dtype, and ``{unless}`` what
        keeps a NaN.
    usual : str
        The dtype of which it has its plain name.
    needs : str
        The other helper.
    """

    text: str
    usual: str = "int32"
    needs: str = ""


_HELPERS: Mapping[str, _Helper] = {
    "floor_div": _Helper("({type} a, {type} b) {{ return a / b - (a % b != 0 && (a ^ b) < 0); }}"),
    "floor_mod": _Helper(
        "({type} a, {type} b) {{ return a - {of}(a, b) * b; }}", needs="floor_div"
    ),
    "least": _Helper("({type} a, {type} b) {{ return a < b{unless} ? a : b; }}", "float32"),
    "greatest": _Helper("({type} a, {type} b) {{ return a > b{unless} ? a : b; }}", "float32"),
    # Sums of integers wrap around, which C promises only of those without a sign.
    "plus": _Helper("({type} a, {type} b) {{ return ({type})(({bits})a + ({bits})b); }}"),
    "minus": _Helper("({type} a, {type} b) {{ return ({type})(({bits})a - ({bits})b); }}"),
    "times": _Helper("({type} a, {type} b) {{ return ({type})(({bits})a * ({bits})b); }}"),
    "shift_left": _Helper("({type} a, {type} n) {{ return ({type})(({bits})a << n); }}"),
    # A negative number of places is the other way.
    "shift_right": _Helper(
        "({type} a, {type} n) {{ return n < 0 ? {of}(a, -n) : a >> n; }}", needs="shift_left"
    ),
    "power": _Helper(
        "({type} a, {type} n)\n{{\n"
        "    {bits} result = 1;\n"
        "    for ({bits} base = a, left = n; left != 0; left >>= 1, base *= base)\n"
        "        if (left & 1) result *= base;\n"
        "    return ({type})result;\n}}"
    ),
}
_WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_TO_INTEGER = (
    "({source} x) {{ return x != x ? 0 : x <= {low} ? {least} : x >= {high} ? {most} : "
    "({type})x; }}"
)
"""What is a float but no integer of the dtype becomes the nearest that is, and NaN 0."""
_DTYPES = ("int32", "uint32", "int64", "uint64", "float32", "float64")

HELPERS = (
    *(f"{name}_{dtype}" for name in _HELPERS for dtype in _DTYPES),
    *_HELPERS,
    *(f"{source}_to_{dtype}" for source in ("float32", "float64") for dtype in _WHOLE),
    *(name for dialect in DIALECTS.values() for name in dialect.functions),
)
"""Names that no array or loop may have."""


def helper_name(name: str, dtype: str) -> str:
    """Return the name of a helper for a dtype."""
    return name if dtype == _HELPERS[name].usual else f"{name}_{dtype}"


def helper_texts(used: Iterable[tuple[str, str]], dialect: Dialect) -> list[str]:
    """Return the functions that were used, and those that they call, before them.

    Parameters
    ----------
    used : iterable of (str, str)
        Names and dtypes; a conversion to a dtype has the dtype that it converts for a name, and a
        function of the dialect its name for both.
    dialect : Dialect
    """
    wanted = set(used)
    for name, dtype in used:
        if name in _HELPERS and _HELPERS[name].needs:
            wanted.add((_HELPERS[name].needs, dtype))
    own = [
        text.format(helper=dialect.helper)
        for name, text in dialect.functions.items()
        if (name, name) in wanted
    ]
    order = [(name, dtype) for name in _HELPERS for dtype in _DTYPES]
    order += [(source, dtype) for source in ("float32", "float64") for dtype in _WHOLE]
    return [*(_text(*one, dialect) for one in order if one in wanted), *own]


def _text(name: str, dtype: str, dialect: Dialect) -> str:
    kind = dialect.type_of(dtype)
    if name not in _HELPERS:
        least, most = dtype_range(dtype)
        suffix = "f" if name == "float32" else ""
        body = _TO_INTEGER.format(
            source=dialect.type_of(name),
            type=kind,
            low=f"{float(least)!r}{suffix}",
            high=f"{float(most + 1)!r}{suffix}",
            least=constant_text(least, dtype, dialect),
            most=constant_text(most, dtype, dialect),
        )
        return f"{dialect.helper}{kind} {name}_to_{dtype}{body}"
    helper = _HELPERS[name]
    bits = dialect.type_of(f"u{dtype.lstrip('u')}") if "int" in dtype else ""
    other = helper_name(helper.needs, dtype) if helper.needs else ""
    return f"{dialect.helper}{kind} {helper_name(name, dtype)}" + helper.text.format(
        type=kind, bits=bits, of=other, unless="" if bits else " || a != a"
    )
