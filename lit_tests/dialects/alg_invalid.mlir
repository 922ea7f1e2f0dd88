// RUN: cleave-opt %s --split-input-file --verify-diagnostics | filecheck %s

// An axis is declared before it is used.
alg.graph @f axes [m = 4] (%x: !alg.tensor<[m, n], f32>) -> (!alg.tensor<[m, n], f32>) {
  alg.yield %x
}
// CHECK: :4:1: error: alg.graph: axis 'n' is not declared by the graph; add it to the axes

// -----

// An operand has the axes that are removed.
alg.graph @f axes [m = 4, k = 5] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  %y = alg.contract %x, %x over [k] : !alg.tensor<[m], f32>
  alg.yield %y
}
// CHECK: :13:3: error: alg.contract: axis 'k' is not in the operand (has m); rename it or change the list

// -----

// An axis is removed once.
alg.graph @f axes [m = 4] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[], f32>) {
  %y = alg.reduce sum %x over [m, m] : f32
  alg.yield %y
}
// CHECK: :22:3: error: alg.reduce: an axis is listed twice

// -----

// The result type has the axes that follow.
alg.graph @f axes [m = 4, n = 5] (%x: !alg.tensor<[m], f32>, %y: !alg.tensor<[n], f32>) -> (!alg.tensor<[m], f32>) {
  %z = alg.add %x, %y : !alg.tensor<[m], f32>
  alg.yield %z
}
// CHECK: :31:3: error: alg.add: the result has axes [m] but operands and attributes give [m, n]; write those in the result type

// -----

// Results of a function of floats are floats.
alg.graph @f axes [m = 4] (%x: !alg.tensor<[m], i32>) -> (!alg.tensor<[m], i32>) {
  %y = alg.exp %x : !alg.tensor<[m], i32>
  alg.yield %y
}
// CHECK: :40:3: error: alg.exp: the result has element type i32 but a float is needed; insert an alg.cast

// -----

// Floats do not become integers by themselves.
alg.graph @f axes [m = 4] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], i32>) {
  %y = alg.add %x, %x : !alg.tensor<[m], i32>
  alg.yield %y
}
// CHECK: :49:3: error: alg.add: the result has element type i32 but an operand f32; insert an alg.cast

// -----

// Truth values are no numbers.
alg.graph @f axes [m = 4] (%x: !alg.tensor<[m], i1>) -> (!alg.tensor<[m], i1>) {
  %y = alg.mul %x, %x : !alg.tensor<[m], i1>
  alg.yield %y
}
// CHECK: :58:3: error: alg.mul: the result has element type i1, which is no number; insert an alg.cast

// -----

// Logic needs one integer type.
alg.graph @f axes [m = 4] (%x: !alg.tensor<[m], i1>, %i: !alg.tensor<[m], i32>) -> (!alg.tensor<[m], i1>) {
  %y = alg.and %x, %i : !alg.tensor<[m], i1>
  alg.yield %y
}
// CHECK: :67:3: error: alg.and: operand of element type i32 and result of i1; logic works on one integer type

// -----

// A comparison gives i1.
alg.graph @f axes [m = 4] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  %y = alg.compare lt %x, %x : !alg.tensor<[m], f32>
  alg.yield %y
}
// CHECK: :76:3: error: alg.compare: the result has element type f32; a comparison gives i1

// -----

// A condition is i1.
alg.graph @f axes [m = 4] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  %y = alg.select %x, %x, %x : !alg.tensor<[m], f32>
  alg.yield %y
}
// CHECK: :85:3: error: alg.select: the condition has element type f32; it must be i1

// -----

// Moving elements does not change their type.
alg.graph @f axes [m = 4, n = 4] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[n], f16>) {
  %y = alg.rename %x [m -> n] : !alg.tensor<[n], f16>
  alg.yield %y
}
// CHECK: :94:3: error: alg.rename: the result has element type f16 but the operand f32; insert an alg.cast

// -----

// Renamed axes have one extent.
alg.graph @f axes [m = 4, n = 5] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[n], f32>) {
  %y = alg.rename %x [m -> n] : !alg.tensor<[n], f32>
  alg.yield %y
}
// CHECK: :103:3: error: alg.rename: axis 'm' has 4 elements but the new axis 5; change one of the extents

// -----

