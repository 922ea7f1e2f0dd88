"""
Reading and verifying IR so that every mistake is a located `CleaveError`.

xDSL's own parser records no locations, gives attribute errors no position and reports a failed verifier by dumping the
module. The parser here gives each operation the place it was read from (unless the text carries its own `loc`), and turns
whatever goes wrong while reading into one line with the place and the innermost operation. Malformed text of any kind is a
`CleaveError` and nothing else.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ComplexType, FileLineColLoc, IndexType, IntAttr, IntegerType, ModuleOp, StringAttr, UnknownLoc
from xdsl.ir import Attribute, AttributeInvT, Block, Operation, SSAValue, TypeAttribute
from xdsl.parser import AttrParser, Parser, ParserState, UnresolvedOperand
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input, Position, Span
from xdsl.utils.mlir_lexer import MLIRLexer

from .errors import CleaveError

_T = TypeVar("_T")


class _LinearLexer(MLIRLexer):
    """xDSL's lexer; its pattern for string literals takes exponential time on one that is not closed."""

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')


class _LiteralElement(Parser._TensorLiteralElement):  # pyright: ignore[reportPrivateUsage]
    """An element of a `dense` literal; xDSL reads the bits of a hexadecimal float, `dense<0xFF800000>`, as an integer."""

    def to_type(self, parser: AttrParser, type: AnyFloat | IntegerType | IndexType | ComplexType) -> Any:
        if not isinstance(type, AnyFloat) or self.span.text[:2] not in ("0x", "0X"):
            return super().to_type(parser, type)
        bits = int(self.span.text, 16)
        if bits.bit_length() > type.bitwidth:
            parser.raise_error("hexadecimal float out of range for its type", at_position=self.span)
        return next(type.iter_unpack(bits.to_bytes(type.compile_time_size, "little")))


class LocatedParser(Parser):
    """xDSL's parser, with locations on operations, positions on errors, and hexadecimal floats in `dense` literals."""

    def __init__(self, ctx: Context, text: str, name: str) -> None:
        self.open_ops: list[str] = []
        self.first_use: dict[str, Span] = {}
        self._file = StringAttr(name)
        self._line_starts = [0] + [at + 1 for at, character in enumerate(text) if character == "\n"]
        super().__init__(ctx, "", name)
        self._parser_state = ParserState(_LinearLexer(Input(text, name)))

    def location(self, at: Position) -> FileLineColLoc:
        """The location of a position in the text."""
        line = bisect_right(self._line_starts, at)
        return FileLineColLoc(self._file, IntAttr(line), IntAttr(at - self._line_starts[line - 1] + 1))

    def parse_operation(self) -> Operation:
        start = self._current_token.span
        self.open_ops.append("")
        op = self._positioned(super().parse_operation, start)
        self.open_ops.pop()
        if isinstance(op.location, UnknownLoc):
            op.location = self.location(start.start)
        return op

    def _get_op_by_name(self, name: str) -> type[Operation]:
        self.open_ops[-1] = name
        found = self.ctx.get_optional_op(name, dialect_stack=self._parser_state.dialect_stack)
        if found is None:
            self.raise_error("the operation is not registered", self._last_span(name))
        self.open_ops[-1] = found.name if found.name != "builtin.unregistered" else name
        return found

    def _last_span(self, name: str) -> Span:
        """The span of a name that was read just before the current token."""
        start = self.lexer.input.content.rfind(name, 0, self.pos)
        return Span(start, start + len(name), self.lexer.input)

    def parse_optional_attribute(self) -> Attribute | None:
        return self._positioned(super().parse_optional_attribute, self._current_token.span)

    def parse_optional_type(self) -> TypeAttribute | None:
        return self._positioned(super().parse_optional_type, self._current_token.span)

    def resolve_operand(self, operand: UnresolvedOperand, type: AttributeInvT) -> SSAValue[AttributeInvT]:
        self.first_use.setdefault(operand.operand_name, operand.span)
        return super().resolve_operand(operand, type)

    def _parse_tensor_literal_element(self) -> _LiteralElement:
        read = super()._parse_tensor_literal_element()
        return _LiteralElement(read.is_negative, read.value, read.span)

    @staticmethod
    def _positioned(parse: Callable[[], _T], start: Span) -> _T:
        """Runs a parsing function; a verifier that fails in it is an error at `start`."""
        try:
            return parse()
        except VerifyException as error:
            raise ParseError(start, str(error)) from error


