"""
`cleave-opt`: read IR, run passes, print IR or a target's text.

The options are those of `xdsl-opt`, with MLIR's `--pass-pipeline` and `--list-passes`. Mistakes in a program are one line
`file:line:col: error: op: ...` on standard error, under `--verify-diagnostics` on standard output. Output is written only
when all of it is known. Exit codes: 0 fine, 1 a mistake in a program, 2 a mistake in the command line.

`--verify-equivalent other.mlir` prints no IR but whether the graphs that the passes leave compute what those of the other file
compute. Exit codes: 0 they do, 1 they do not, and a small counterexample is printed, 2 undecided, or not to be compared.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import os
import shutil
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.printer import Printer
from xdsl.targets.mlir import MLIRTarget
from xdsl.universe import XDSL_UNIVERSE, Universe
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ShrinkException
from xdsl.utils.target import Target
from xdsl.xdsl_opt_main import xDSLOptMain

import cleave
from cleave import __version__
from cleave.errors import CleaveError, internal_error
from cleave.files import check, end_quietly, read, told, write
from cleave.parsing import parse_module, verify
from cleave.pipelines import PipelineError, build, made, mlir_specs, options_of, spec, specs, summary_of
from cleave.universe import CLEAVE_UNIVERSE

_SEPARATOR = "// -----"
_SEARCH = "alg-superoptimize"
_SCHEDULING = "convert-alg-to-sched"
_PRINT_OTHERWISE = "print the module with -t mlir, triton or ttir"


class _Once(argparse.Action):
    """Takes the value of an option that may be given once, as only one file can be meant. Raises: PipelineError."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        if getattr(namespace, self.dest) is not None:
            raise PipelineError(f"{option_string} is given more than once; give it once, with one file")
        setattr(namespace, self.dest, values)


