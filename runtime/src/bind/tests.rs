//! Every kind of recorded plan is launched on the simulator as far as the kernel's text: all of its parameters are bound there.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use bsr_codegen::probes::Probes;
use bsr_codegen::{Argument, Dtype, Op, Operand, Plan, Problem, Scale, TileScheduler};
use half::{bf16, f16};
use rayon::prelude::*;

use super::{Slots, bind};
use crate::attention::{Factors, HeadOrder, HostVector, Mask, ScoreInputs, Shape, SimulatedAttention, Tensor};
use crate::call::arguments::UntypedHostCall;
use crate::call::matrix::sealed::OnHost;
use crate::call::matrix::{HostDense, HostSparse, HostView};
use crate::error::KernelError;
use crate::machine::Lists;
use crate::operation::check;
use crate::operation::program_of;
use crate::simulated::{Options, Simulated, SimulatedError};
use crate::{Element, Inputs, Layout, Pattern, Permutation, Scales, Structure, e4m3, e5m2};

/// The specs of all plans whose text and launch are recorded.
const RECORDED: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../codegen/tests/fingerprints.txt"));
/// A module without a kernel.
const EMPTY: &str = ".version 8.7\n.target sm_90a\n.address_size 64\n";

/// Some sizes.
const PROBLEM: Problem = Problem { m: 1024, n: 64, k: 1024, nnzb: 4, lda: 1024, ldb: 1024, ldc: 1024, ldt: 1024 };

/// A matrix of zeros, of any type.
struct Host<'s> {
    dtype: Dtype,
    layout: Layout,
    rows: usize,
    cols: usize,
    blocks: Option<&'s Structure>,
}

#[allow(private_interfaces)]
impl OnHost for Host<'_> {
    fn view(&self) -> HostView<'_> {
        let Self { dtype, layout, rows, cols, blocks } = *self;
        match blocks {
            Some(structure) => HostView::Sparse(HostSparse { dtype, structure, memory: self }),
            None => HostView::Dense(HostDense { operand: check::Operand { dtype, layout, rows, cols }, memory: self }),
        }
    }

    fn placed(&self, _: Layout) -> (usize, Vec<u8>) {
        let bytes = self.dtype.bytes() as usize;
        if let Some(structure) = self.blocks {
            return (0, vec![0; structure.stored() * bytes]);
        }
        let (lines, line) =
            if self.layout == Layout::RowMajor { (self.rows, self.cols) } else { (self.cols, self.rows) };
        let ld = line.next_multiple_of(16 / bytes);
        (ld, vec![0; lines * ld * bytes])
    }
}

/// Columns of the dense factor, and K of an SDDMM.
const ALONG: usize = 48;

/// What a launch of the plan's operation answers.
fn launched(plan: &Plan) -> String {
    match plan.spec().op {
        Op::Attention => match (plan.spec().a, plan.spec().out) {
            (Dtype::E4M3, Dtype::F16) => attention_of::<e4m3, f16>(plan),
            (Dtype::E4M3, _) => attention_of::<e4m3, bf16>(plan),
            (Dtype::BF16, _) => attention_of::<bf16, bf16>(plan),
            _ => attention_of::<f16, f16>(plan),
        },
        _ => match plan.spec().out {
            Dtype::F16 => product_of::<f16>(plan),
            Dtype::BF16 => product_of::<bf16>(plan),
            Dtype::F32 => product_of::<f32>(plan),
            Dtype::F64 => product_of::<f64>(plan),
            Dtype::I32 => product_of::<i32>(plan),
            Dtype::E4M3 => product_of::<e4m3>(plan),
            Dtype::E5M2 => product_of::<e5m2>(plan),
            Dtype::I8 => product_of::<i8>(plan),
        },
    }
}