def parse_module(ctx: Context, source: str | bytes, name: str, *, first_line: int = 1, implicit_module: bool = True) -> ModuleOp:
    """
    Reads a module; `name` and `first_line` say where the text stands. The result is not verified.

    Raises: CleaveError for any text that is not a module.
    """
    text = _decoded(source, name, first_line) if isinstance(source, bytes) else source
    text = "\n" * (first_line - 1) + text
    parser: LocatedParser | None = None
    try:
        parser = LocatedParser(ctx, text, name)
        module = parser.parse_module(implicit_module)
        if isinstance(module.location, UnknownLoc):
            module.location = parser.location(first_line - 1)
        return module
    except CleaveError as error:
        if error.place:
            raise
        span, found = None, "; ".join(part for part in (error.found, error.advice) if part)
    except ParseError as error:
        span, found = error.span, error.msg
    except RecursionError:
        span, found = None, "the text is nested too deeply"
    except ValueError as error:
        span, found = None, str(error)
    except Exception as error:  # xDSL meets malformed text with assertions, lookups and attribute errors too
        span, found = None, f"malformed text ({type(error).__name__}: {error})"
    raise _located(parser, span, found, name, text)


def _located(parser: LocatedParser | None, span: Span[str] | Span[bytes] | None, found: str, name: str, text: str) -> CleaveError:
    at = span.start if span is not None else parser.pos if parser is not None else 0
    op = ""
    if parser is not None:
        op = next((name for name in reversed(parser.open_ops) if name), "")
        if found.startswith("values used but not defined"):
            missing = next(iter(parser.forward_ssa_references))
            first = parser.first_use.get(missing)
            at = first.start if first is not None else at
            found = f"%{missing} is used but not defined"
        elif found == "Could not parse entire input!":
            found = f"expected an operation, found '{text[at : at + 20].split()[0]}'" if text[at:].strip() else "no operation in the input"
    at = min(max(at, 0), len(text))
    line = text.count("\n", 0, at) + 1
    return CleaveError(f"{name}:{line}:{at - text.rfind(chr(10), 0, at)}", found or "malformed text", op=op)


def _decoded(source: bytes, name: str, first_line: int) -> str:
    try:
        return source.decode("utf-8")
    except UnicodeDecodeError as error:
        before = source[: error.start].decode("utf-8")
        line = before.count("\n")
        column = len(before) - before.rfind("\n")
        raise CleaveError(f"{name}:{first_line + line}:{column}", f"byte 0x{source[error.start]:02x} is not UTF-8 text") from None


def verify(module: Operation) -> None:
    """
    Verifies an operation and all inside it, innermost first, and that every value is defined before its use.

    Raises: CleaveError at the first operation that is wrong.
    """
    for region in module.regions:
        for block in region.blocks:
            for op in block.ops:
                verify(op)
            _verify_order(block)
            if not block.ops:
                _verified(module, block.verify)
    _verified(module, lambda: module.verify(verify_nested_ops=False))


def _verified(op: Operation, check: Callable[[], None]) -> None:
    try:
        check()
    except CleaveError:
        raise
    except Exception as error:
        raise CleaveError(op, _reason(error)) from error


def _reason(error: BaseException) -> str:
    """
    What a verifier said.

    xDSL prints the module while its error is on the way; where that fails too, the verifier's error is the context.
    """
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, VerifyException):
            return str(at)
        at = at.__context__
    return f"malformed operation ({type(error).__name__}: {error})"


def _verify_order(block: Block) -> None:
    """Within a block, an operation and all inside it may use only what stands before it."""
    position = {op: index for index, op in enumerate(block.ops)}
    for op in block.ops:
        for user in op.walk():
            for index, operand in enumerate(user.operands):
                owner = operand.owner
                if isinstance(owner, Operation) and owner in position and position[owner] >= position[op]:
                    raise CleaveError(user, f"operand {index} is used before it is defined")
