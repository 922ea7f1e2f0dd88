"""Running modules: sizes, inputs, comparison and exit codes."""

import errno
import io
import os
from pathlib import Path

import numpy as np
import pytest

from cleave.execution import Precision, Runnable, Slot
from cleave.tools import cleave_opt, cleave_run

PRODUCT = """
alg.graph @product symbols [N(hint 6, multiple_of 2)] axes [m = 3, n = N, k = ?(positive)]
    (%x: !alg.tensor<[m, n], f32> layout "n m", %y: !alg.tensor<[n, k], f16> layout "(n k)") -> (!alg.tensor<[m, k], f32> layout "k m") {
  %p = alg.contract %x, %y over [n] : !alg.tensor<[m, k], f32>
  alg.yield %p : !alg.tensor<[m, k], f32>
}
"""
SUM = """alg.graph @sum axes [m = ?(hint 3), n = 4] (%x: !alg.tensor<[m, n], f32>) -> (!alg.tensor<[m], f32>) {
  %y = alg.reduce sum %x over [n] : !alg.tensor<[m], f32>
  alg.yield %y : !alg.tensor<[m], f32>
}
"""
ROWS = """alg.graph @rows axes [m = ?, n = ?] (%x: !alg.tensor<[m, n], f32>) -> (!alg.tensor<[m, n], f32>) {
  %y = alg.exp %x : !alg.tensor<[m, n], f32>
  alg.yield %y : !alg.tensor<[m, n], f32>
}
"""
DOUBLED = PRODUCT.replace("  alg.yield %p", "  %d = alg.add %p, %p : !alg.tensor<[m, k], f32>\n  alg.yield %d")


@pytest.fixture
def product(tmp_path: Path) -> str:
    path = tmp_path / "product.mlir"
    path.write_text(PRODUCT)
    return str(path)


