//! The text of a method's module.

use serde::Serialize;

use super::frames::Frame;
use super::kernels::{Method, SolverKernel, Step};
use super::krylov::{Grid, Small};
use super::krylov_context::KrylovContext;
use super::operands::{Number, Pointer, Vector};
use super::state::{HISTORY, LINE_BYTES, Numbers};
use super::steps::Body;
use crate::Dtype;
use crate::arch::Arch;
use crate::emit::module::{Kernel, module};
use crate::emit::templates;

/// Threads of a warp.
pub(super) const WARP: u32 = 32;
/// Warps of a CTA.
pub(super) const WARPS: u32 = SolverKernel::THREADS / WARP;
/// Bytes in which the warps of a CTA pass on a sum.
pub(super) const SUM_BYTES: u32 = 8 * WARPS;

/// The kernels of a method on vectors of a type, with the inverses of diagonal blocks as preconditioner or without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SolverModule {
    method: Method,
    dtype: Dtype,
    block: Option<u32>,
}

impl SolverModule {
    /// Most rows of a diagonal block.
    pub const MOST_ROWS: u32 = 8;

    /// The module for vectors of f64 or f32, blocks of 1 to 8 rows, and cycles of 1 to [`Method::MOST_RESTART`] iterations; none
    /// of others.
    pub fn new(method: Method, dtype: Dtype, block: Option<u32>) -> Option<Self> {
        let is_known = matches!(dtype, Dtype::F32 | Dtype::F64);
        let is_small = block.is_none_or(|rows| (1..=Self::MOST_ROWS).contains(&rows));
        let is_short = (1..=Method::MOST_RESTART).contains(&method.iterations_of_cycle());
        (is_known && is_small && is_short).then_some(Self { method, dtype, block })
    }

    /// Its method.
    pub fn method(self) -> Method {
        self.method
    }

    /// Type of the vectors' elements.
    pub(super) fn dtype(self) -> Dtype {
        self.dtype
    }

    /// Rows of the blocks that it preconditions with.
    pub fn block(self) -> Option<u32> {
        self.block
    }

    /// The oldest architecture that runs it.
    pub fn arch(self) -> Arch {
        Arch::SM_70
    }

    /// Its text. The same at every call.
    pub fn ptx(self) -> String {
        let kernels = self.method.kernels().into_iter().map(|kernel| self.kernel(kernel)).collect();
        module("The vector kernels of an iterative solver.", self.arch(), kernels)
    }

    /// CTAs that share the rows of a vector.
    fn ctas(self, rows: u32) -> u32 {
        rows.div_ceil(WARPS * self.rows_of_warp()).clamp(1, self.method.most_ctas())
    }

    /// CTAs of a launch of a solve with so many rows.
    pub fn grid(self, step: Step, rows: u32) -> u32 {
        match Frame::of(step.kernel) {
            Frame::Vectors(_) => self.ctas(rows),
            Frame::Basis(krylov) => match krylov.grid {
                Grid::Rows => self.ctas(rows),
                Grid::Columns => step.column + 1,
                Grid::One => 1,
            },
        }
    }

    /// Bytes of dynamic shared memory of a kernel.
    pub fn shared_bytes(self, kernel: SolverKernel) -> u32 {
        match Frame::of(kernel) {
            Frame::Vectors(body) => SUM_BYTES * (body.totals.len() + body.dots.len()) as u32,
            Frame::Basis(_) => KrylovContext::shared_bytes(self.method),
        }
    }

    /// The addresses that a kernel is given, which are its first parameters.
    pub fn pointers(self, kernel: SolverKernel) -> Vec<Pointer> {
        Frame::of(kernel).pointers(self.block.is_some())
    }

    /// The words that follow them.
    pub fn words(self, step: Step, rows: u32) -> Vec<u32> {
        let word = |number: &Number| match number {
            Number::Rows => rows,
            Number::Column => step.column,
            Number::Ctas => self.ctas(rows),
        };
        Frame::of(step.kernel).numbers().iter().map(word).collect()
    }