class CleaveOpt(xDSLOptMain):
    """xDSL's driver with Cleave's dialects, passes and targets, MLIR's pipelines and located errors."""

    passes: tuple[ModulePass, ...] = ()
    version_format = f"cleave-opt {__version__} (xDSL {{xdsl_version}})"

    def register_all_dialects(self) -> None:
        for universe in _universes():
            for name, dialect in universe.all_dialects.items():
                self.ctx.register_dialect(name, dialect)

    def register_all_frontends(self) -> None:
        for universe in _universes():
            self.available_frontends.update(universe.all_frontends)

    def register_all_passes(self) -> None:
        for universe in _universes():
            self.available_passes.update(universe.all_passes)

    def register_all_targets(self) -> None:
        for universe in _universes():
            self.available_targets.update(universe.all_targets)

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        arg_parser.prog = "cleave-opt"
        arg_parser.add_argument("--pass-pipeline", default="", help="passes in MLIR's form, builtin.module(a{x=4 y=f},b)")
        arg_parser.add_argument(
            "--verify-equivalent",
            metavar="FILE",
            action=_Once,
            help="say whether the graphs after the passes compute what those of FILE do: exit code 0 yes, 1 no, 2 undecided",
        )
        arg_parser.add_argument(
            "--emit-egraph",
            metavar="FILE",
            action=_Once,
            help="write the classes that alg-superoptimize finds, with all their forms: JSON, or dot for Graphviz if FILE ends in .dot",
        )
        arg_parser.add_argument(
            "--explain", default=False, action="store_true", help="print why convert-alg-to-sched chose the schedule, beside the next best"
        )
        arg_parser.add_argument("--list-passes", default=False, action="store_true", help="print each pass with its options and exit")

    def setup_pipeline(self) -> None:
        if self.args.passes and self.args.pass_pipeline:
            raise PipelineError("-p and --pass-pipeline exclude each other")
        wanted = mlir_specs(self.args.pass_pipeline) if self.args.pass_pipeline else specs(self.args.passes)
        self.passes = build(self.available_passes, wanted)
        if any(entry.name in XDSL_UNIVERSE.all_passes for entry in self.passes):
            _offer_mlir_opt()
        if self.args.emit_egraph is not None:
            if self.args.split_input_file:
                raise PipelineError("--emit-egraph and --split-input-file exclude each other")
            self._set("--emit-egraph", _SEARCH, emit_egraph=self.args.emit_egraph)
        if self.args.explain:
            self._set("--explain", _SCHEDULING, explain=True)

    def _set(self, option: str, wanted: str, **values: object) -> None:
        """Gives the passes of a name options of theirs. Raises: PipelineError where there are none."""
        if not any(entry.name == wanted for entry in self.passes):
            raise PipelineError(f"{option} needs {wanted} among the passes")
        self.passes = tuple(dataclasses.replace(entry, **values) if entry.name == wanted else entry for entry in self.passes)

    def execute(self) -> int:
        """Reads, transforms and prints every chunk of the input; returns the exit code. Raises: OSError, PipelineError."""
        if self.args.list_passes:
            print(self.list_passes())
            return 0
        if self.args.verify_equivalent is not None:
            return self.compared(Path(self.args.verify_equivalent))
        self.target()
        check(self.args.output_file or "-")
        out: list[str] = []
        failed = False
        for text, first_line in self.chunks():
            try:
                out.append(self.processed(text, first_line))
            except CleaveError as error:
                if self.args.verify_diagnostics or self.args.parsing_diagnostics:
                    out.append(f"{error}\n")
                else:
                    print(error, file=sys.stderr)
                    failed = True
            except ShrinkException:
                print("Success, can shrink")
                return 0
        if failed or self.args.shrink:
            return 1
        text = f"{_SEPARATOR}\n".join(out)
        write(self.args.output_file or "-", text.encode())
        return 0

    def chunks(self) -> list[tuple[bytes, int]]:
        """The input's chunks, each with the number of its first line. Raises: OSError."""
        name = self.args.input_file
        source = read(name or "-")
        if not self.args.split_input_file:
            return [(source, 1)]
        chunks: list[tuple[bytes, int]] = []
        line = 1
        for chunk in source.split(_SEPARATOR.encode()):
            chunks.append((chunk, line))
            line += chunk.count(b"\n")
        return chunks

    def compared(self, other: Path) -> int:
        """Prints whether the module computes what another file does; returns the exit code. Raises: OSError, PipelineError."""
        from cleave.bridge.comparison import compared

        if self.args.split_input_file:
            raise PipelineError("--verify-equivalent and --split-input-file exclude each other")
        try:
            ((source, first_line),) = self.chunks()
            module = self.transformed(source, first_line)
            theirs = parse_module(self.ctx, other.read_bytes(), str(other), implicit_module=not self.args.no_implicit_module)
            verify(theirs)
            found = compared(module, theirs)
        except CleaveError as error:
            print(error, file=sys.stderr)
            return 2
        print("\n".join(found.lines))
        return {True: 0, False: 1, None: 2}[found.equivalent]

    def processed(self, source: bytes, first_line: int) -> str:
        """One chunk, through the passes to text. Raises: CleaveError."""
        module = self.transformed(source, first_line)
        output = io.StringIO()
        target = self.target()
        name = spec(self.args.target).name
        if name in CLEAVE_UNIVERSE.all_targets or name == "mlir":
            _guarded(name, module, lambda: target.emit(self.ctx, module, output))
        else:
            _emitted_by_xdsl(name, module, lambda: target.emit(self.ctx, module, output))
            if not output.getvalue().strip() and any(module.ops):
                raise CleaveError(module, "this target of xDSL prints nothing for this module", _PRINT_OTHERWISE, op=name)
        return output.getvalue()

    def transformed(self, source: bytes, first_line: int) -> ModuleOp:
        """One chunk, through the passes. Raises: CleaveError."""
        module = self.parsed(source, first_line)
        if not self.args.disable_verify:
            verify(module)
        for position, entry in enumerate(self.passes):
            started = time.perf_counter()
            _guarded(entry.name, module, lambda entry=entry: entry.apply(self.ctx, module))
            if self.args.time_passes:
                print(f"Pass {entry.name} took {time.perf_counter() - started} seconds", file=sys.stderr)
            if not self.args.disable_verify:
                try:
                    verify(module)
                except CleaveError as error:
                    raise CleaveError(error.place, f"{error.found} (after {entry.name})", error.advice, error.op) from error
            if self.args.print_between_passes and position + 1 < len(self.passes):
                print(f"IR after {entry.name}:", file=sys.stderr)
                Printer(stream=cast("IO[str]", sys.stderr)).print_op(module)
                print("\n", file=sys.stderr)
        return module

    def parsed(self, source: bytes, first_line: int) -> ModuleOp:
        """One chunk as a module, by the frontend asked for or the located parser. Raises: CleaveError."""
        if self.args.frontend and spec(self.args.frontend).name != "mlir":
            module = self.parse_chunk(io.BytesIO(source), self.args.frontend)
            assert module is not None, "a frontend gives a module"
            return module
        return parse_module(
            self.ctx, source, self.get_input_name(), first_line=first_line, implicit_module=not self.args.no_implicit_module
        )

    def target(self) -> Target:
        """The target asked for, with its options. Raises: PipelineError; CleaveError for a target whose package is not installed."""
        entry = spec(self.args.target)
        try:
            factory = cast("Callable[[], type[Target]]", self.available_targets[entry.name])()
        except ModuleNotFoundError as error:
            found = f"this target of xDSL needs the Python package {error.name}, which is not installed"
            raise CleaveError(None, found, f"install it, or {_PRINT_OTHERWISE}", op=entry.name) from error
        target = made(factory, entry)
        if isinstance(target, MLIRTarget):
            return dataclasses.replace(
                target,
                print_generic_format=self.args.print_op_generic,
                print_properties_as_attributes=self.args.print_no_properties,
                print_debuginfo=self.args.print_debuginfo,
                syntax_highlight=self.args.syntax_highlight,
            )
        return target

    def list_passes(self) -> str:
        """Cleave's passes with their options, then the names of xDSL's."""
        lines: list[str] = []
        for name, factory in CLEAVE_UNIVERSE.all_passes.items():
            cls = factory()
            lines += [name, f"    {summary_of(cls)}"]
            for option in options_of(cls):
                default = "" if option.default is None else f" = {option.default}" if option.default else ' = ""'
                lines += [f"    {option.name}: {option.type}{default}", f"        {option.doc}"]
        lines += ["", f"Also xDSL's: {', '.join(sorted(XDSL_UNIVERSE.all_passes))}"]
        return "\n".join(lines)