fn product_of<C: Element>(plan: &Plan) -> String {
    let spec = plan.spec();
    let block = (spec.bm as usize, spec.bk as usize);
    let (rows, cols) = (2 * block.0, 3 * block.1);
    let structure = Pattern::Random(0.7).structure(rows, cols, block, 0).unwrap();
    let dense = |dtype, layout, rows, cols| Host { dtype, layout, rows, cols, blocks: None };
    let sparse = |dtype| Host { dtype, layout: Layout::RowMajor, rows, cols, blocks: Some(&structure) };
    // Of two sparse factors the second, and the result.
    let bn = spec.bn as usize;
    let of_b = Pattern::Random(0.7).structure(cols, 2 * bn, (block.1, bn), 1).unwrap();
    let second = |dtype| Host { dtype, layout: Layout::RowMajor, rows: cols, cols: 2 * bn, blocks: Some(&of_b) };
    let of_c = Pattern::Random(0.7).structure(rows, 2 * bn, (block.0, bn), 2).unwrap();
    // As the kernel sees them.
    let (m, k) = if spec.transpose.is_on() { (cols, rows) } else { (rows, cols) };
    let (a, b, shape) = match spec.op {
        Op::Dds => (dense(spec.a, spec.a_layout, ALONG, m), sparse(spec.b), (ALONG, k)),
        Op::Sdd => (dense(spec.a, spec.a_layout, m, ALONG), dense(spec.b, spec.b_layout, ALONG, k), (rows, cols)),
        Op::Dss | Op::Sss => (sparse(spec.a), second(spec.b), (rows, 2 * bn)),
        _ => (sparse(spec.a), dense(spec.b, spec.b_layout, k, ALONG), (m, ALONG)),
    };
    let mut inputs = match (program_of(plan), spec.op) {
        (None, _) => Inputs::new(),
        (Some(program), Op::Sdd) => Inputs::random_blocks(program, &structure, 1),
        (Some(program), Op::Sss) => Inputs::random_blocks(program, &of_c, 1),
        (Some(program), _) => Inputs::random(program, shape, spec.c_layout, 1),
    };
    if spec.scale != Scale::Unscaled {
        inputs = inputs.scales(Scales::random(spec.scale, &structure, ALONG, 1));
    }
    if spec.permute.is_on() {
        inputs = inputs.order(Permutation::identity(shape.0));
    }
    let pattern = match spec.op {
        Op::Sdd => Some(&structure),
        Op::Sss => Some(&of_c),
        _ => None,
    };
    let call = UntypedHostCall { a: a.view(), b: b.view(), pattern, inputs };
    let (kernel, options) = (Simulated::new(plan, EMPTY, "none").unwrap(), Options::default());
    let answer = match spec.batch.is_on() {
        true => kernel.0.products::<C>(&[call], &options).map(drop),
        false => kernel.0.product::<C>(&call, &options).map(drop),
    };
    answer.map_or_else(|error| error.to_string(), |()| "a launch of nothing".to_owned())
}

fn attention_of<T: Element, O: Element>(plan: &Plan) -> String {
    let (spec, heads) = (plan.spec(), plan.attention_tiles().unwrap().heads() as usize);
    let columns = spec.bn as usize;
    let shape = Shape { batch: 2, heads: 2 * heads, key_heads: 2, queries: 40, keys: 200, columns };
    let mask = Mask::full((40, 200), (spec.bm as usize, spec.bk as usize)).unwrap();
    let tensor = |heads, rows, columns| Tensor::<T>::normal([2, heads, rows, columns], HeadOrder::HeadsFirst, 0);
    let depth = spec.score_depth() as usize;
    let tensors = [tensor(shape.heads, 40, depth), tensor(2, 200, depth), tensor(2, 200, columns)];
    let parameters = spec.score.map_or(&[][..], |score| score.program().inputs());
    let scalars = vec![0.5; parameters.iter().filter(|parameter| !parameter.kind.is_vector()).count()];
    let vectors = HostVector::examples(spec, &shape);
    let sinks = spec.sinks.is_on().then(|| vec![0.5; shape.heads]);
    let mut inputs = ScoreInputs::new(0.125).scalars(&scalars).vectors(&vectors).sinks(sinks.as_deref());
    let ones = |heads: usize, blocks: usize| vec![1.0; 2 * heads * blocks];
    let (queries, keys) = (40_usize.div_ceil(spec.bm as usize), 200_usize.div_ceil(spec.bk as usize));
    let factors = match spec.scale {
        Scale::Block => Factors::of_blocks(ones(shape.heads, queries), ones(2, keys), ones(2, keys)),
        _ => Factors::new(ones(2, 1), ones(2, 1), ones(2, 1)),
    };
    let factors = factors.unwrap();
    if spec.scale != Scale::Unscaled {
        inputs = inputs.factors(&factors);
    }
    let kernel = SimulatedAttention::new(plan, EMPTY, "none").unwrap();
    let answer = kernel.run_into::<T, O>(tensors.each_ref(), &mask, inputs, &Options::default());
    answer.map_or_else(|error| error.to_string(), |_| "a launch of nothing".to_owned())
}