    /// Bytes of memory that an address is that of, in a solve with so many rows.
    pub fn bytes(self, pointer: Pointer, rows: u32) -> u64 {
        let (element, rows, sum) = (u64::from(self.dtype.bytes()), u64::from(rows), 8 * u64::from(self.ctas(rows)));
        let columns = u64::from(self.method.iterations_of_cycle());
        match pointer {
            Pointer::State => self.method.state_bytes().into(),
            Pointer::History => 8 * u64::from(HISTORY),
            Pointer::Vector(Vector::Basis) => (columns + 1) * rows * element,
            Pointer::Vector(_) => rows * element,
            Pointer::Sum(_) => sum,
            Pointer::Inverse => {
                let block = self.block.map_or(0, u64::from);
                rows.next_multiple_of(block.max(1)) * block * element
            }
            Pointer::Projections => columns * sum,
            Pointer::Small => Small::new(self.method).bytes.into(),
        }
    }

    /// Every address that its kernels and the products between them are given.
    pub fn memory(self) -> Vec<Pointer> {
        let kernels = self.method.kernels();
        let given = kernels.iter().flat_map(|kernel| self.pointers(*kernel));
        let multiplied = kernels.iter().filter_map(|kernel| self.method.product_before(*kernel));
        let multiplied = multiplied.flat_map(|(from, to)| [from, to].map(Pointer::Vector));
        let mut all: Vec<Pointer> = given.chain(multiplied).map(|pointer| self.resolved(pointer)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Where an address is: there are no copies where there is no preconditioner.
    pub fn resolved(self, pointer: Pointer) -> Pointer {
        match pointer {
            Pointer::Vector(vector) if self.block.is_none() => Pointer::Vector(vector.without_preconditioner()),
            pointer => pointer,
        }
    }

    /// Bytes of vectors' elements that a launch on so many rows reads and writes at least, those of the inverses included.
    pub fn bytes_moved(self, step: Step, rows: u64) -> u64 {
        let (vectors, reads_inverse) = Frame::of(step.kernel).vectors_moved(self.block.is_some(), step.column);
        let inverse = self.block.filter(|_| reads_inverse).map_or(0, u64::from);
        rows * u64::from(self.dtype.bytes()) * (vectors + inverse)
    }

    /// Rows of a vector that a warp has at once: whole blocks.
    pub(super) fn rows_of_warp(self) -> u32 {
        let block = self.block.unwrap_or(1);
        WARP / block * block
    }

    fn kernel(self, kernel: SolverKernel) -> Kernel {
        let frame = Frame::of(kernel);
        let body = match &frame {
            Frame::Vectors(body) => templates::render("solver/body.ptx", &self.context(kernel, body)),
            Frame::Basis(krylov) => templates::render(krylov.template, &KrylovContext::new(self, krylov)),
        };
        let words: Vec<&str> = frame.numbers().iter().map(|number| number.name()).collect();
        Kernel::new(kernel.entry(), frame.comment(), SolverKernel::THREADS, &body)
            .parameters(self.pointers(kernel).into_iter().map(Pointer::name), &words)
            .resident(self.method.resident())
    }

    fn context(self, kernel: SolverKernel, body: &Body) -> Context {
        let (method, lines) = (self.method, self.method.lines());
        let place = method.place(kernel);
        let line = |place: usize| LINE_BYTES * (1 + place as u32);
        let is_f64 = self.dtype == Dtype::F64;
        let class = if is_f64 { "d" } else { "f" };
        let scalar = |name: &str| format!("%{class}_{name}");
        let register = |vector: Vector| scalar(vector.name());
        let mut coefficients: Vec<&'static str> = body.updates.iter().map(|update| update.coefficient).collect();
        coefficients.dedup();
        let dtype_bytes = self.dtype.bytes();
        Context {
            dtype: self.dtype.to_string(),
            is_f64,
            bytes: dtype_bytes,
            zero: if is_f64 { "0d0000000000000000" } else { "0f00000000" },
            read: line((place + lines - 1) % lines),
            write: line(place),
            scalars: method.scalars().iter().zip(1..).map(|(name, at)| Scalar { name, at: 8 * at }).collect(),
            arithmetic: body
                .scalars
                .map_or_else(String::new, |name| templates::render(name, &Scalars { status: Numbers::ALL })),
            status: Numbers::ALL,
            threads: SolverKernel::THREADS,
            checks: body.checks,
            history_mask: HISTORY - 1,
            totals: sums(body.totals.iter().map(|sum| sum.name()), 0),
            coefficients: coefficients
                .iter()
                .map(|name| Coefficient { wide: format!("%d_{name}"), register: scalar(name) })
                .collect(),
            rows_of_warp: self.rows_of_warp(),
            rows_of_cta: WARPS * self.rows_of_warp(),
            has_idle: self.rows_of_warp() < WARP,
            vectors: body.vectors(self.block.is_some()).into_iter().map(Vector::name).collect(),
            loads: body.loads.iter().map(|load| Named { name: load.name(), register: register(*load) }).collect(),
            updates: body
                .updates
                .iter()
                .map(|update| Fma {
                    to: register(update.to),
                    plus: register(update.plus),
                    coefficient: scalar(update.coefficient),
                    times: register(update.times),
                })
                .collect(),
            preconditions: body.preconditions.map(|(from, to)| Preconditions::new(self, register(from), register(to))),
            stores: body
                .stores(self.block.is_some())
                .map(|store| Named { name: store.to.name(), register: register(store.from) })
                .collect(),
            dots: body
                .dots
                .iter()
                .zip(sums(body.dots.iter().map(|dot| dot.sum.name()), body.totals.len()))
                .map(|(dot, sum)| Product { sum, a: dot.of[0].name(), b: dot.of[1].name() })
                .collect(),
            warps: (1..WARPS).map(|warp| 8 * warp).collect(),
        }
    }
}

pub(super) fn sums(names: impl Iterator<Item = &'static str>, before: usize) -> Vec<Total> {
    names
        .zip(before as u32..)
        .map(|(name, at)| Total { name, register: format!("%d_{name}"), at: SUM_BYTES * at })
        .collect()
}

/// The context of `solver/body.ptx.tera`.
#[derive(Serialize)]
struct Context {
    dtype: String,
    is_f64: bool,
    bytes: u32,
    zero: &'static str,
    /// Where the lines of the kernel before and of this one begin.
    read: u32,
    write: u32,
    scalars: Vec<Scalar>,
    /// On scalars.
    arithmetic: String,
    status: Numbers,
    threads: u32,
    checks: bool,
    history_mask: u32,
    totals: Vec<Total>,
    coefficients: Vec<Coefficient>,
    rows_of_warp: u32,
    rows_of_cta: u32,
    has_idle: bool,
    vectors: Vec<&'static str>,
    loads: Vec<Named>,
    updates: Vec<Fma>,
    preconditions: Option<Preconditions>,
    stores: Vec<Named>,
    dots: Vec<Product>,
    /// Where the sums of all warps but the first are, from that one on.
    warps: Vec<u32>,
}

/// The context of the templates of scalars.
#[derive(Serialize)]
struct Scalars {
    status: Numbers,
}

/// A scalar, and where it is in a line.
#[derive(Serialize)]
struct Scalar {
    name: &'static str,
    at: u32,
}

/// A sum of the CTA, and where its warps pass it on.
#[derive(Serialize)]
pub(super) struct Total {
    name: &'static str,
    register: String,
    at: u32,
}

/// A scalar in f64, and as an element.
#[derive(Serialize)]
struct Coefficient {
    wide: String,
    register: String,
}

#[derive(Serialize)]
struct Named {
    name: &'static str,
    register: String,
}

#[derive(Serialize)]
struct Fma {
    to: String,
    plus: String,
    coefficient: String,
    times: String,
}

/// A vector that the preconditioner is multiplied with, and the product.
#[derive(Serialize)]
pub(super) struct Preconditions {
    from: String,
    to: String,
    block: u32,
    columns: Vec<Column>,
}

impl Preconditions {
    pub(super) fn new(module: SolverModule, from: String, to: String) -> Self {
        let (block, bytes) = (module.block.unwrap_or(0), module.dtype.bytes());
        let columns = (0..block).map(|column| Column { column, from: column * bytes }).collect();
        Self { from, to, block, columns }
    }
}

/// A column of an inverse, and its offset from the row's first one.
#[derive(Serialize)]
struct Column {
    column: u32,
    from: u32,
}

#[derive(Serialize)]
struct Product {
    sum: Total,
    a: &'static str,
    b: &'static str,
}