// Two axes do not get one name.
alg.graph @f axes [m = 4, n = 4] (%x: !alg.tensor<[m, n], f32>) -> (!alg.tensor<[n], f32>) {
  %y = alg.rename %x [m -> n] : !alg.tensor<[n], f32>
  alg.yield %y
}
// CHECK: :112:3: error: alg.rename: two axes would get the same name

// -----

// A split fills its axis, unless the inner axis is declared as chunks of it.
alg.graph @f axes [m = 6, s = 4, i = 2] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[s, i], f32>) {
  %y = alg.split %x m into [s, i] : !alg.tensor<[s, i], f32>
  alg.yield %y
}
// CHECK: :121:3: error: alg.split: [s, i] has 4 * 2 elements but the new axis 6; change one of the extents

// -----

// A merge likewise.
alg.graph @f axes [m = 6, s = 4, i = 2] (%x: !alg.tensor<[s, i], f32>) -> (!alg.tensor<[m], f32>) {
  %y = alg.merge %x [s, i] into m : !alg.tensor<[m], f32>
  alg.yield %y
}
// CHECK: :130:3: error: alg.merge: [s, i] has 4 * 2 elements but the new axis 6; change one of the extents

// -----

// A slice stays inside.
alg.graph @f axes [m = 6, h = 4] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[h], f32>) {
  %y = alg.slice %x m into h from 0 step 2 : !alg.tensor<[h], f32>
  alg.yield %y
}
// CHECK: :139:3: error: alg.slice: elements 0 to 6 are not all in axis 'm', which has 6; change start, step or an extent

// -----

// An index too.
alg.graph @f axes [m = 6] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[], f32>) {
  %y = alg.index %x m at 6 : f32
  alg.yield %y
}
// CHECK: :148:3: error: alg.index: element 6 is not in axis 'm', which has 6; change the position

// -----

// Positions are over declared symbols.
alg.graph @f axes [m = 6] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[], f32>) {
  %y = alg.index %x m at N : f32
  alg.yield %y
}
// CHECK: :157:3: error: alg.index: extent 'N' uses symbol 'N', which is not declared; add it to the symbols

// -----

// Joined axes add up.
alg.graph @f axes [m = 6, n = 5, t = 12] (%x: !alg.tensor<[m], f32>, %y: !alg.tensor<[n], f32>) -> (!alg.tensor<[t], f32>) {
  %z = alg.concat %x, %y along [m, n] into t : !alg.tensor<[t], f32>
  alg.yield %z
}
// CHECK: :166:3: error: alg.concat: what is joined has 6 + 5 elements but the new axis 12; change one of the extents

// -----

// Padding makes an axis longer.
alg.graph @f axes [m = 6, t = 7] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[t], f32>) {
  %z = alg.pad %x m into t low 2 value 0.0 : !alg.tensor<[t], f32>
  alg.yield %z
}
// CHECK: :175:3: error: alg.pad: 6 elements after 2 do not fit axis 't' of 7; change low or an extent

// -----

// Indices are integers.
alg.graph @f axes [m = 6, t = 7] (%x: !alg.tensor<[m], f32>, %i: !alg.tensor<[t], f32>) -> (!alg.tensor<[t], f32>) {
  %z = alg.gather %x, %i along m : !alg.tensor<[t], f32>
  alg.yield %z
}
// CHECK: :184:3: error: alg.gather: the indices have element type f32; they must be i32, i64 or index

// -----

// A literal suits its type.
alg.graph @f axes [] () -> (!alg.tensor<[], i32>) {
  %z = alg.constant 0.5 : i32
  alg.yield %z
}
// CHECK: :193:21: error: alg.constant: '0.5' is no i32

// -----

// So in the generic form.
"builtin.module"() ({
  %0 = "alg.constant"() <{value = 1 : i1}> : () -> !alg.tensor<[], f32>
}) : () -> ()
// CHECK: :202:3: error: alg.constant: the constant true is no f32; change the literal or the type

// -----

// A constant is a number.
"builtin.module"() ({
  %0 = "alg.constant"() <{value = 0x7ff8000000000000 : f64}> : () -> !alg.tensor<[], f32>
}) : () -> ()
// CHECK: :210:3: error: alg.constant: the constant is NaN; a program may only compute one

// -----

// A value is defined before its use.
alg.graph @f axes [m = 4] () -> (!alg.tensor<[m], f32>) {
  %y = alg.exp %x : !alg.tensor<[m], f32>
  alg.yield %y
}
// CHECK: :218:16: error: alg.exp: %x is used but not defined

