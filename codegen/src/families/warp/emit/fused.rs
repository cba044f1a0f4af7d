//! The operands of an epilogue's templates: what becomes of sums between the subtile and C.

use serde::Serialize;

use super::super::plan::{VECTOR_BYTES, WarpPlan, fused, seen};
use super::full;
use crate::epilogue::{At, Held, InputKind, Lines, Program};
use crate::{Dtype, KernelSpec, Scale};

/// The register of the full operand's element.
const TILE: &str = "%f_tile";
/// The register of the only sum at the end of a line.
const LAST: &str = "%f_tail";

/// What the templates name.
#[derive(Serialize)]
pub(super) struct Fused {
    /// The register of what both tensors are multiplied by, where that is one number.
    factors: Option<&'static str>,
    uniform: Vec<String>,
    pointers: Vec<Pointer>,
    /// A line's elements of vectors, and what is computed of them.
    line: Vec<Load>,
    line_lines: Vec<String>,
    /// Bytes of an element of the full operand, and its address.
    tile: Option<Tile>,
    /// The full operand of each subtile's vectors, and those that are read before each is computed.
    ahead: Vec<Vec<full::Ahead>>,
    read_before: Vec<Vec<Vec<Place>>>,
    /// The elements of a lane's 16 bytes of C, and the one at the end of a line.
    elements: Vec<Element>,
    last: Element,
}

/// A vector of a subtile.
#[derive(Serialize)]
struct Place {
    subtile: u32,
    vector: u32,
}

/// The address of a parameter.
#[derive(Serialize)]
struct Pointer {
    register: String,
    symbol: String,
}

#[derive(Serialize)]
struct Tile {
    pointer: String,
    bytes: u32,
}

/// The element of a vector, or of the full operand.
#[derive(Serialize)]
struct Load {
    pointer: String,
    bytes: u32,
    /// Bytes from where the lane's elements begin.
    from: u32,
    bits: u32,
    /// Where it is loaded to, and how it becomes an f32 there.
    raw: String,
    to: String,
    widening: &'static str,
}

#[derive(Serialize)]
struct Element {
    loads: Vec<Load>,
    lines: Vec<String>,
    /// The element of the full operand: how it becomes an f32 where it has been read with others, or its own load.
    widened: Vec<String>,
    tile: Option<Load>,
    results: Vec<String>,
}

impl Fused {
    pub(super) fn new(plan: &WarpPlan) -> Option<Self> {
        let spec = &plan.spec;
        let program = fused::program(spec);
        let count = VECTOR_BYTES / spec.out.bytes();
        let elements = (0..count).map(|number| (number, format!("%f_out{number}")));
        fused::is_on(spec).then(|| Self {
            factors: (spec.scale == Scale::Tensor).then_some("%f_factor"),
            pointers: pointers(spec, program),
            uniform: program.map_or(vec![], |program| of(program).uniform()),
            line: line(spec, program),
            line_lines: program.map_or(vec![], |program| of(program).row(0)),
            tile: program
                .and_then(Program::tile)
                .map(|(at, dtype)| Tile { pointer: pointer(at), bytes: dtype.bytes() }),
            ahead: program.and_then(Program::tile).map_or(vec![], |(_, dtype)| ahead(plan, dtype, count)),
            read_before: (0..plan.epilogue.subtiles)
                .map(|subtile| (0..vectors(plan)).map(|vector| read_before(plan, program, subtile, vector)).collect())
                .collect(),
            elements: elements.map(|(number, acc)| Element::of_vector(spec, program, number, &acc)).collect(),
            last: Element::alone(spec, program),
        })
    }
}

impl Element {
    /// Element `number` of those of a lane, whose sum is in `acc`.
    fn of_vector(spec: &KernelSpec, program: Option<&'static Program>, number: u32, acc: &str) -> Self {
        let widened = program.and_then(Program::tile).map_or(vec![], |(_, dtype)| full::widened(dtype, number));
        Self { widened, ..Self::new(spec, program, number, acc, &full::element(number)) }
    }

    /// The one at the end of a line.
    fn alone(spec: &KernelSpec, program: Option<&'static Program>) -> Self {
        let tile =
            program.and_then(Program::tile).map(|(at, dtype)| Load::new(pointer(at), at, dtype, TILE.to_owned(), 0));
        Self { tile, ..Self::new(spec, program, 0, LAST, TILE) }
    }

    /// Without the full operand, whose element is in `tile`.
    fn new(spec: &KernelSpec, program: Option<&'static Program>, number: u32, acc: &str, tile: &str) -> Self {
        let mut loads: Vec<Load> = along(spec).map(|side| Load::factor(side, "%f_along_factor", number)).collect();
        let scaled = match spec.scale {
            Scale::Unscaled | Scale::Block => vec![],
            Scale::Tensor => vec![format!("mul.f32 {acc}, {acc}, %f_factor")],
            Scale::RowCol => ["line", "along"].map(|of| format!("mul.f32 {acc}, {acc}, %f_{of}_factor")).to_vec(),
        };
        let Some(program) = program else {
            return Self { loads, lines: vec![], widened: vec![], tile: None, results: scaled };
        };
        let lines = of(program);
        loads.extend(inputs(program, |at| lines.column_input(at, 0), |bytes| number * bytes));
        let results = lines.element(&At { acc, row: 0, column: 0, tile });
        Self { loads, lines: lines.column(0), widened: vec![], tile: None, results: [scaled, results].concat() }
    }
}