def test_layouts_say_how_arrays_lie(product: str, tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    x, y = draw.standard_normal((4, 3)), draw.standard_normal(20).astype(np.float16)
    np.savez(tmp_path / "in.npz", x=x.astype(np.float32), y=y)
    out = tmp_path / "out.npz"
    assert cleave_run.main([product, "--dims", "N=4,k=5", "--inputs", str(tmp_path / "in.npz"), "--output", str(out)]) == 0
    expected = np.einsum("nm,nk->km", x.astype(np.float32).astype(float), y.reshape(4, 5).astype(float))
    with np.load(out) as file:
        np.testing.assert_allclose(file["result_0"], expected, rtol=1e-14)


def test_prints_what_it_ran(product: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cleave_run.main([product, "--dims", "k=2", "--inputs", "0.5"]) == 0
    out = capsys.readouterr().out
    assert out == "@product (alg) at N = 6, k = 2\nresult 0: f32[2, 3] 'k m'\n[[1.5 1.5 1.5]\n [1.5 1.5 1.5]]\n"


def test_random_inputs_repeat_by_seed(product: str, capsys: pytest.CaptureFixture[str]) -> None:
    texts: list[str] = []
    for seed in ("1", "1", "2"):
        assert cleave_run.main([product, "--dims", "k=2", "--seed", seed]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]


def test_comparison_decides_the_exit_code(product: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "doubled.mlir"
    other.write_text(DOUBLED)
    assert cleave_run.main([product, "--dims", "k=2", "--compare", product]) == 0
    assert "max abs error 0, max rel error 0 against alg" in capsys.readouterr().out
    assert cleave_run.main([product, "--dims", "k=2", "--compare", str(other)]) == 1
    assert "max rel error 0.5 against alg" in capsys.readouterr().out
    assert cleave_run.main([product, "--dims", "k=2", "--compare", str(other), "--tolerance", "0.6"]) == 0


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([1.0, 2.0], [1.0, 4.0], (2.0, 0.5)),
        ([0.0], [0.0], (0.0, 0.0)),
        ([np.nan, 1.0], [np.nan, 1.0], (0.0, 0.0)),
        ([np.nan], [1.0], (np.inf, np.inf)),
        ([np.inf], [-np.inf], (np.inf, np.inf)),
        ([1.0], [1.0, 1.0], (np.inf, np.inf)),
        ([], [], (0.0, 0.0)),
    ],
)
def test_errors(a: list[float], b: list[float], expected: tuple[float, float]) -> None:
    assert cleave_run.errors(np.array(a), np.array(b)) == expected


@pytest.mark.parametrize("size", [(), (3,), (0,)])
@pytest.mark.parametrize("big", [7, 2**53, 2**63 - 2, -(2**63)])
def test_integers_differ_by_any_bit(size: tuple[int, ...], big: int) -> None:
    """Large ones are the same as float64."""
    one, other = np.full(size, big), np.full(size, big + 1)
    assert cleave_run.errors(one, one) == (0.0, 0.0)
    assert cleave_run.errors(one, other) == ((1.0, 1 / abs(float(big + 1))) if one.size else (0.0, 0.0))


def test_integers_are_compared_exactly_unless_a_tolerance_is_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, other = tmp_path / "one.mlir", tmp_path / "other.mlir"
    path.write_text(
        "alg.graph @c axes [] () -> (!alg.tensor<[], i64>) { %c = alg.constant 9007199254740993 : i64 alg.yield %c : !alg.tensor<[], i64> }"
    )
    other.write_text(path.read_text().replace("993", "992"))
    assert cleave_run.main([str(path), "--compare", str(other)]) == 1
    assert "max abs error 1, max rel error 1.11e-16 against alg, beyond --tolerance 0" in capsys.readouterr().out
    assert cleave_run.main([str(path), "--compare", str(other), "--tolerance", "1e-9"]) == 0


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("--dims", "k=2,k=3"), 2, "--dims 'k=2,k=3'"),
        (("--dims", "k"), 2, "found 'k'"),
        (("--dims", "k=\u00b2"), 2, "found 'k=\u00b2'"),
        (("--dims", "=2"), 2, "found '=2'"),
        (("--dims", "k=" + "9" * 5000), 2, "size of 'k' has 5000 digits; at most 18 are read"),
        (("--dims", "k=" + "9" * 18), 2, "input 'y' of @product would have 5999999999999999994 elements; give smaller --dims"),
        (("--dims", f"k={10**14}"), 2, "Unable to allocate"),
        (("--dims", "k=2", "--inputs", "nothing"), 2, "neither random, a number nor an .npz file"),
        (("--dims", "k=2", "--inputs", "absent.npz"), 2, "absent.npz: No such file"),
        (("--program", "other"), 2, "product.mlir is named 'other'; there are: product"),
        ((), 1, "symbol 'k' of @product has no size; give --dims k=..."),
        (("--dims", "k=0"), 1, "symbol 'k' of @product is positive, 0 is not"),
        (("--dims", "k=2,N=3"), 1, "symbol 'N' of @product is a multiple of 2, 3 is not"),
        (("--dims", "k=2,m=4"), 1, "axis 'm' is 3, not 4 of @product"),
        (("--dims", "k=2,z=4"), 1, "'z' is not a symbol of @product; its symbols: N, k"),
        (("--dims", "k=2", "--module", "1"), 2, "product.mlir has no module 1; the last is 0"),
        (("--dims", "k=2", "--alternative", "1"), 1, "there is no alternative 1; the last is 0"),
    ],
)
def test_mistakes_are_one_line(args: tuple[str, ...], code: int, message: str, product: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cleave_run.main([product, *args]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(("option", "value"), [("--seed", "-1"), ("--alternative", "-1"), ("--seed", "1.5"), ("--seed", "\u00b2")])
def test_numbers_that_count_from_zero(option: str, value: str, product: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cleave_run.main([product, option, value])
    assert stopped.value.code == 2
    assert f"argument {option}: '{value}' is not a whole number from 0 up" in capsys.readouterr().err


def _archive(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, allow_pickle=True, **arrays)
    return file.getvalue()


def _array(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


ZEROS = np.zeros((6, 3)), np.zeros(12)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not an .npz file of numbers"),
        (b"hello", "not an .npz file of numbers"),
        (_archive(x=ZEROS[0], y=ZEROS[1])[:60], "not an .npz file of numbers"),
        (_archive(x=ZEROS[0], y=ZEROS[1])[:-40], "not an .npz file of numbers"),
        (_array(ZEROS[0]), "not an .npz file of numbers"),
        (_archive(x=np.full((6, 3), None), y=ZEROS[1]), "not an .npz file of numbers"),
        (_archive(x=np.full((6, 3), "a"), y=ZEROS[1]), "array 'x' is <U1, which is not real numbers; the program takes f32"),
        (_archive(x=ZEROS[0] * 1j, y=ZEROS[1]), "array 'x' is complex128, which is not real numbers"),
        (_archive(x=ZEROS[0]), "the file has no array 'y'; it has x"),
        (_archive(x=ZEROS[0], y=ZEROS[1], z=ZEROS[1]), "no input takes the array 'z'; the inputs are x, y"),
        (_archive(x=ZEROS[1], y=ZEROS[1]), "array 'x' is [12], layout 'n m' makes it [6, 3]"),
    ],
)
def test_files_that_hold_no_such_inputs(
    data: bytes, message: str, product: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in.npz"
    path.write_bytes(data)
    assert cleave_run.main([product, "--dims", "k=2", "--inputs", str(path)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{path}: error: ")
    assert message in err
    assert err.count("\n") == 1


def test_mistakes_in_sizes_name_the_module(product: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cleave_run.main([product, "--dims", "k=2,z=4"]) == 1
    assert capsys.readouterr().err.startswith(f"{product}: error: 'z' is not a symbol of @product")


@pytest.mark.parametrize("value", ["-1", "nan", "x"])
def test_a_tolerance_is_a_number_from_0_up(value: str, product: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cleave_run.main([product, "--tolerance", value])
    assert stopped.value.code == 2
    assert f"argument --tolerance: '{value}' is not a number from 0 up" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("dtype", "precisions", "expected"),
    [
        ("f16", ("f64", "f64"), 1e-6),
        ("f16", ("f32", "f64"), 2e-5),
        ("f16", ("declared", "f64"), 1e-3),
        ("bf16", ("declared", "declared"), 8e-3),
        ("f32", ("declared", "f64"), 2e-5),
        ("i32", ("declared", "f64"), 2e-5),
    ],
)
def test_the_default_tolerance_is_that_of_what_is_rounded(dtype: str, precisions: tuple[Precision, ...], expected: float) -> None:
    slots = (Slot("x", dtype, "m"), Slot("i", "i64", "m"))
    program = Runnable("f", "alg", (), (), slots, slots[:1], lambda inputs, sizes, precision: ())
    assert cleave_run.tolerance_of(program, precisions) == expected


def test_what_is_lowered_is_within_the_default_tolerance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A product of f16 matrices, through Triton's interpreter, against its meaning in f64."""
    source, lowered = tmp_path / "a.mlir", tmp_path / "b.mlir"
    source.write_text(
        "alg.graph @product axes [m = 16, k = 16, n = 16] (%x: !alg.tensor<[m, k], f16>, %y: !alg.tensor<[k, n], f16>)"
        " -> (!alg.tensor<[m, n], f16>) {\n  %p = alg.contract %x, %y over [k] : !alg.tensor<[m, n], f32>\n"
        "  %c = alg.cast %p : !alg.tensor<[m, n], f16>\n  alg.yield %c\n}\n"
    )
    assert cleave_opt.main([str(source), "-p", "convert-alg-to-sched,convert-sched-to-tt", "-o", str(lowered)]) == 0
    assert cleave_run.main([str(lowered), "--compare", str(source)]) == 0
    assert cleave_run.main([str(lowered), "--compare", str(source), "--tolerance", "1e-6"]) == 1
    assert "beyond --tolerance 1e-06" in capsys.readouterr().out


def test_whole_numbers_are_not_rounded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ids.mlir"
    path.write_text(
        'alg.graph @ids axes [m = 2] (%x: !alg.tensor<[m], i64> layout "m") -> (!alg.tensor<[m], i64> layout "m") {\n  alg.yield %x\n}\n'
    )
    for value, code in (("3", 0), ("0.5", 1), ("nan", 1)):
        assert cleave_run.main([str(path), "--inputs", value]) == code
        assert ("an input of i64 is given values that are not whole numbers" in capsys.readouterr().err) == bool(code)


def test_results_are_written_to_the_very_file_named(product: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert cleave_run.main([product, "--dims", "k=2", "--output", str(out), "--compare", product]) == 0
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".mlir"] == ["out"]
    with np.load(out) as file:
        assert file["result_0"].shape == (2, 3)
    assert cleave_run.main([product, "--dims", "k=2", "--output", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"cleave-run: error: {tmp_path}: Is a directory\n"


def test_links_to_each_other_are_no_file(product: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one").symlink_to(tmp_path / "other")
    (tmp_path / "other").symlink_to(tmp_path / "one")
    assert cleave_run.main([product, "--dims", "k=2", "--output", str(tmp_path / "one")]) == 2
    assert capsys.readouterr().err == f"cleave-run: error: {tmp_path / 'one'}: {os.strerror(errno.ELOOP)}\n"


def test_where_results_cannot_be_written_nothing_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The input, which is not there, is not asked for."""
    closed = tmp_path / "closed"
    closed.mkdir(0o500)
    places = {
        tmp_path: "Is a directory",
        tmp_path / "absent" / "out": "No such file or directory",
        Path("/dev/null/out"): "No such file or directory",
    }
    if not os.access(closed, os.W_OK):
        places[closed / "out"] = "Permission denied"
    for place, why in places.items():
        for tool, option in ((cleave_run, "--output"), (cleave_opt, "-o")):
            assert tool.main([str(tmp_path / "none.mlir"), option, str(place)]) == 2
            assert capsys.readouterr().err == f"{tool.__name__.rsplit('.', 1)[1].replace('_', '-')}: error: {place}: {why}\n"
    assert list(tmp_path.iterdir()) == [closed] and not list(closed.iterdir())


def test_a_malformed_program_is_located(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.mlir"
    path.write_text(PRODUCT.replace("over [n]", "over [z]"))
    assert cleave_run.main([str(path)]) == 1
    assert capsys.readouterr().err.startswith(f"{path}:4:3: error: alg.contract: ")


ATTENTION = """
alg.graph @attention axes [m = ?, n = 1, d = 8]
    (%q: !alg.tensor<[m, d], f32>, %k: !alg.tensor<[n, d], f32>, %v: !alg.tensor<[n, d], f32> layout "d n") -> (!alg.tensor<[m, d], f32>) {
  %s = alg.contract %q, %k over [d] : !alg.tensor<[m, n], f32>
  %o = alg.contract %s, %v over [n] : !alg.tensor<[m, d], f32>
  alg.yield %o : !alg.tensor<[m, d], f32>
}
"""


@pytest.mark.parametrize("passes", ["alg-fold-unit-axes", "alg-fold-unit-axes,alg-superoptimize,alg-stabilize,convert-alg-to-sched"])
def test_what_is_without_axes_of_size_1_is_compared_with_what_has_them(
    passes: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after, other = (tmp_path / f"{name}.mlir" for name in ("before", "after", "other"))
    before.write_text(ATTENTION)
    assert cleave_opt.main([str(before), "-p", passes, "-o", str(after)]) == 0
    for one, two in ((after, before), (before, after)):
        assert cleave_run.main([str(one), "--dims", "m=5", "--compare", str(two)]) == 0
    other.write_text(
        ATTENTION.replace('layout "d n"', 'layout "n d"').replace(
            "%q: !alg.tensor<[m, d], f32>", '%q: !alg.tensor<[m, d], f32> layout "d m"'
        )
    )
    capsys.readouterr()
    assert cleave_run.main([str(after), "--dims", "m=5", "--compare", str(other)]) == 1
    assert 'differ in \'q\', which is f32 "m d" in one and f32 "d m" in the other' in capsys.readouterr().err


def test_one_of_several_modules_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As `cleave-opt --split-input-file` writes them, or one inside of the other; each has its own kernels, of the same names."""
    graphs = [f"builtin.module {{\n{SUM.replace('?(hint 3)', size)}}}\n" for size in ("5", "?")]
    source = tmp_path / "two.mlir"
    source.write_text("// -----\n".join(graphs))
    several = [source, tmp_path / "two.sched", tmp_path / "two.tt", tmp_path / "nested.tt"]
    passes = ["convert-alg-to-sched", "convert-sched-to-tt"]
    for before, made, name in zip(several, several[1:], passes, strict=False):
        assert cleave_opt.main([str(before), "--split-input-file", "-p", name, "-o", str(made)]) == 0
    several[3].write_text(f"builtin.module {{\n{several[2].read_text()}}}\n")
    for path in several:
        assert cleave_run.main([str(path), "--dims", "m=4"]) == 1
        out, err = capsys.readouterr()
        assert out == "" and err.startswith(f"{path}:1:1: error: builtin.module: the file has 2 modules; run one by --module")
        assert cleave_run.main([str(path), "--dims", "m=4", "--module", "1", "--inputs", "2"]) == 0
        assert " at m = 4\n" in capsys.readouterr().out
        assert cleave_run.main([str(path), "--module", "0", "--inputs", "2"]) == 0
        assert "f32[5] 'm'\n[8. 8. 8. 8. 8.]\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("passes", "option"),
    [
        ("convert-alg-to-sched", "-p=convert-sched-to-tt"),
        ("convert-alg-to-sched", "-p=sched-overlap"),
        ("convert-alg-to-sched,convert-sched-to-tt", "-p=tt-emulate-bf16"),
        ("convert-alg-to-sched,convert-sched-to-tt", "-t=triton"),
        ("convert-alg-to-sched,convert-sched-to-tt", "-t=ttir"),
    ],
)
def test_several_modules_are_not_lowered_as_one(passes: str, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, made = tmp_path / "one.mlir", tmp_path / "two.mlir"
    source.write_text(SUM)
    assert cleave_opt.main([str(source), "-p", passes, "-o", str(made)]) == 0
    one = made.read_text()
    made.write_text(f"{one}// -----\n{one}")
    assert cleave_opt.main([str(made), option]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"{made}:1:1: error: builtin.module: 2 modules are inside of a module, and one at a time is taken;")
    assert err.count("\n") == 1
    assert cleave_opt.main([str(made), "--split-input-file", option]) == 0


@pytest.mark.parametrize(
    ("passes", "dims"),
    [
        ('alg-bind{sizes="m=5,n=7"}', "m=5,n=7"),
        ('alg-bind{sizes="m=5,n=7"}', ""),
        ('alg-bind{sizes="m=5"}', "m=5,n=7"),
        ('alg-bind{sizes="m=1"},alg-fold-unit-axes', "m=1,n=7"),
    ],
)
def test_sizes_are_those_of_either_module(passes: str, dims: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dynamic, bound = tmp_path / "dynamic.mlir", tmp_path / "bound.mlir"
    dynamic.write_text(ROWS)
    assert cleave_opt.main([str(dynamic), "-p", passes, "-o", str(bound)]) == 0
    assert cleave_run.main([str(bound), "--compare", str(dynamic), "--dims", dims]) == 0
    assert cleave_run.main([str(dynamic), "--compare", str(bound), "--dims", dims or "m=5,n=7"]) == 0
    capsys.readouterr()
    for wrong, message in (("z=3", "'z' is a symbol of neither @rows nor what it is compared with; their symbols: "), ("m=6", "")):
        assert cleave_run.main([str(bound), "--compare", str(dynamic), "--dims", wrong]) == 1
        out, err = capsys.readouterr()
        assert out == "" and message in err and err.count("\n") == 1


def test_mistakes_of_what_is_compared_with_name_its_file(product: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing is printed before all of it is known."""
    other = tmp_path / "other.mlir"
    other.write_text(PRODUCT.replace("@product", "@other"))
    assert cleave_run.main([product, "--dims", "k=2", "--program", "product", "--compare", str(other)]) == 2
    assert capsys.readouterr() == ("", f"cleave-run: error: no program of {other} is named 'product'; there are: other\n")
    other.write_text(PRODUCT.replace('layout "k m"', 'layout "m k"'))
    assert cleave_run.main([product, "--dims", "k=2", "--compare", str(other)]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"{other}: error: @product and @product differ in 'result 0'")


def test_only_alg_has_hints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, made = tmp_path / "sum.mlir", tmp_path / "sum.sched"
    source.write_text(SUM)
    assert cleave_opt.main([str(source), "-p", "convert-alg-to-sched", "-o", str(made)]) == 0
    assert cleave_run.main([str(source)]) == 0
    assert cleave_run.main([str(made)]) == 1
    assert "symbol 'm' of @sum has no size; give --dims m=..." in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cleave_run.main(["--help"])
    assert "of alg, others take their first hint" in " ".join(capsys.readouterr().out.split())


def test_what_fails_in_a_kernel_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "loop.tt"
    path.write_text(
        """tt.func public @k(%x: !tt.ptr<f32>, %m: i32) {
  %v = tt.load %x : !tt.ptr<f32>
  %from = arith.constant 0 : i32
  %step = arith.subi %m, %m : i32
  scf.for %i = %from to %m step %step : i32 {
    tt.store %x, %v : !tt.ptr<f32>
  }
  tt.return
}
sched.program @f sizes [m = m] () -> (%x: !sched.buffer<[m : 1], f32> layout "m") {
  sched.launch_func @k(%x) grid [1] scalars ["size m"] warps 1 stages 1
}
"""
    )
    assert cleave_run.main([str(path), "--dims", "m=4"]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert err.startswith(f"{path}: error: @f (tt): ValueError: range() arg 3 must not be zero (in k: for i in range(")
    assert "Traceback" not in err


@pytest.mark.parametrize("level", ["alg", "sched"])
@pytest.mark.parametrize(
    ("extent", "dims", "said"),
    [
        ("n floordiv k", "n=4,k=0", "@p at n = 4, k = 0: division by zero in extent '((n) // (k))'; give other --dims"),
        ("ceildiv(n, k)", "n=4,k=0", "@p at n = 4, k = 0: division by zero in extent 'ceildiv(n, k)'; give other --dims"),
        ("n mod k", "n=4,k=0", "@p at n = 4, k = 0: division by zero in extent '((n) % (k))'; give other --dims"),
        ("n - 3", "n=1,k=3", "@p at n = 1, k = 3: axis 'm' is n - 3, -2; give other --dims"),
    ],
)
def test_sizes_at_which_an_axis_has_none(
    extent: str, dims: str, said: str, level: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.mlir"
    path.write_text(
        f"alg.graph @p axes [n = ?, k = ?, m = {extent}] (%x: !alg.tensor<[m, n, k], f32>) -> (!alg.tensor<[m, n, k], f32>) {{\n"
        "  %y = alg.exp %x : !alg.tensor<[m, n, k], f32>\n  alg.yield %y\n}\n"
    )
    if level == "sched":
        assert cleave_opt.main([str(path), "-p", "convert-alg-to-sched", "-o", str(path)]) == 0
    assert cleave_run.main([str(path), "--dims", dims]) == 1
    assert capsys.readouterr().err == f"{path}: error: {said}\n"