// -----

// A result type is a tensor.
alg.graph @f axes [m = 4] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  %y = alg.exp %x : tensor<4xf32>
  alg.yield %y
}
// CHECK: :227:21: error: alg.exp: expected !alg.tensor<[axes], element> or an element type, found tensor<4xf32>

// -----

// A tensor has an axis once, and an element type of the algebra.
alg.graph @f axes [m = 4] (%x: !alg.tensor<[m, m], f32>) -> (!alg.tensor<[m], f32>) {
  alg.yield %x
}
// CHECK: :235:32: error: alg.graph: axis 'm' is listed twice; a tensor has an axis once

// -----

alg.graph @f axes [m = 4] (%x: !alg.tensor<[m], i7>) -> (!alg.tensor<[m], f32>) {
  alg.yield %x
}
// CHECK: error: alg.graph: element type i7 is not one of f16, bf16, f32, f64, i1, i32, i64, index

// -----

// Axes and symbols are declared once.
alg.graph @f axes [m = 4, m = 5] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  alg.yield %x
}
// CHECK: error: alg.graph: axis 'm' is declared twice; rename one

// -----

alg.graph @f symbols [m] axes [m = ?] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  alg.yield %x
}
// CHECK: error: alg.graph: symbol 'm' is declared twice; rename one

// -----

// Extents are over declared symbols.
alg.graph @f axes [m = 2*N] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  alg.yield %x
}
// CHECK: error: alg.graph: extent '2*N' uses symbol 'N', which is not declared; add it to the symbols

// -----

// Words of extents are no symbols.
alg.graph @f axes [mod = ?] () -> () {
  alg.yield
}
// CHECK: error: alg.graph: 'mod' cannot name a symbol as extents use the word; choose another name

// -----

// An extent is an expression, and not negative.
alg.graph @f axes [m = 4 + ] () -> () {
  alg.yield
}
// CHECK: :{{[0-9]+}}:28: error: alg.graph: expected the name of a symbol, or an integer

// -----

alg.graph @f axes [m = 3 - 4] () -> () {
  alg.yield
}
// CHECK: :{{[0-9]+}}:24: error: alg.graph: extent -1 is negative

// -----

alg.graph @f axes [m = sum(3, 4)] () -> () {
  alg.yield
}
// CHECK: :{{[0-9]+}}:24: error: alg.graph: 'sum' is not a function of extents (min, max, ceildiv) in extent 'sum(3, 4)'

// -----

// Facts do not contradict each other.
alg.graph @f axes [m = ?(hint 5, multiple_of 2)] () -> () {
  alg.yield
}
// CHECK: error: alg.graph: hint 5 of symbol 'm' contradicts its facts; change one of them

// -----

alg.graph @f axes [m = ?(multiple_of 0)] () -> () {
  alg.yield
}
// CHECK: error: alg.graph: symbol 'm' is a multiple of 0; give a positive integer

// -----

// Chunks are of declared axes.
alg.graph @f axes [m = 4, i = 2 chunk of m by s] () -> () {
  alg.yield
}
// CHECK: error: alg.graph: axis 'i' is a chunk by axis 's', which is not declared; add it to the axes

// -----

// A layout names every axis once.
alg.graph @f axes [m = 4, n = 5] (%x: !alg.tensor<[m, n], f32> layout "m") -> (!alg.tensor<[m, n], f32>) {
  alg.yield %x
}
// CHECK: error: alg.graph: argument 0 has layout 'm' but axes [m, n]; name each axis of the type once in the layout

// -----

alg.graph @f axes [m = 4, n = 5] (%x: !alg.tensor<[m, n], f32> layout "(m n") -> (!alg.tensor<[m, n], f32>) {
  alg.yield %x
}
// CHECK: :{{[0-9]+}}:64: error: alg.graph: unmatched '(' in layout '(m n'

// -----

// One value for each result, without axes that the result lacks.
alg.graph @f axes [m = 4] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>, !alg.tensor<[m], f32>) {
  alg.yield %x
}
// CHECK: error: alg.yield: 1 values for 2 results; give one value for each result

// -----