def _universes() -> tuple[Universe, Universe]:
    return XDSL_UNIVERSE, CLEAVE_UNIVERSE


def _guarded(name: str, module: ModuleOp, action: Callable[[], None]) -> None:
    """
    Runs a pass or an emitter, naming it in what goes wrong.

    An exception that is not a diagnostic is a bug of the pass; it is reported in one line with the place in the code.
    """
    try:
        action()
    except (CleaveError, ShrinkException):
        raise
    except DiagnosticException as error:
        cause = _first_line(error.__cause__)
        raise CleaveError(module, f"{error} ({cause})" if cause not in str(error) else str(error), op=name) from error
    except Exception as error:
        if name in XDSL_UNIVERSE.all_passes and not _is_of_cleave(error):
            raise _failed_in_xdsl(name, module, error) from error
        raise internal_error(module, error, op=name) from error


def _is_of_cleave(error: Exception) -> bool:
    """Whether code of Cleave had a part in an exception that `_guarded` met, as where a pass of xDSL runs patterns of Cleave's."""
    inner = traceback.extract_tb(error.__traceback__)[2:]
    return any(Path(frame.filename).is_relative_to(Path(cleave.__file__).parent) for frame in inner)


def _failed_in_xdsl(name: str, module: ModuleOp, error: Exception) -> CleaveError:
    """What to say of a pass of xDSL that met what it is not made for, or lacks a program that it runs."""
    program = str(error).removesuffix(" is not available")
    if isinstance(error, ValueError) and program != str(error):
        advice = "put it there, or for mlir-opt install the extra mlir of cleave"
        return CleaveError(module, f"this pass of xDSL runs the program {program}, which is not on the path", advice, op=name)
    why = ": ".join(part for part in (type(error).__name__, _first_line(error)) if part)
    return CleaveError(module, f"this pass of xDSL does not support this module ({why})", op=name)


def _first_line(error: BaseException | None) -> str:
    """The first line of what an error says, of a program that failed of what that said; empty where there is none."""
    told = error.stderr if isinstance(error, subprocess.CalledProcessError) else "" if error is None else str(error)
    return next((line.strip() for line in str(told or "").splitlines() if line.strip()), "")


def _offer_mlir_opt() -> None:
    """Puts the folder to which the extra `mlir` installs `mlir-opt` on the path, after all else, for passes of xDSL that run it."""
    found = find_spec("mlir")
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        programs = str(Path(folder) / "bin")
        if shutil.which("mlir-opt") is None and shutil.which("mlir-opt", path=programs):
            os.environ["PATH"] = os.pathsep.join((os.environ.get("PATH", os.defpath), programs))


def _emitted_by_xdsl(name: str, module: ModuleOp, action: Callable[[], None]) -> None:
    """Runs an emitter of xDSL's, which may fail in any way, or warn, on a module that it is not made for. Raises: CleaveError."""
    try:
        with warnings.catch_warnings(action="error"):
            action()
    except Exception as error:
        found = "this target of xDSL does not support this module"
        if isinstance(error, DiagnosticException | NotImplementedError | UserWarning) and str(error):
            found += f" ({str(error).strip().splitlines()[0]})"
        raise CleaveError(module, found, _PRINT_OTHERWISE, op=name) from error


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the driver on the given arguments, by default the command line's, and returns the exit code."""
    if argv is None:
        end_quietly()
    try:
        return CleaveOpt("Reads IR, runs passes on it and prints the result.", argv).execute()
    except CleaveError as error:
        print(error, file=sys.stderr)
        return 1
    except (PipelineError, ArgSpecParseError) as error:
        print(f"cleave-opt: error: {' '.join(str(error).split())}", file=sys.stderr)
    except OSError as error:
        print(f"cleave-opt: error: {told(error)}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
