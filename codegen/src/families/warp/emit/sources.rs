//! Where sizes and addresses come from: parameters, or the record of the work tile's problem.

use serde::Serialize;

use super::super::plan::WarpPlan;
use crate::plan::ProblemRecord;

/// What a register is set by: an instruction, and its operand.
#[derive(Clone, Serialize)]
pub(super) struct Source {
    load: &'static str,
    from: String,
}

/// The sizes of a product, and its result.
#[derive(Serialize)]
pub(super) struct Sources {
    pub(super) m: Source,
    pub(super) n: Source,
    pub(super) k: Source,
    pub(super) lda: Source,
    pub(super) ldb: Source,
    pub(super) ldc: Source,
    pub(super) c: Source,
}

impl Source {
    fn parameter(load: &'static str, name: &str) -> Self {
        Self { load, from: format!("[{name}]") }
    }

    fn record(load: &'static str, register: &str, offset: u32) -> Self {
        Self { load, from: format!("[{register} + {offset}]") }
    }

    /// The address of factor `name`, `a` or `b`.
    pub(super) fn address(plan: &WarpPlan, name: &str) -> Self {
        match plan.spec.batch.is_on() {
            false => Self::parameter("ld.param.u64", name),
            true => {
                let offset = if name == "a" { ProblemRecord::A } else { ProblemRecord::B };
                Self::record("ld.global.nc.u64", "%rd_problem", offset)
            }
        }
    }

    fn register(load: &'static str, register: &str) -> Self {
        Self { load, from: register.to_owned() }
    }
}

impl Sources {
    fn parameters() -> Self {
        let number = |name| Source::parameter("ld.param.u32", name);
        Self {
            m: number("m"),
            n: number("n"),
            k: number("k"),
            lda: number("lda"),
            ldb: number("ldb"),
            ldc: number("ldc"),
            c: Source::parameter("ld.param.u64", "c"),
        }
    }

    /// From the record at `register`.
    fn of_problem(register: &str) -> Self {
        let number = |offset| Source::record("ld.global.nc.u32", register, offset);
        Self {
            m: number(ProblemRecord::M),
            n: number(ProblemRecord::N),
            k: number(ProblemRecord::K),
            lda: number(ProblemRecord::LDA),
            ldb: number(ProblemRecord::LDB),
            ldc: number(ProblemRecord::LDC),
            c: Source::record("ld.global.nc.u64", register, ProblemRecord::C),
        }
    }

    /// Those that loads read.
    pub(super) fn of_loads(plan: &WarpPlan) -> Self {
        if !plan.spec.batch.is_on() {
            return Self::parameters();
        }
        // Every block needs K.
        Self { k: Source::register("mov.u32", "%r_problem_k"), ..Self::of_problem("%rd_problem") }
    }

    /// Those that the store reads.
    pub(super) fn of_result(plan: &WarpPlan) -> Self {
        if plan.spec.batch.is_on() { Self::of_problem("%rd_tile_problem") } else { Self::parameters() }
    }
}