alg.graph @f axes [m = 4, n = 5] (%x: !alg.tensor<[m, n], f32>) -> (!alg.tensor<[m], f32>) {
  alg.yield %x
}
// CHECK: error: alg.yield: value 0 has axis 'n', which result 0 lacks; reduce it or add it to the result

// -----

alg.graph @f axes [m = 4] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  alg.yield %x : !alg.tensor<[m], f16>
}
// CHECK: error: alg.yield: the values have types !alg.tensor<[m], f32>; write those

// -----

// The body ends in alg.yield or alg.alternatives.
alg.graph @f axes [m = 4] (%x: !alg.tensor<[m], f32>) -> () {
  %y = alg.exp %x : !alg.tensor<[m], f32>
}
// CHECK: error: alg.exp: Operation alg.exp terminates block in single-block region but is not a terminator

// -----

alg.graph @f axes [] () -> () {
}
// CHECK: error: alg.graph: {{.*}}

// -----

// Alternatives are alone, named differently, and there is one at least.
alg.graph @f axes [m = 4] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  %y = alg.exp %x : !alg.tensor<[m], f32>
  alg.alternatives
    alternative "a" { alg.yield %y }
}
// CHECK: error: alg.graph: alg.alternatives is not alone in the body; move the other operations into each region

// -----

alg.graph @f axes [m = 4] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  alg.alternatives
    alternative "a" { alg.yield %x }
    alternative "a" { alg.yield %x }
}
// CHECK: error: alg.alternatives: alternative 'a' is there twice; rename one

// -----

alg.graph @f axes [m = 4] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  alg.alternatives
}
// CHECK: error: alg.alternatives: there is no alternative; give at least the program as written

// -----

// A predicate is one of six, a reduction one of three.
alg.graph @f axes [m = 4] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  %y = alg.compare less %x, %x : !alg.tensor<[m], i1>
  alg.yield %y
}
// CHECK: :{{[0-9]+}}:20: error: alg.compare: {{.*}}lt

// -----

alg.graph @f axes [m = 4] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  %y = alg.reduce mean %x over [m] : f32
  alg.yield %y
}
// CHECK: :{{[0-9]+}}:19: error: alg.reduce: {{.*}}sum

// -----

// A result has the element type that it is declared with, or is a float like it.
alg.graph @f axes [m = 4, p = 6] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], i1>) {
  alg.yield %x
}
// CHECK: error: alg.yield: value 0 has element type f32 but result 0 i1; insert an alg.cast

// -----

// A result has the element type that it is declared with, or is a float like it.
alg.graph @f axes [m = 4, p = 6] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], i32>) {
  alg.yield %x
}
// CHECK: error: alg.yield: value 0 has element type f32 but result 0 i32; insert an alg.cast

// -----

// A result has the element type that it is declared with, or is a float like it.
alg.graph @f axes [m = 4, p = 6] (%x: !alg.tensor<[m], i32>) -> (!alg.tensor<[m], f32>) {
  alg.yield %x
}
// CHECK: error: alg.yield: value 0 has element type i32 but result 0 f32; insert an alg.cast

// -----

// A result has the element type that it is declared with, or is a float like it.
alg.graph @f axes [m = 4, p = 6] (%x: !alg.tensor<[m], i1>) -> (!alg.tensor<[m], f32>) {
  alg.yield %x
}
// CHECK: error: alg.yield: value 0 has element type i1 but result 0 f32; insert an alg.cast

// -----

// A result has the element type that it is declared with, or is a float like it.
alg.graph @f axes [m = 4, p = 6] (%x: !alg.tensor<[m], i32>) -> (!alg.tensor<[m], i64>) {
  alg.yield %x
}
// CHECK: error: alg.yield: value 0 has element type i32 but result 0 i64; insert an alg.cast

// -----

// A result has the element type that it is declared with, or is a float like it.
alg.graph @f axes [m = 4, p = 6] (%x: !alg.tensor<[m], index>) -> (!alg.tensor<[m], i64>) {
  alg.yield %x
}
// CHECK: error: alg.yield: value 0 has element type index but result 0 i64; insert an alg.cast

// -----

// A number is one of its type.
alg.graph @f axes [m = 4, p = 6] (%x: !alg.tensor<[m], i32>) -> (!alg.tensor<[m], i32>) {
  %c = alg.constant 99999999999 : i32
  alg.yield %c
}
// CHECK: :{{[0-9]+}}:21: error: {{.*}}99999999999 does not fit i32