/// The full operand of a tile, subtile by subtile.
fn ahead(plan: &WarpPlan, dtype: Dtype, count: u32) -> Vec<Vec<full::Ahead>> {
    let of_subtile = |subtile| (0..vectors(plan)).map(|number| full::ahead(dtype, count, subtile, number)).collect();
    (0..plan.epilogue.subtiles).map(of_subtile).collect()
}

/// The vectors of the operand that are read before vector `vector` of `subtile` is computed. The sums of a subtile leave their registers
/// when they are staged. Its operand is read then, and from the second one on that of the next subtile, too; of f32, twice as large, half of
/// its own.
fn read_before(plan: &WarpPlan, program: Option<&'static Program>, subtile: u32, vector: u32) -> Vec<Place> {
    let is_wide = program.and_then(Program::tile).is_some_and(|(_, dtype)| dtype == Dtype::F32);
    let count = vectors(plan);
    let (subtiles, vectors) = match (is_wide, subtile) {
        (true, _) if vector == 0 => (subtile..subtile + 1, 0..count.div_ceil(2)),
        (true, _) if vector == count.div_ceil(2) => (subtile..subtile + 1, vector..count),
        (false, 0) if vector == 0 => (0..1, 0..count),
        (false, 1) if vector == 0 => (1..3, 0..count),
        (false, _) if vector == 0 => (subtile + 1..subtile + 2, 0..count),
        _ => (0..0, 0..0),
    };
    let of_subtile = |subtile: u32| vectors.clone().map(move |vector| Place { subtile, vector });
    subtiles.filter(|subtile| *subtile < plan.epilogue.subtiles).flat_map(of_subtile).collect()
}

/// Trips to memory in which a tile reads its full operand.
pub(in super::super) fn operand_trips(plan: &WarpPlan) -> u32 {
    let program = fused::program(&plan.spec).filter(|program| program.tile().is_some());
    let places =
        (0..plan.epilogue.subtiles).flat_map(|subtile| (0..vectors(plan)).map(move |vector| (subtile, vector)));
    let reads = |(subtile, vector): &(u32, u32)| !read_before(plan, program, *subtile, *vector).is_empty();
    program.map_or(0, |_| places.filter(reads).count() as u32)
}

/// Vectors of a subtile that a lane stores.
fn vectors(plan: &WarpPlan) -> u32 {
    let e = &plan.epilogue;
    e.lines / e.lines_a_pass * e.parts
}

/// A line has values of one row and one column at a time.
fn of(program: &'static Program) -> Lines {
    Lines::new(program, Held { rows: 1, columns: 1 })
}

fn pointers(spec: &KernelSpec, program: Option<&'static Program>) -> Vec<Pointer> {
    let factors = (spec.scale != Scale::Unscaled).then_some(["a", "b"]).into_iter().flatten();
    let factors =
        factors.map(|side| Pointer { register: format!("%rd_scale_{side}"), symbol: format!("scale_{side}") });
    let inputs = program.map_or(&[][..], Program::inputs).iter().enumerate();
    let inputs = inputs.filter(|(_, input)| !matches!(input.kind, InputKind::Scalar));
    factors.chain(inputs.map(|(at, input)| Pointer { register: pointer(at), symbol: input.symbol.clone() })).collect()
}

/// What is loaded once for a line: the factor of its row (or column), and elements of vectors.
fn line(spec: &KernelSpec, program: Option<&'static Program>) -> Vec<Load> {
    let across = along(spec).map(|side| Load::factor(if side == "a" { "b" } else { "a" }, "%f_line_factor", 0));
    let vectors = program.map(|program| inputs(program, |at| of(program).row_input(at, 0), |_| 0));
    across.chain(vectors.into_iter().flatten()).collect()
}

/// The operand whose factors differ along a line.
fn along(spec: &KernelSpec) -> impl Iterator<Item = &'static str> {
    let side = if seen::stores_rows(spec) { "b" } else { "a" };
    (spec.scale == Scale::RowCol).then_some(side).into_iter()
}

impl Load {
    /// An f32 factor of operand `side`.
    fn factor(side: &str, to: &str, number: u32) -> Self {
        Self::new(format!("%rd_scale_{side}"), 0, Dtype::F32, to.to_owned(), number * Dtype::F32.bytes())
    }

    fn new(pointer: String, at: usize, dtype: Dtype, to: String, from: u32) -> Self {
        let bytes = dtype.bytes();
        let (raw, widening) = match dtype {
            Dtype::F32 => (to.clone(), ""),
            Dtype::BF16 => (format!("%h_raw{at}"), "bf16"),
            _ => (format!("%h_raw{at}"), "f16"),
        };
        Self { pointer, bytes, from, bits: 8 * bytes, raw, to, widening }
    }
}

/// The loads of the vectors that `register` has a place for.
fn inputs(program: &Program, register: impl Fn(usize) -> Option<String>, from: impl Fn(u32) -> u32) -> Vec<Load> {
    let load = |(at, kind): (usize, InputKind)| {
        let dtype = kind.dtype();
        Some(Load::new(pointer(at), at, dtype, register(at)?, from(dtype.bytes())))
    };
    program.inputs().iter().map(|input| input.kind).enumerate().filter_map(load).collect()
}

fn pointer(input: usize) -> String {
    format!("%rd_vector{input}")
}
