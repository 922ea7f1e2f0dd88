"""
`cleave-run`: run the programs of a module on the CPU, and compare two modules.

Modules of `alg`, `sched` and `tt` can be run; TTIR and Triton Python cannot. Inputs are random (with a seed), constant, or read
from an .npz file by name. Two modules agree within --tolerance, by default 1e-6 where both run in f64, else what rounding to the
narrowest float of arguments and results allows (1e-3 for f16, 8e-3 for bf16, 2e-5 for f32), as when candidates are tuned; integers
have to be the same.
Exit codes: 0 fine, 1 a mistake in a program or a difference above the tolerance, 2 a mistake in the command line.
"""

from __future__ import annotations

import argparse
import io
import sys
import zipfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, cast, get_args

import numpy as np
from xdsl.context import Context
from xdsl.universe import XDSL_UNIVERSE

from cleave import __version__
from cleave.errors import CleaveError
from cleave.execution import Array, Precision, Runnable, Slot, runnables
from cleave.extents import sizes_of
from cleave.files import check, end_quietly, read, told, write
from cleave.layouts import layout_axes, without_axes
from cleave.modules import modules_of
from cleave.parsing import parse_module, verify
from cleave.reference.dtypes import TOLERANCES, rounded
from cleave.universe import CLEAVE_UNIVERSE

_SHOWN_IN_FULL = 64
_EXACT = 1e-6
_DIGITS = 18
_ELEMENTS = 2**60
"""Arrays of so many float64 cannot be addressed."""
_ONE_MODULE = "run one by --module, of which 0 is the first; what --compare names has one"


class UsageError(ValueError):
    """A mistake in the command line."""


@dataclass(frozen=True)
class Inputs:
    """Where inputs come from: `source` is `random`, a number for all elements, or the path of an .npz file."""

    source: str
    seed: int

    @cached_property
    def file(self) -> dict[str, Array]:
        """The arrays of the .npz file. Raises: CleaveError, OSError."""
        return _archive(self.source)

    def check(self, programs: Sequence[Runnable]) -> None:
        """Raises: CleaveError for an .npz file with an array that no input of the programs takes, OSError."""
        if not self.source.endswith(".npz"):
            return
        known = list(dict.fromkeys(slot.name for program in programs for slot in program.inputs))
        unused = sorted(set(self.file) - set(known))
        if unused:
            raise CleaveError(self.source, f"no input takes the array '{unused[0]}'", f"the inputs are {', '.join(known) or 'none'}")

    def arrays(self, program: Runnable, sizes: Mapping[str, int]) -> list[Array]:
        """One array for each input, holding only values of its dtype. Raises: CleaveError, OSError, UsageError."""
        for slot in program.inputs:
            elements = prod(program.shape(slot, sizes))
            if elements >= _ELEMENTS:
                raise UsageError(f"input '{slot.name}' of @{program.name} would have {elements} elements; give smaller --dims")
        if self.source == "random":
            draw = np.random.default_rng(self.seed)
            return [_random(draw, slot.dtype, program.shape(slot, sizes)) for slot in program.inputs]
        if self.source.endswith(".npz"):
            with in_file(self.source):
                return [_chosen(self.file, slot, program.shape(slot, sizes)) for slot in program.inputs]
        try:
            value = float(self.source)
        except ValueError:
            raise UsageError(f"--inputs '{self.source}' is neither random, a number nor an .npz file") from None
        return [_held(np.full(program.shape(slot, sizes), value), slot.dtype) for slot in program.inputs]


@contextmanager
def in_file(path: str) -> Generator[None]:
    """Places errors that have no place in a file. Raises: CleaveError."""
    try:
        yield
    except CleaveError as error:
        if error.place:
            raise
        raise CleaveError(_spelled(path), error.found, error.advice, error.op) from error


def _spelled(path: str) -> str:
    return "stdin" if path == "-" else path


