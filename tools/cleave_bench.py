"""
`cleave-bench`: times compiled programs beside the best existing implementations on a GPU, and measures the search.

Ratios are best existing time over Cleave's, so more than 1 is faster; a wrong result has no ratio. `sweep` times nothing and compares
every configuration the tuner may choose with what is right. `search` needs no GPU: for a
list of programs it tells whether the form that should be found is, how far up, in what time and memory.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from cleave import __version__
from cleave.files import check, end_quietly

MEASURING = """
Every contender's result is compared with float64, then all are timed in turn, round after round: as replays of a CUDA graph and as
plain calls, after the L2 cache was flushed by writes and by reads. Medians count, and of the ratios for both flushes the lower one.
Rounds end when medians are known to 0.2 %, at the latest after 0.6 s, and not before the ninth; existing contenders that are half as
slow again as the best of them have nine. Plain calls are not timed of those that would be behind whatever overhead the best has.
A result is right when its largest error is at most twice that of eager execution plus one unit in the last place, and its
relative error at most what the tuner allows (1e-3 in f16). A contender that is missing or wrong is told of, with the reason.
"""
SWEEPING = """
A configuration is a way to divide the program into kernels, and for each kernel a way to run it: every way is tried, alone beside the
first way of the other kernels that can be run, then with launches that overlap. The tuner tries the most promising of them. Each is
compiled, run three times, once as a CUDA graph, on memory that was made unreadable before, and compared with float64 within the tuner's
limit (a relative error of 1e-3 in f16). One that does not compile, does not fit or spills is dropped, as the tuner drops it; one that
hangs or faults costs its process and nothing else, and is run again alone while there is time. Nothing is timed. Compiled kernels come
from Cleave's cache, and stay there.
"""
TYPES = ("float16", "bfloat16", "float32")


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Ends the program with exit code 2."""
        self.exit(2, f"{self.prog}: error: {message}; see {self.prog} --help\n")


def result_file(text: str) -> Path:
    """A file that can be made, asked before the work is done. Raises: argparse.ArgumentTypeError."""
    try:
        check(text)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"'{text}' cannot be written: {error.strerror}") from error
    path = Path(text)
    # It is another file's place that a new one takes.
    if not os.access(path.parent, os.W_OK) or (path.exists() and not path.is_file()):
        raise argparse.ArgumentTypeError(f"'{text}' cannot be written: a file cannot be put in its place")
    return path


def count(text: str) -> int:
    """A whole number from 1 up. Raises: argparse.ArgumentTypeError."""
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 1 up")
    return int(text)


def part(text: str) -> tuple[int, int]:
    """Which of how many parts, counted from 1. Raises: argparse.ArgumentTypeError."""
    which, _, of = text.partition("/")
    try:
        found = count(which), count(of)
    except argparse.ArgumentTypeError:
        found = 1, 0
    if found[0] > found[1]:
        raise argparse.ArgumentTypeError(f"'{text}' is not a part such as 1/2, the first of two")
    return found


def measuring(add: Callable[..., Parser], name: str, text: str, more: str = "") -> Parser:
    """A command that measures, with the options that all of those have."""
    described = argparse.RawDescriptionHelpFormatter
    out = add(name, help=text, description=f"{text[0].upper()}{text[1:]}.\n{more}{MEASURING}", formatter_class=described)
    out.add_argument("--only", default="", metavar="TEXT", help="only cases whose name contains TEXT")
    out.add_argument("--part", type=part, metavar="I/N", help="of the cases every N-th only, from the I-th on, for several runs to share")
    out.add_argument("--seconds", type=count, metavar="N", help="begin no case after N seconds; those left out are told of")
    out.add_argument("--json", metavar="FILE", type=result_file, help="keep the results there, after every case")
    out.add_argument("--plot", metavar="FILE", type=result_file, help="draw a PNG of times beside the floor there")
    out.add_argument(
        "--merge", nargs="+", type=Path, metavar="FILE", help="measure nothing; show these results together, the newest of each case"
    )
    out.add_argument("--keep-cache", action="store_true", help="use Cleave's cache as it is, in place of an empty one")
    return out


def choosing_subgraphs(command: argparse.ArgumentParser) -> None:
    """Adds the options that say which subgraphs."""
    command.add_argument(
        "--shapes", default="quick", choices=("quick", "paper"), help="smallest and largest sizes (default), or all of the paper's"
    )
    command.add_argument("--phase", nargs="+", choices=("prefill", "decode"), help="only these phases")
    command.add_argument("--name", nargs="+", metavar="NAME", help="only these subgraphs, such as matmul or gqa_d64")
    command.add_argument("--size", nargs="+", type=count, metavar="N", help="only these sizes")


def sweeping(add: Callable[..., Parser]) -> None:
    """The command that runs everything the tuner may choose."""
    described = argparse.RawDescriptionHelpFormatter
    text = "run everything that the tuner may choose for the subgraphs, and compare it with float64"
    out = add("sweep", help=text, description=f"{text[0].upper()}{text[1:]}.\n{SWEEPING}", formatter_class=described)
    choosing_subgraphs(out)
    out.add_argument("--only", default="", metavar="TEXT", help="only cases whose name contains TEXT")
    out.add_argument("--part", type=part, metavar="I/N", help="of the cases every N-th only, from the I-th on, for several runs to share")
    out.add_argument(
        "--limit", type=count, metavar="N", help="only N configurations of each case, those the cost model likes best, and their overlaps"
    )
    out.add_argument("--seed", type=count, metavar="N", help="with --limit, take any, others for each N, in place of the model's")
    out.add_argument("--seconds", type=count, metavar="N", help="end after N seconds, within a case too; what is left out is told of")
    out.add_argument("--json", metavar="FILE", type=result_file, help="keep the results there, after every case")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    out = Parser(prog="cleave-bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("--version", action="version", version=f"cleave-bench {__version__}")
    commands = out.add_subparsers(dest="command", required=True, parser_class=Parser)
    add = commands.add_parser
    programs = measuring(add, "programs", "attention, norm + linear and norm + SwiGLU at several sizes")
    programs.add_argument("--dtype", default="bfloat16", choices=TYPES)
    subgraphs = measuring(
        add,
        "subgraphs",
        "the nine subgraphs of the Cleave paper in prefill and decode",
        "Cases are named '<phase> <name> <size>', the size being rows, for mla in decode the length of the cache.\n",
    )
    choosing_subgraphs(subgraphs)
    subgraphs.add_argument(
        "--model", action="store_true", help="measure nothing and use no GPU: compile by the cost model alone, and tell what that takes"
    )
    subgraphs.add_argument("--target", default="h200", metavar="MACHINE", help="the machine that --model compiles for (default h200)")
    for command in (programs, subgraphs):
        command.add_argument("--max-autotune", action="store_true", help="also time torch.compile's max-autotune, which takes long")
    measuring(
        add,
        "masks",
        "causal, sliding-window and document attention at 4096 and 16384",
        "Times are also told over those of Cleave's kernel without a mask, times the share of tiles that are not fully masked; a tile\n"
        "with a question mark is not the kernel's own.\n",
    )
    measuring(
        add,
        "dynamic",
        "attention compiled once for all numbers of requests, rows and keys, at 40 sizes",
        "Times are also told over those of a compilation for each size.\n",
    )
    sweeping(add)
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
    if arguments is None:
        end_quietly()
    options = parser().parse_args(arguments)
    if options.command == "search":
        from cleave.bench.search_report import report

        return report(options.only, options.mutants, options.json, options.enumerate)
    from cleave.bench.measuring import report as measure

    return measure(options)


if __name__ == "__main__":
    sys.exit(main())