// -----

// A number is one of its type.
alg.graph @f axes [m = 4, p = 6] (%x: !alg.tensor<[m], i32>) -> (!alg.tensor<[m], i32>) {
  %c = alg.constant -2147483649 : i32
  alg.yield %c
}
// CHECK: :{{[0-9]+}}:21: error: {{.*}}-2147483649 does not fit i32

// -----

// A number is one of its type.
alg.graph @f axes [m = 4, p = 6] (%x: !alg.tensor<[m], i64>) -> (!alg.tensor<[m], i64>) {
  %c = alg.constant 9223372036854775808 : i64
  alg.yield %c
}
// CHECK: :{{[0-9]+}}:21: error: {{.*}}9223372036854775808 does not fit i64

// -----

// A number is one of its type.
alg.graph @f axes [m = 4, p = 6] (%x: !alg.tensor<[m], index>) -> (!alg.tensor<[m], index>) {
  %c = alg.constant 9223372036854775808 : index
  alg.yield %c
}
// CHECK: :{{[0-9]+}}:21: error: {{.*}}9223372036854775808 does not fit index

// -----

// So is the value around what is padded.
alg.graph @f axes [m = 4, p = 6] (%x: !alg.tensor<[m], i32>) -> (!alg.tensor<[p], i32>) {
  %y = alg.pad %x m into p low 1 value 3000000000 : !alg.tensor<[p], i32>
  alg.yield %y
}
// CHECK: error: {{.*}}3000000000 does not fit i32

// -----

// In generic form as well.
alg.graph @f axes [m = 4, p = 6] (%x: !alg.tensor<[m], i32>) -> (!alg.tensor<[p], i32>) {
  %y = "alg.pad"(%x) <{axis = "m", new_axis = "p", low = #alg.extent<1>, value = 1.5 : f64}> : (!alg.tensor<[m], i32>) -> !alg.tensor<[p], i32>
  alg.yield %y
}
// CHECK: error: alg.pad: the value 1.5 is no i32; change the literal or the type

// -----

// In generic form as well.
alg.graph @f axes [m = 4, p = 6] (%x: !alg.tensor<[m], i1>) -> (!alg.tensor<[p], i1>) {
  %y = "alg.pad"(%x) <{axis = "m", new_axis = "p", low = #alg.extent<1>, value = 7 : i64}> : (!alg.tensor<[m], i1>) -> !alg.tensor<[p], i1>
  alg.yield %y
}
// CHECK: error: alg.pad: the value 7 is no i1; change the literal or the type

// -----

// In generic form as well.
alg.graph @f axes [m = 4, p = 6] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[p], f32>) {
  %y = "alg.pad"(%x) <{axis = "m", new_axis = "p", low = #alg.extent<1>, value = true}> : (!alg.tensor<[m], f32>) -> !alg.tensor<[p], f32>
  alg.yield %y
}
// CHECK: error: alg.pad: the value true is no f32; change the literal or the type

// -----

// In generic form as well.
alg.graph @f axes [m = 4, p = 6] (%x: !alg.tensor<[m], i32>) -> (!alg.tensor<[p], i32>) {
  %y = "alg.pad"(%x) <{axis = "m", new_axis = "p", low = #alg.extent<1>, value = 3000000000 : i64}> : (!alg.tensor<[m], i32>) -> !alg.tensor<[p], i32>
  alg.yield %y
}
// CHECK: error: alg.pad: the value 3000000000 does not fit i32; change the literal or the type

// -----

// In generic form as well.
alg.graph @f axes [m = 4, p = 6] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[p], f32>) {
  %y = "alg.pad"(%x) <{axis = "m", new_axis = "p", low = #alg.extent<1>, value = "zero"}> : (!alg.tensor<[m], f32>) -> !alg.tensor<[p], f32>
  alg.yield %y
}
// CHECK: error: alg.pad: "zero" is not a number; give a float, an integer or a boolean

// -----

// In generic form as well.
alg.graph @f axes [m = 4, p = 6] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[p], f32>) {
  %y = "alg.pad"(%x) <{axis = "m", new_axis = "p", low = #alg.extent<1>, value = 0x7FF8000000000000 : f64}> : (!alg.tensor<[m], f32>) -> !alg.tensor<[p], f32>
  alg.yield %y
}
// CHECK: error: alg.pad: the value is NaN; a program may only compute one