def _random(draw: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    if dtype == "i1":
        return draw.integers(0, 2, shape).astype(np.bool_)
    if dtype.startswith("i"):
        return draw.integers(0, 8, shape)
    return _held(draw.standard_normal(shape), dtype)


def _held(values: Array, dtype: str) -> Array:
    if dtype == "i1":
        return values.astype(np.bool_)
    if not dtype.startswith("i"):
        return rounded(values.astype(np.float64), dtype)
    with np.errstate(invalid="ignore"):
        whole = values.astype(np.int64)
    if not np.array_equal(whole, values):
        raise CleaveError(None, f"an input of {dtype} is given values that are not whole numbers", "give whole numbers in an .npz file")
    return whole


def _archive(path: str) -> dict[str, Array]:
    """The arrays of an .npz file. Raises: CleaveError for a file that is none or is damaged, OSError."""
    try:
        with np.lib.npyio.NpzFile(io.BytesIO(read(path))) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise CleaveError(path, "not an .npz file of numbers", "write arrays by name with numpy.savez") from error


def _chosen(file: Mapping[str, Array], slot: Slot, shape: tuple[int, ...]) -> Array:
    if slot.name not in file:
        raise CleaveError(None, f"the file has no array '{slot.name}'", f"it has {', '.join(sorted(file)) or 'none'}")
    array = file[slot.name]
    if array.dtype.kind not in "biuf":
        raise CleaveError(None, f"array '{slot.name}' is {array.dtype}, which is not real numbers", f"the program takes {slot.dtype}")
    if array.shape != shape:
        raise CleaveError(None, f"array '{slot.name}' is {list(array.shape)}, layout '{slot.layout}' makes it {list(shape)}")
    return _held(array, slot.dtype)


def loaded(path: str, alternative: int, position: int | None = None) -> tuple[Runnable, ...]:
    """
    The programs of a file, or of standard input for `-`; of several modules, of the one at that position.

    Raises: CleaveError, also for several modules where no position is given; OSError; UsageError for a position that is none.
    """
    ctx = Context()
    for universe in (XDSL_UNIVERSE, CLEAVE_UNIVERSE):
        for name, dialect in universe.all_dialects.items():
            ctx.register_dialect(name, dialect)
    source = read(path)
    module = parse_module(ctx, source, _spelled(path))
    verify(module)
    modules = modules_of(module)
    if position is None and len(modules) > 1:
        raise CleaveError(module, f"the file has {len(modules)} modules", _ONE_MODULE)
    if position is not None and position >= len(modules):
        raise UsageError(f"{_spelled(path)} has no module {position}; the last is {len(modules) - 1}")
    return runnables(modules[position or 0], alternative)


def chosen(programs: Sequence[Runnable], name: str, path: str) -> tuple[Runnable, ...]:
    """The programs of a file that have a name, all for an empty one. Raises: UsageError."""
    found = tuple(program for program in programs if not name or program.name == name)
    if not found:
        names = ", ".join(program.name for program in programs)
        raise UsageError(f"no program of {_spelled(path)} is named '{name}'; there are: {names}")
    return found


def precision_of(program: Runnable, asked: Precision | None) -> Precision:
    """The precision asked for, by default float64 except for `tt`, which has only the declared one."""
    return asked or ("declared" if program.level == "tt" else "f64")


def tolerance_of(program: Runnable, precisions: Sequence[Precision]) -> float:
    """The relative error that two modules may have by default, run in these precisions."""
    if set(precisions) == {"f64"}:
        return _EXACT
    if "declared" not in precisions:
        return TOLERANCES["f32"]
    dtypes = {slot.dtype for slot in (*program.inputs, *program.outputs)}
    return max(TOLERANCES[dtype] for dtype in (*dtypes & set(TOLERANCES), "f64"))


def run(program: Runnable, inputs: Sequence[Array], sizes: Mapping[str, int], precision: Precision) -> tuple[Array, ...]:
    """The results of a program. Raises: CleaveError, saying which program failed and why."""
    try:
        with np.errstate(all="ignore"):
            return program.call(inputs, sizes, precision)
    except (ValueError, LookupError, RuntimeError) as error:
        raise CleaveError(None, f"@{program.name} ({program.level}): {error}") from error


def described(slot: Slot, value: Array, full: bool) -> str:
    """A result as text: its shape and dtype, then its elements if they are few or wanted, else what they amount to."""
    head = f"{slot.name}: {slot.dtype}{list(value.shape)} '{slot.layout}'"
    if full or value.size <= _SHOWN_IN_FULL:
        with np.printoptions(threshold=sys.maxsize, precision=6, suppress=False, linewidth=120):
            return f"{head}\n{value}"
    numbers = value.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    summary = f"min {finite.min():.6g}, max {finite.max():.6g}, mean {finite.mean():.6g}" if finite.size else "nothing finite"
    left = numbers.size - finite.size
    return f"{head}\n{summary}" + (f", {left} not finite" if left else "")


def errors(value: Array, expected: Array) -> tuple[float, float]:
    """
    The greatest absolute difference, and that over the greatest expected magnitude.

    Infinite where the shapes differ, or one has a NaN or an infinity that the other lacks. Of integers every bit counts.
    """
    if value.shape == expected.shape and all(array.dtype.kind in "biu" for array in (value, expected)):
        return _whole_errors(value, expected)
    a, b = value.astype(np.float64), expected.astype(np.float64)
    if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return float("inf"), float("inf")
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return float("inf"), float("inf")
    absolute = float(np.max(np.abs(a[finite] - b[finite]), initial=0.0))
    scale = float(np.max(np.abs(b[finite]), initial=0.0))
    return absolute, absolute / scale if scale else absolute


def _whole_errors(value: Array, expected: Array) -> tuple[float, float]:
    """The errors of integers: 0 only where all are the same, which float64 does not tell of large ones."""
    differ = np.atleast_1d(value != expected)
    pairs = zip(np.atleast_1d(value)[differ].tolist(), np.atleast_1d(expected)[differ].tolist(), strict=True)
    absolute = float(max((abs(int(a) - int(b)) for a, b in pairs), default=0))
    scale = float(np.max(np.abs(expected.astype(np.float64)), initial=0.0))
    return absolute, absolute / scale if scale else absolute


def dimensions(text: str) -> dict[str, int]:
    """Sizes written `n=300,m=4`. Raises: UsageError."""
    sizes: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, _, value = (word.strip() for word in part.partition("="))
        if not name or not (value.isascii() and value.isdigit()) or name in sizes:
            raise UsageError(f"--dims '{text}': expected name=size once for each name, found '{part}'")
        if len(value) > _DIGITS:
            raise UsageError(f"--dims: size of '{name}' has {len(value)} digits; at most {_DIGITS} are read")
        sizes[name] = int(value)
    return sizes


def natural(text: str) -> int:
    """A count or number from 0 up. Raises: argparse.ArgumentTypeError."""
    if not (text.isascii() and text.isdigit()) or len(text) > _DIGITS:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 0 up")
    return int(text)


def bound(text: str) -> float:
    """A number from 0 up. Raises: argparse.ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0 up")
    return value


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="cleave-run", description="Runs the programs of a module on the CPU.")
    parser.add_argument("--version", action="version", version=f"cleave-run {__version__}")
    parser.add_argument("file", help="module of alg, sched or tt to run, - for standard input")
    parser.add_argument("--dims", default="", help="sizes of symbols, n=300,m=4; of alg, others take their first hint")
    parser.add_argument("--inputs", default="random", help="random, a number for every element, or an .npz file with an array per name")
    parser.add_argument("--seed", type=natural, default=0, help="seed of random inputs")
    parser.add_argument("--precision", choices=get_args(Precision), help="how floats are held: f64 (default), f32, or rounded as declared")
    parser.add_argument("--module", type=natural, help="which module to run of a file that has several, from 0")
    parser.add_argument("--program", default="", help="name of the one program to run")
    parser.add_argument("--alternative", type=natural, default=0, help="which of a graph's alternatives to run")
    parser.add_argument("--print", dest="full", action="store_true", help="print every element of the results")
    parser.add_argument("--output", help="write the results to this .npz file, as result_0, result_1, ...")
    parser.add_argument("--compare", help="module to compare with, run on the same inputs; reports the errors of FILE against it")
    parser.add_argument("--tolerance", type=bound, help="greatest relative error that --compare accepts, by default that of the dtypes")
    return parser.parse_args(argv)


def execute(args: argparse.Namespace) -> int:
    """Runs what the arguments ask for and returns the exit code. Raises: CleaveError, OSError, UsageError."""
    given = dimensions(args.dims)
    if args.output is not None:
        check(args.output)
    inputs = Inputs(args.inputs, args.seed)
    asked = cast("Precision | None", args.precision)
    programs = chosen(loaded(args.file, args.alternative, args.module), args.program, args.file)
    others: Sequence[Runnable | None] = [None] * len(programs)
    if args.compare is not None:
        others = chosen(loaded(args.compare, 0), args.program, args.compare)
        if len(others) != len(programs):
            raise UsageError(f"{args.file} has {len(programs)} programs, {args.compare} has {len(others)}; choose one with --program")
    inputs.check(programs)
    accepted = True
    saved: dict[str, Any] = {}
    lines: list[str] = []
    for program, other in zip(programs, others, strict=True):
        with in_file(args.file):
            sizes = program.sizes(given if other is None else _own(given, program, other))
            arrays = inputs.arrays(program, sizes)
            results = run(program, arrays, sizes, precision_of(program, asked))
        where = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        lines.append(f"@{program.name} ({program.level})" + (f" at {where}" if where else ""))
        for value in results:
            saved[f"result_{len(saved)}"] = value
        if other is not None:
            with in_file(str(args.compare)):
                compared, within = _compared(program, results, other, arrays, sizes, given, asked, args.tolerance)
            lines += compared
            accepted &= within
            continue
        lines += [described(slot, value, args.full) for slot, value in zip(program.outputs, results, strict=True)]
    if args.output is not None:
        archive = io.BytesIO()
        np.savez(archive, **saved)
        write(args.output, archive.getvalue())
    print("\n".join(lines))
    return 0 if accepted else 1


def _own(given: Mapping[str, int], program: Runnable, other: Runnable) -> dict[str, int]:
    """The sizes of a program, where some are given for what it is compared with. Raises: CleaveError for those of neither."""
    for name in given:
        if not program.takes(name) and not other.takes(name):
            found = f"'{name}' is a symbol of neither @{program.name} nor what it is compared with"
            known = dict.fromkeys(symbol.name for symbol in (*program.symbols, *other.symbols))
            raise CleaveError(None, found, f"their symbols: {', '.join(known) or 'none'}")
    return {name: size for name, size in given.items() if program.takes(name)}


def _others(given: Mapping[str, int], sizes: Mapping[str, int], program: Runnable, other: Runnable) -> dict[str, int]:
    """Sizes for what a program is compared with: as given, else those of the program's symbols and of axes of its arguments and results."""
    extents = sizes_of(program.extents, sizes)
    laid = {axis for slot in (*program.inputs, *program.outputs) for axis in layout_axes(slot.layout)}
    known = {**{axis: extents[axis] for axis in laid}, **sizes}
    symbols = {symbol.name for symbol in other.symbols}
    return {
        **{name: size for name, size in known.items() if name in symbols},
        **{name: size for name, size in given.items() if other.takes(name)},
    }


def _laid_out(program: Runnable, sizes: Mapping[str, int]) -> list[tuple[str, str, str]]:
    """The name, dtype and layout of arguments and results; layouts without axes of size 1, as where these were folded away."""
    unit = {name for name, size in sizes_of(program.extents, sizes).items() if size == 1}
    return [(slot.name, slot.dtype, without_axes(slot.layout, unit)) for slot in (*program.inputs, *program.outputs)]


def _difference(ours: Sequence[tuple[str, str, str]], theirs: Sequence[tuple[str, str, str]]) -> str:
    if len(ours) != len(theirs):
        return f"how many arguments and results they have, {len(ours)} and {len(theirs)}"
    one, other = next(pair for pair in zip(ours, theirs, strict=True) if pair[0][1:] != pair[1][1:])
    return f'\'{one[0]}\', which is {one[1]} "{one[2]}" in one and {other[1]} "{other[2]}" in the other'


def _compared(
    program: Runnable,
    results: Sequence[Array],
    other: Runnable,
    arrays: Sequence[Array],
    sizes: Mapping[str, int],
    given: Mapping[str, int],
    asked: Precision | None,
    tolerance: float | None,
) -> tuple[list[str], bool]:
    """Lines with the errors of the results against another program on the same inputs; true if all are within the tolerance."""
    others = other.sizes(_others(given, sizes, program, other))
    ours, theirs = _laid_out(program, sizes), _laid_out(other, others)
    if [entry[1:] for entry in ours] != [entry[1:] for entry in theirs]:
        raise CleaveError(None, f"@{program.name} and @{other.name} differ in {_difference(ours, theirs)}", "compare what takes the same")
    precision = precision_of(other, asked)
    expected = run(other, arrays, others, precision)
    floats = tolerance_of(program, (precision_of(program, asked), precision))
    lines: list[str] = []
    accepted = True
    for slot, value, wanted in zip(program.outputs, results, expected, strict=True):
        absolute, relative = errors(value, wanted)
        allowed = tolerance if tolerance is not None else floats if slot.dtype in TOLERANCES else 0.0
        verdict = "" if relative <= allowed else f", beyond --tolerance {allowed:g}"
        lines.append(f"{slot.name}: max abs error {absolute:.3g}, max rel error {relative:.3g} against {other.level}{verdict}")
        accepted &= relative <= allowed
    return lines, accepted


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the driver on the given arguments, by default the command line's, and returns the exit code."""
    if argv is None:
        end_quietly()
    args = _arguments(argv)
    try:
        return execute(args)
    except CleaveError as error:
        print(error, file=sys.stderr)
        return 1
    except UsageError as error:
        print(f"cleave-run: error: {error}", file=sys.stderr)
    except MemoryError as error:
        print(f"cleave-run: error: {error or 'out of memory'}; give smaller --dims", file=sys.stderr)
    except OSError as error:
        print(f"cleave-run: error: {told(error)}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
