"""
`cleave-bench`: times compiled programs beside the best existing implementations on a GPU, and measures the search.

Ratios are best existing time over Cleave's, so more than 1 is faster; a wrong result has no ratio. `search` needs no GPU: for a
list of programs it tells whether the form that should be found is, how far up, in what time and memory.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path


def result_file(text: str) -> Path:
    """A file that can be made, asked before the work is done. Raises: argparse.ArgumentTypeError."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"'{text}' is a folder")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"'{text}' cannot be written")
    return path


def count(text: str) -> int:
    """A whole number from 1 up. Raises: argparse.ArgumentTypeError."""
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 1 up")
    return int(text)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    out = argparse.ArgumentParser(prog="cleave-bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = out.add_subparsers(dest="command", required=True)
    programs = commands.add_parser("programs", help="attention, norm + linear and norm + SwiGLU at several sizes")
    programs.add_argument("--only", default="", metavar="TEXT", help="only cases whose name contains TEXT")
    programs.add_argument("--dtype", default="bfloat16", choices=("float16", "bfloat16", "float32"))
    programs.add_argument("--flush", default="write", choices=("write", "read"), help="how the L2 cache is flushed between replays")
    programs.add_argument("--max-autotune", action="store_true", help="also time torch.compile's max-autotune")
    programs.add_argument("--json", metavar="FILE", type=result_file, help="write the results there as well")
    search = commands.add_parser("search", help="the search: forms found, time and memory of a list of programs")
    search.add_argument("--only", default="", metavar="TEXT", help="only programs whose name contains TEXT")
    search.add_argument(
        "--mutants", nargs="?", const=0, type=count, metavar="N", help="instead, judge N mutants of every program (by default 130)"
    )
    search.add_argument("--enumerate", action="store_true", help="instead, enumerate small programs and print what the rules miss")
    search.add_argument("--json", metavar="FILE", type=result_file, help="write the results there as well")
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when every result of Cleave is right, 1 when one is wrong or missing, 2 for usage or no GPU."""
    options = parser().parse_args(arguments)
    if options.command == "search":
        from cleave.bench.search_report import report

        return report(options.only, options.mutants, options.json, options.enumerate)
    import torch
    from rich.console import Console
    from rich.table import Table

    if not torch.cuda.is_available():
        print("cleave-bench: error: no CUDA device was found; run it on a machine with an NVIDIA GPU", file=sys.stderr)
        return 2
    from cleave.bench.programs import cases
    from cleave.bench.run import Result, measure

    results: list[Result] = []
    chosen = [case for case in cases() if options.only in case.name]
    for number, case in enumerate(chosen, 1):
        print(f"[{number}/{len(chosen)}] {case.name}", file=sys.stderr, flush=True)
        results.append(measure(case, getattr(torch, options.dtype), options.flush, options.max_autotune))
        if options.json is not None:
            options.json.write_text(json.dumps([result.as_json() for result in results], indent=1) + "\n")
    table = Table(title=f"{torch.cuda.get_device_name()}, {options.dtype}, milliseconds, L2 flushed by {options.flush}s")
    names = list(dict.fromkeys(name for result in results for name in result.milliseconds))
    for heading in ("case", *names, "ratio", "error", "compile s"):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    for result in results:
        ratio = result.ratio()
        cells = [f"{result.milliseconds[name]:.4f}" if name in result.milliseconds else "-" for name in names]
        error = f"{result.errors['cleave']:.1e}" if "cleave" in result.errors else "-"
        table.add_row(result.case, *cells, "-" if ratio is None else f"{ratio:.2f}", error, f"{result.compile_seconds:.1f}")
    Console(width=200 if not sys.stdout.isatty() else None).print(table)
    for result in results:
        for name, reason in result.failed.items():
            print(f"{result.case}: {name}: {reason}")
    return 1 if any("cleave" in result.failed for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
