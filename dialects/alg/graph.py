"""Operations of the `alg` dialect that hold programs: the graph, its alternatives, and what they give back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, IntegerAttr, StringAttr, SymbolNameConstraint, UnitAttr, i64
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, lazy_traits_def, prop_def, region_def, traits_def, var_operand_def, var_region_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import CallableOpInterface, HasParent, IsolatedFromAbove, IsTerminator, Pure, RecursiveMemoryEffect, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from cleave.assembly import RESERVED, parse_name, type_in_scope
from cleave.dialects.alg.base import AxisScope
from cleave.dialects.alg.types import (
    AxisAttr,
    SymbolAttr,
    TensorType,
    facts_text,
    parse_axis,
    parse_facts,
    parse_symbol,
    print_axis,
)
from cleave.extents import NAME, Extent
from cleave.graph import FLOATS, Axis, Symbol
from cleave.layouts import layout_axes


class GraphCallable(CallableOpInterface):
    """An interpreter calls a graph by its name."""

    @classmethod
    def get_callable_region(cls, op: Operation) -> Region:
        assert isinstance(op, GraphOp)
        return op.body

    @classmethod
    def get_argument_types(cls, op: Operation) -> tuple[Attribute, ...]:
        assert isinstance(op, GraphOp)
        return op.function_type.inputs.data

    @classmethod
    def get_result_types(cls, op: Operation) -> tuple[Attribute, ...]:
        assert isinstance(op, GraphOp)
        return op.function_type.outputs.data


@irdl_op_definition
class GraphOp(AxisScope):
    """
    A program: named axes, arguments and results with their memory layouts, and a body.

        alg.graph @f symbols [N(hint 1024)] axes [t = 2*N + 1, m = ?(hint 512), s = 4, ti = ceildiv(2*N + 1, s) chunk of t by s] ...

    `symbols` are integers known at run time; `m = ?(facts)` declares an axis and the symbol m at once. A layout maps memory
    to axes as einops do, `"b (g r) m d"`; without one, dimensions are the axes in order. `weight` says that an argument is the
    same from call to call. A result may have axes that the value given for it lacks: it is repeated along them.

    The body is one block that ends in `alg.yield`, or an `alg.alternatives` alone.
    """

    name = "alg.graph"
    sym_name = prop_def(SymbolNameConstraint())
    function_type = prop_def(FunctionType)
    symbols = prop_def(ArrayAttr[SymbolAttr])
    axes = prop_def(ArrayAttr[AxisAttr])
    arg_attrs = prop_def(ArrayAttr[DictionaryAttr])
    res_attrs = prop_def(ArrayAttr[DictionaryAttr])
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface(), GraphCallable(), RecursiveMemoryEffect())

    def __init__(
        self,
        name: str,
        symbols: Sequence[Symbol],
        axes: Sequence[Axis],
        inputs: Sequence[tuple[TensorType, dict[str, Attribute]]],
        outputs: Sequence[tuple[TensorType, dict[str, Attribute]]],
        body: Region,
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "function_type": FunctionType.from_lists([found for found, _ in inputs], [found for found, _ in outputs]),
                "symbols": ArrayAttr([SymbolAttr(symbol) for symbol in symbols]),
                "axes": ArrayAttr([AxisAttr(axis) for axis in axes]),
                "arg_attrs": ArrayAttr([DictionaryAttr(facts) for _, facts in inputs]),
                "res_attrs": ArrayAttr([DictionaryAttr(facts) for _, facts in outputs]),
            },
            regions=[body],
        )

    def declared(self) -> tuple[Axis, ...]:
        return tuple(axis.data for axis in self.axes)

    @property
    def input_types(self) -> tuple[TensorType, ...]:
        """The types of the arguments."""
        return tuple(cast(TensorType, found) for found in self.function_type.inputs)

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        """The types of the results."""
        return tuple(cast(TensorType, found) for found in self.function_type.outputs)

    def layout(self, facts: DictionaryAttr) -> str:
        """The layout in the attributes of an argument or result."""
        return cast(StringAttr, facts.data["layout"]).data

    def verify_symbols(self, value: Extent) -> None:
        declared = {symbol.data.name for symbol in self.symbols}
        for name in value.symbols:
            if name not in declared:
                raise VerifyException(f"extent '{value}' uses symbol '{name}', which is not declared; add it to the symbols")

    def verify_(self) -> None:
        if not NAME.match(self.sym_name.data):
            raise VerifyException(f"'{self.sym_name.data}' cannot name a graph; use letters, digits and _")
        self._verify_symbols()
        self._verify_axes()
        self._verify_arguments()
        self._verify_results()
        last = self.body.block.last_op
        if not isinstance(last, YieldOp | AlternativesOp):
            raise VerifyException("the body does not end in alg.yield or alg.alternatives; add one")
        if isinstance(last, AlternativesOp) and len(self.body.block.ops) > 1:
            raise VerifyException("alg.alternatives is not alone in the body; move the other operations into each region")

    def _verify_symbols(self) -> None:
        seen: set[str] = set()
        for symbol in (attr.data for attr in self.symbols):
            _verify_name(symbol.name, "symbol", seen)
            if symbol.name in RESERVED:
                raise VerifyException(f"'{symbol.name}' cannot name a symbol as extents use the word; choose another name")
            if symbol.multiple_of < 1:
                raise VerifyException(f"symbol '{symbol.name}' is a multiple of {symbol.multiple_of}; give a positive integer")
            for hint in symbol.hints:
                if hint % symbol.multiple_of or (symbol.positive and hint == 0):
                    raise VerifyException(f"hint {hint} of symbol '{symbol.name}' contradicts its facts; change one of them")

    def _verify_axes(self) -> None:
        seen: set[str] = set()
        for axis in self.declared():
            _verify_name(axis.name, "axis", seen)
            self.verify_symbols(axis.extent)
        for axis in self.declared():
            for other in axis.chunk_of or ():
                if other not in seen:
                    raise VerifyException(f"axis '{axis.name}' is a chunk by axis '{other}', which is not declared; add it to the axes")
                if other == axis.name:
                    raise VerifyException(f"axis '{axis.name}' is a chunk of itself; name the whole axis and the outer one")

    def _verify_arguments(self) -> None:
        block = self.body.block
        if tuple(block.arg_types) != self.function_type.inputs.data:
            raise VerifyException("the arguments of the body do not have the types of the signature; make them equal")
        if len(self.arg_attrs) != len(block.args):
            raise VerifyException(f"{len(block.args)} arguments have {len(self.arg_attrs)} sets of attributes; give one each")
        seen: set[str] = set()
        for index, (found, facts) in enumerate(zip(self.function_type.inputs, self.arg_attrs, strict=True)):
            self._verify_layout(f"argument {index}", found, facts, ("layout", "name", "weight"))
            name = facts.data.get("name")
            if not isinstance(name, StringAttr):
                raise VerifyException(f"argument {index} has no name; give it the attribute name")
            _verify_name(name.data, "argument", seen)

    def _verify_results(self) -> None:
        if len(self.res_attrs) != len(self.function_type.outputs):
            raise VerifyException(f"{len(self.function_type.outputs)} results have {len(self.res_attrs)} sets of attributes; give one each")
        for index, (found, facts) in enumerate(zip(self.function_type.outputs, self.res_attrs, strict=True)):
            self._verify_layout(f"result {index}", found, facts, ("layout",))

    def _verify_layout(self, what: str, found: Attribute, facts: DictionaryAttr, known: Sequence[str]) -> None:
        if not isinstance(found, TensorType):
            raise VerifyException(f"{what} has type {found}; it must be an !alg.tensor")
        for axis in found.axes:
            self.axis(axis)
        for key in facts.data:
            if key not in known:
                raise VerifyException(f"{what} has an unknown attribute '{key}'; there are {', '.join(known)}")
        layout = facts.data.get("layout")
        if not isinstance(layout, StringAttr):
            raise VerifyException(f"{what} has no layout; give it the attribute layout")
        try:
            axes = layout_axes(layout.data)
        except ValueError as error:
            raise VerifyException(f"{what}: {error}") from error
        if set(axes) != set(found.axes):
            raise VerifyException(
                f"{what} has layout '{layout.data}' but axes [{', '.join(found.axes)}]; name each axis of the type once in the layout"
            )

    @classmethod
    def parse(cls, parser: Parser) -> GraphOp:
        name = parser.parse_symbol_name().data
        symbols: list[Symbol] = []
        if parser.parse_optional_keyword("symbols"):
            symbols += parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_symbol(parser))
        parser.parse_keyword("axes")

        def declaration() -> Axis:
            axis = parse_name(parser, "an axis")
            parser.parse_punctuation("=")
            if not parser.parse_optional_punctuation("?"):
                return parse_axis(parser, axis)
            symbols.append(parse_facts(parser, axis))
            return Axis(axis, Extent(axis))

        axes = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, declaration)
        inputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: _parse_argument(parser))
        parser.parse_punctuation("->")
        outputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: _parse_tensor(parser))
        extra = parser.parse_optional_attr_dict_with_keyword()
        region = parser.parse_region([argument for argument, _ in inputs])
        op = GraphOp(
            name,
            symbols,
            axes,
            [(cast(TensorType, argument.type), facts) for argument, facts in inputs],
            outputs,
            region,
        )
        if extra is not None:
            op.attributes |= extra.data
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        listed, short = self._listed_symbols()
        if listed:
            printer.print_string(f" symbols [{', '.join(symbol.name + facts_text(symbol) for symbol in listed)}]")
        printer.print_string(" axes ")
        with printer.in_square_brackets():
            for index, axis in enumerate(self.declared()):
                if index:
                    printer.print_string(", ")
                if axis.name in short:
                    printer.print_string(f"{axis.name} = ?{facts_text(short[axis.name])}")
                else:
                    print_axis(printer, axis)
        with printer.indented(2):
            printer.print_string("\n(")
            arguments = zip(self.body.block.args, self.arg_attrs, strict=True)
            printer.print_list(arguments, lambda pair: _print_argument(printer, *pair), ",\n ")
            printer.print_string(")\n-> (")
            printer.print_list(zip(self.output_types, self.res_attrs, strict=True), lambda pair: _print_tensor(printer, *pair))
            printer.print_string(")")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    def _listed_symbols(self) -> tuple[list[Symbol], dict[str, Symbol]]:
        """
        The symbols to declare by themselves, and those that an axis of their name can declare.

        Reading puts the latter last, in order of the axes; where they stand otherwise, all are listed.
        """
        symbols = [attr.data for attr in self.symbols]
        own = [axis.name for axis in self.declared() if axis.extent.text == axis.name and axis.chunk_of is None]
        short = {symbol.name: symbol for name in own for symbol in symbols if symbol.name == name}
        listed = [symbol for symbol in symbols if symbol.name not in short]
        if [*listed, *short.values()] != symbols:
            return symbols, {}
        return listed, short


def _verify_name(name: str, what: str, seen: set[str]) -> None:
    if not NAME.match(name):
        raise VerifyException(f"'{name}' cannot name a {what}; use letters, digits and _")
    if name in seen:
        raise VerifyException(f"{what} '{name}' is declared twice; rename one")
    seen.add(name)


def _parse_facts(parser: Parser, found: TensorType) -> dict[str, Attribute]:
    start = parser.pos
    layout = parser.parse_str_literal() if parser.parse_optional_keyword("layout") else " ".join(found.axes)
    try:
        layout_axes(layout)
    except ValueError as error:
        parser.raise_error(str(error), start)
    return {"layout": StringAttr(layout)}


def _parse_tensor(parser: Parser) -> tuple[TensorType, dict[str, Attribute]]:
    start = parser.pos
    found = parser.parse_type()
    if not isinstance(found, TensorType):
        parser.raise_error(f"expected !alg.tensor<[axes], element>, found {found}", start)
    return found, _parse_facts(parser, found)


def _parse_argument(parser: Parser) -> tuple[Parser.Argument, dict[str, Attribute]]:
    start = parser.pos
    argument = parser.parse_argument()
    if not isinstance(argument.type, TensorType):
        parser.raise_error(f"expected an argument of type !alg.tensor<[axes], element>, found {argument.type}", start)
    facts = _parse_facts(parser, argument.type)
    name = argument.name.text[1:]
    if parser.parse_optional_keyword("named"):
        name = parser.parse_str_literal()
    elif not NAME.match(name):
        name = f"arg{name}" if name.isdigit() else name
    facts["name"] = StringAttr(name)
    if parser.parse_optional_keyword("weight"):
        facts["weight"] = UnitAttr()
    return argument, facts


def _print_tensor(printer: Printer, found: Attribute, facts: DictionaryAttr) -> None:
    printer.print_attribute(found)
    printer.print_string(" layout ")
    printer.print_string_literal(cast(StringAttr, facts.data["layout"]).data)


def _print_argument(printer: Printer, value: SSAValue, facts: DictionaryAttr) -> None:
    written = printer.print_ssa_value(value)
    printer.print_string(": ")
    _print_tensor(printer, value.type, facts)
    name = cast(StringAttr, facts.data["name"]).data
    if name != written:
        printer.print_string(" named ")
        printer.print_string_literal(name)
    if "weight" in facts.data:
        printer.print_string(" weight")


@irdl_op_definition
class YieldOp(IRDLOperation):
    """
    The results of a graph or of one alternative, `alg.yield %o : !alg.tensor<[m, e], f16>`.

    Floats are rounded to the declared element types; other values have those.
    """

    name = "alg.yield"
    values = var_operand_def(TensorType)
    traits = lazy_traits_def(lambda: (IsTerminator(), Pure(), HasParent(GraphOp, AlternativesOp)))

    def verify_(self) -> None:
        graph = self.parent_op()
        while not isinstance(graph, GraphOp):
            if graph is None:
                return
            graph = graph.parent_op()
        outputs = graph.output_types
        if len(outputs) != len(self.values):
            raise VerifyException(f"{len(self.values)} values for {len(outputs)} results; give one value for each result")
        for index, (value, output) in enumerate(zip(self.values, outputs, strict=True)):
            found = cast(TensorType, value.type)
            if found.dtype != output.dtype and not (found.dtype in FLOATS and output.dtype in FLOATS):
                raise VerifyException(f"value {index} has element type {found.dtype} but result {index} {output.dtype}; insert an alg.cast")
            for axis in found.axes:
                if axis not in output.axes:
                    raise VerifyException(f"value {index} has axis '{axis}', which result {index} lacks; reduce it or add it to the result")

    @classmethod
    def parse(cls, parser: Parser) -> YieldOp:
        operands = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        known = [type_in_scope(parser, operand) for operand in operands or ()]
        start = parser.pos
        if parser.parse_optional_punctuation(":"):
            written = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
            if written != known:
                parser.raise_error(f"the values have types {', '.join(map(str, known))}; write those", start)
        values = [parser.resolve_operand(operand, found) for operand, found in zip(operands or (), known, strict=True)]
        op = YieldOp(operands=[values])
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        if self.values:
            printer.print_string(" ")
            printer.print_list(self.values, printer.print_ssa_value)
            printer.print_string(" : ")
            printer.print_list(self.values.types, printer.print_attribute)
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class AlternativesOp(IRDLOperation):
    """
    Bodies of equal value, one region each; the first is the program as written and defines the meaning.

        alg.alternatives
          alternative "as written" flops "4*m*n*d" bytes "2*m*d + 4*n*d" { ... }
          alternative "late quotient" flops "..." bytes "..." phases 1 { ... }

    `flops` and `bytes` are extents over the symbols, `phases` counts reductions that depend on each other. `alg-select` keeps one.
    """

    name = "alg.alternatives"
    facts = prop_def(ArrayAttr[DictionaryAttr])
    bodies = var_region_def("single_block")
    traits = lazy_traits_def(lambda: (IsTerminator(), HasParent(GraphOp), RecursiveMemoryEffect()))

    def verify_(self) -> None:
        if not self.bodies:
            raise VerifyException("there is no alternative; give at least the program as written")
        if len(self.facts) != len(self.bodies):
            raise VerifyException(f"{len(self.bodies)} alternatives have {len(self.facts)} sets of facts; give one each")
        seen: set[str] = set()
        for facts, body in zip(self.facts, self.bodies, strict=True):
            for key, value in facts.data.items():
                if key not in ("name", "flops", "bytes", "phases") or not isinstance(value, IntegerAttr if key == "phases" else StringAttr):
                    raise VerifyException(f"'{key} = {value}' is no fact of an alternative; there are name, flops, bytes and phases")
            name = facts.data.get("name")
            if not isinstance(name, StringAttr):
                raise VerifyException("an alternative has no name; give it one")
            if name.data in seen:
                raise VerifyException(f"alternative '{name.data}' is there twice; rename one")
            seen.add(name.data)
            if not isinstance(body.block.last_op, YieldOp):
                raise VerifyException(f"alternative '{name.data}' does not end in alg.yield; add one")

    @classmethod
    def parse(cls, parser: Parser) -> AlternativesOp:
        facts: list[DictionaryAttr] = []
        bodies: list[Region] = []
        extra = parser.parse_optional_attr_dict_with_keyword()
        while parser.parse_optional_keyword("alternative"):
            entries: dict[str, Attribute] = {"name": StringAttr(parser.parse_str_literal())}
            for key in ("flops", "bytes"):
                if parser.parse_optional_keyword(key):
                    entries[key] = StringAttr(parser.parse_str_literal())
            if parser.parse_optional_keyword("phases"):
                entries["phases"] = IntegerAttr(parser.parse_integer(allow_boolean=False, allow_negative=False), i64)
            facts.append(DictionaryAttr(entries))
            bodies.append(parser.parse_region())
        op = AlternativesOp(properties={"facts": ArrayAttr(facts)}, regions=[bodies])
        if extra is not None:
            op.attributes |= extra.data
        return op

    def print(self, printer: Printer) -> None:
        printer.print_op_attributes(self.attributes, print_keyword=True)
        with printer.indented():
            for facts, body in zip(self.facts, self.bodies, strict=True):
                printer.print_string("\nalternative ")
                printer.print_attribute(facts.data["name"])
                for key in ("flops", "bytes"):
                    if key in facts.data:
                        printer.print_string(f" {key} ")
                        printer.print_attribute(facts.data[key])
                if "phases" in facts.data:
                    printer.print_string(f" phases {cast(IntegerAttr, facts.data['phases']).value.data}")
                printer.print_string(" ")
                printer.print_region(body)
