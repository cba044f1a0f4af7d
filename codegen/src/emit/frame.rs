//! The frame of the instructions of every family: header, signature, register declarations.

use serde::Serialize;

use super::coherent::coherent;
use super::{layout, probes, registers, shortened, templates};
use crate::plan::{Parameter, Parameters, Plan, Problem};
use crate::{Arch, Op};

/// The context of `kernel.ptx.tera`.
#[derive(Clone, Debug, Serialize)]
struct Frame {
    spec: String,
    summary: String,
    /// What is computed.
    product: String,
    arch: Arch,
    entry: String,
    parameters: Vec<String>,
    directives: Vec<String>,
    shared: bool,
    registers: Vec<String>,
    body: String,
}

/// The kernel's text: the body first, since the frame declares the registers that it names.
pub(super) fn render(plan: &Plan) -> String {
    let kernel = plan.kernel();
    let body = match plan.probes() {
        None => shortened(&probes::without(&kernel.body())),
        // Shortened before, so that the instructions are those of the kernel without probes.
        Some((asked, roles)) => probes::within(&shortened(&kernel.body()), asked, roles),
    };
    let body = layout::laid_out(&coherent(plan, &body));
    let parameters = plan.parameters(&Problem::default());
    templates::render(
        "kernel.ptx",
        &Frame {
            spec: plan.spec().to_string(),
            summary: plan.summary(),
            product: product(plan),
            arch: Arch { ptx_version: ptx_version(plan), ..*plan.arch() },
            entry: plan.entry(),
            parameters: signature(&parameters, plan.spec().op),
            directives: directives(plan),
            shared: plan.shared_bytes() > 0,
            registers: registers::declarations(&body),
            body,
        },
    )
}

/// The `.version` of the architecture, or of the kernel's instructions if that is newer.
fn ptx_version(plan: &Plan) -> &'static str {
    let number = |version: &&str| version.split('.').map(|part| part.parse().unwrap_or(0)).collect::<Vec<u32>>();
    let versions = [plan.kernel().ptx_version(), Some(plan.arch().ptx_version)];
    versions.into_iter().flatten().max_by_key(number).unwrap_or_default()
}

/// The performance directives: `.minnctapersm` leaves the registers of a thread to ptxas, `.maxnreg` says them.
fn directives(plan: &Plan) -> Vec<String> {
    let said = |line: String| match plan.spec().maxnreg.filter(|_| line.starts_with(".minnctapersm")) {
        Some(registers) => format!(".maxnreg {registers}"),
        None => line,
    };
    plan.kernel().directives().into_iter().map(said).collect()
}

/// What the kernel computes, and what of it is sparse.
fn product(plan: &Plan) -> String {
    let product = |sparse: &str| format!("C[M, N] = A[M, K] * B[K, N], {sparse} in BSR.");
    let attention = |results: &str| format!("{results}O = softmax(scale * Q K^T) V, Q K^T in its stored blocks.");
    match (plan.spec().op, plan.spec().transpose.is_on()) {
        (Op::Dsd | Op::Dds, _) => product("A"),
        (Op::Sdd, false) => product("C"),
        (Op::Sdd, true) => product("C^T"),
        (Op::Dss, _) => product("A and B"),
        (Op::Sss, _) => product("A, B and C"),
        (Op::Attention, _) => attention(""),
        (Op::AttentionDq, _) => attention("dQ of "),
        (Op::AttentionDkv, _) => attention("dK and dV of "),
    }
}

/// One declaration per line, with its meaning.
fn signature(parameters: &Parameters, op: Op) -> Vec<String> {
    let last = parameters.len().saturating_sub(1);
    let line = |(i, parameter): (usize, &Parameter)| {
        let declaration = format!("{}{}", parameter.declaration(), if i == last { "" } else { "," });
        match parameter.meaning(op) {
            meaning if meaning.is_empty() => declaration,
            meaning => format!("{declaration} // {meaning}"),
        }
    };
    parameters.iter().enumerate().map(line).collect()
}
