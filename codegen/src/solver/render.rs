//! The text of a method's module.

use serde::Serialize;

use super::kernels::{Method, Pointer, SolverKernel, Vector};
use super::state::{HISTORY, LINE_BYTES, Numbers};
use super::steps::Body;
use crate::Dtype;
use crate::arch::Arch;
use crate::emit::{finished, templates};

/// Threads of a warp.
const WARP: u32 = 32;
/// Warps of a CTA.
const WARPS: u32 = SolverKernel::THREADS / WARP;
/// Bytes in which the warps of a CTA pass on a sum.
const SUM_BYTES: u32 = 8 * WARPS;

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

    /// The module for vectors of f64 or f32 and blocks of 1 to 8 rows; none of others.
    pub fn new(method: Method, dtype: Dtype, block: Option<u32>) -> Option<Self> {
        let is_known = matches!(dtype, Dtype::F32 | Dtype::F64);
        let is_small = block.is_none_or(|rows| (1..=Self::MOST_ROWS).contains(&rows));
        (is_known && is_small).then_some(Self { method, dtype, block })
    }

    /// Its method.
    pub fn method(self) -> Method {
        self.method
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
        let kernels = self.method.kernels().map(|kernel| self.kernel(kernel)).collect();
        templates::render("solver/module.ptx", &Module { arch: self.arch(), kernels })
    }

    /// CTAs of every launch of a solve with so many rows.
    pub fn ctas(self, rows: u32) -> u32 {
        rows.div_ceil(WARPS * self.rows_of_warp()).clamp(1, SolverKernel::MOST_CTAS)
    }

    /// Bytes of dynamic shared memory of a kernel.
    pub fn shared_bytes(self, kernel: SolverKernel) -> u32 {
        let body = Body::of(kernel);
        SUM_BYTES * (body.totals.len() + body.dots.len()) as u32
    }

    /// The addresses that a kernel is given.
    pub fn pointers(self, kernel: SolverKernel) -> Vec<Pointer> {
        kernel.pointers(self.block.is_some())
    }

    /// Rows of a vector that a warp has at once: whole blocks.
    fn rows_of_warp(self) -> u32 {
        let block = self.block.unwrap_or(1);
        WARP / block * block
    }

    fn kernel(self, kernel: SolverKernel) -> Kernel {
        let (registers, body) = finished(&templates::render("solver/body.ptx", &self.context(kernel)));
        let mut parameters: Vec<String> =
            self.pointers(kernel).into_iter().map(|pointer| format!(".param .u64 {},", pointer.name())).collect();
        parameters.push(".param .u32 rows".to_owned());
        Kernel {
            entry: kernel.entry(),
            comment: Body::of(kernel).comment,
            threads: SolverKernel::THREADS,
            resident: SolverKernel::RESIDENT,
            parameters,
            registers,
            body,
        }
    }

    fn context(self, kernel: SolverKernel) -> Context {
        let body = Body::of(kernel);
        let (method, lines) = (self.method, self.method.iteration().len());
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
            preconditions: body.preconditions.map(|(from, to)| Preconditions {
                from: register(from),
                to: register(to),
                block: self.block.unwrap_or(0),
                columns: (0..self.block.unwrap_or(0))
                    .map(|column| Column { column, from: column * dtype_bytes })
                    .collect(),
            }),
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

fn sums(names: impl Iterator<Item = &'static str>, before: usize) -> Vec<Total> {
    names
        .zip(before as u32..)
        .map(|(name, at)| Total { name, register: format!("%d_{name}"), at: SUM_BYTES * at })
        .collect()
}

#[derive(Serialize)]
struct Module {
    arch: Arch,
    kernels: Vec<Kernel>,
}

#[derive(Serialize)]
struct Kernel {
    entry: &'static str,
    comment: &'static str,
    threads: u32,
    resident: u32,
    parameters: Vec<String>,
    registers: Vec<String>,
    body: String,
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
struct Total {
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

#[derive(Serialize)]
struct Preconditions {
    from: String,
    to: String,
    block: u32,
    columns: Vec<Column>,
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