/// Those plans that differ in their operation or in what their parameters are, one of each.
fn distinct() -> Vec<Plan> {
    let mut known = BTreeSet::new();
    let mut plans: Vec<Plan> = vec![];
    for line in RECORDED.lines() {
        let plan = Plan::new(&line.split_once("  ").unwrap().1.parse().unwrap()).unwrap();
        let spec = plan.spec();
        let parameters = match spec.op {
            Op::Attention => format!("{:?} {}", spec.score, spec.sinks),
            _ => plan
                .launch(&PROBLEM, [1, 1])
                .parameters
                .iter()
                .map(|parameter| parameter.name)
                .collect::<Vec<_>>()
                .join(" "),
        };
        let scheduler = std::mem::discriminant(&plan.tile_scheduler());
        let kind = format!("{} {} {} {scheduler:?} {parameters}", spec.op, spec.mma, spec.split.is_on());
        if known.insert(kind) {
            plans.push(plan);
        }
    }
    plans
}

#[test]
fn every_parameter_of_every_recorded_kind_of_plan_is_bound() {
    let plans = distinct();
    assert!(plans.len() > 100, "{} plans", plans.len());
    let probes = Probes { first: 0, ctas: 1, records: 64 };
    let wrong = |plan: &Plan| {
        let answer = launched(plan);
        // All are bound, and then there is no kernel.
        (!answer.contains("the module has no kernel `none`")).then(|| format!("{}\n  {answer}", plan.spec()))
    };
    let probed = plans.par_iter().filter_map(|plan| wrong(&plan.probed(probes).ok()?));
    let wrong: Vec<String> = plans.par_iter().filter_map(wrong).chain(probed).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), plans.len(), wrong.join("\n"));
}

#[test]
fn a_kernel_reads_a_second_index_where_a_gpu_makes_one() {
    for spec in RECORDED.lines().map(|line| line.split_once("  ").unwrap().1).filter(|spec| !spec.contains("attention"))
    {
        let plan = Plan::new(&spec.parse().unwrap()).unwrap();
        let parameters = plan.launch(&PROBLEM, [1, 1]).parameters;
        let reads = parameters.iter().any(|parameter| parameter.argument == Argument::BlockIdx);
        let indexed = !matches!(plan.tile_scheduler(), TileScheduler::StageMetadata(_) | TileScheduler::Sddmm);
        // Of two sparse factors each has an index.
        let pairs = matches!(plan.spec().op, Op::Dss | Op::Sss);
        assert_eq!(reads, indexed && (pairs || plan.reads_block_columns()), "{}", plan.spec());
    }
}

#[test]
fn a_parameter_without_a_slot_is_refused_by_name() {
    let plan = Plan::new(&"bm = 64, bn = 64, bk = 64".parse().unwrap()).unwrap();
    let kernel = Simulated::new(&plan, EMPTY, "none").unwrap();
    let mut sim = kernel.0.session(&Options::default());
    let at = sim.bytes(vec![0; 16]);
    let shape = plan.launch(&PROBLEM, [1, 1]);
    let (slots, lists) = ([Operand::A, Operand::B, Operand::C].map(|operand| (operand, at)), Lists::default());
    let lists = Lists { columns: Some(at), heads: Some(at), tiles: Some(at), ..lists };
    assert!(bind(&sim, &shape, &Slots::new(slots), &lists).is_ok_and(|values| values.len() == shape.parameters.len()));
    for (slots, lists, name) in [
        (&slots[..2], lists, "map_c"),
        (&slots[1..], lists, "map_a"),
        (&slots[..], Lists { heads: None, ..lists }, "work_head"),
        (&slots[..], Lists { columns: None, ..lists }, "col_idx"),
    ] {
        let refused = bind(&sim, &shape, &Slots::new(slots.iter().copied()), &lists);
        let Err(SimulatedError::Kernel(KernelError::Argument { parameter })) = refused else { panic!("{name}") };
        assert_eq!(parameter, name);
    }
    let mut slots = Slots::new(slots[1..].iter().copied());
    slots.operand(Operand::A, None);
    assert!(bind(&sim, &shape, &slots, &lists).is_err(), "a tensor map of nothing");
}
