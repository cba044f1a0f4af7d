//! What is planned can be launched: the launches of random specs on random problems keep the rules of
//! `cuTensorMapEncodeTiled` (CUDA driver API) and of launches (CUDA C++ Programming Guide), which stand here once more.
//! `BSR_SEARCH=20000` looks at so many specs.

use bsr_codegen::{
    Arch, Argument, AttentionProblem, AttentionTiles, GradientProblem, KernelSpec, LaunchShape, Layout, Op, Plan,
    Problem, TensorMap, TensorStrides,
};

use crate::random::{self, Draws};

#[test]
fn plans_can_be_launched() {
    let mut draws = Draws::new(2);
    let (mut planned, mut wrong) = (0, vec![]);
    for _ in 0..random::count(1500) {
        let spec = draws.spec();
        match Plan::new(&spec) {
            Ok(plan) => {
                planned += 1;
                wrong.extend((0..3).filter_map(|_| check(&plan, &mut draws).err()).map(|why| format!("{spec}: {why}")));
            }
            // Found when the plan was done, and not by the step that decides it.
            Err(errors) if errors.iter().any(|error| error.to_string().contains("cannot be launched")) => {
                wrong.push(format!("{spec}:\n{errors}"));
            }
            Err(_) => {}
        }
    }
    println!("{planned} plans");
    assert!(planned > 100, "{planned} plans");
    assert!(wrong.is_empty(), "{} launches:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
}

/// A result whose staging rows have one vector: there is no swizzle of 16 bytes.
#[test]
fn narrow_results_of_8_bits_can_be_launched() {
    let text = "bm = 512, bn = 16, bk = 48, dtype = e4m3, out = e4m3";
    let plan = Plan::new(&text.parse().unwrap()).unwrap();
    check(&plan, &mut Draws::new(3)).unwrap();
}

fn check(plan: &Plan, draws: &mut Draws) -> Result<(), String> {
    let (spec, arch) = (plan.spec(), plan.arch());
    let size = |draws: &mut Draws| draws.of(&[1, 7, 64, 100, 999, 4096, 100_000, (1 << 30) - 1]);
    if let Some(launch) = plan.attention_launch(&attention(spec, draws), 1 + draws.below(264) as u32) {
        return check_launch(&launch, arch);
    }
    let forward = attention(spec, draws);
    let [q, k, v, o] = forward.strides;
    let problem_of_gradient = GradientProblem { attention: forward, strides: [o, q, k, v] };
    if let Some(launch) = plan.gradient_launch(&problem_of_gradient, 1 + draws.below(264) as u32) {
        return check_launch(&launch, arch);
    }
    let problem = problem(spec, [0; 3].map(|_| size(draws)), draws);
    check_launch(&plan.launch(&problem, [1 + draws.below(264) as u32, 1]), arch)?;
    plan.problem_maps(&problem).iter().try_for_each(check_map)
}

/// Sizes, and lines that begin on 16 bytes.
fn problem(spec: &KernelSpec, [m, n, k]: [u64; 3], draws: &mut Draws) -> Problem {
    let mut line = |layout: Layout, (rows, columns): (u64, u64), bytes: u32| {
        let (length, unit) = (if layout == Layout::RowMajor { columns } else { rows }, u64::from(16 / bytes));
        length.next_multiple_of(unit) + unit * draws.below(3) as u64
    };
    Problem {
        m,
        n,
        k,
        lda: line(spec.a_layout, (m, k), spec.a.bytes()),
        ldb: line(spec.b_layout, (k, n), spec.b.bytes()),
        ldc: line(spec.c_layout, (m, n), spec.out.bytes()),
        // Its type is any of 16 and 32 bits.
        ldt: line(spec.c_layout, (m, n), 1),
        nnzb: draws.of(&[0, 1, 17, 1 << 16]),
    }
}

fn attention(spec: &KernelSpec, draws: &mut Draws) -> AttentionProblem {
    let (key_heads, group) = (draws.of(&[1, 2, 3]), draws.of(&[64, 128]));
    let (heads, queries, keys) = (key_heads * group, draws.of(&[1, 100, 5000]), draws.of(&[1, 77, 70_000]));
    let deep = u64::from(spec.score_depth());
    let mut of = |heads, rows, columns| match draws.below(2) {
        0 => TensorStrides::heads_first(heads, rows, columns),
        _ => TensorStrides::rows_first(heads, rows, columns),
    };
    let wide = u64::from(spec.bn);
    let of_values = match spec.a.is_fp8() {
        true => of(key_heads, wide, AttentionTiles::places(keys as usize) as u64),
        false => of(key_heads, keys, wide),
    };
    let strides = [of(heads, queries, deep), of(key_heads, keys, deep), of_values, of(heads, queries, wide)];
    AttentionProblem { batch: 2, heads, key_heads, queries, keys, pages: 9, strides, factors: [1, key_heads as u32] }
}

fn check_launch(launch: &LaunchShape, arch: &Arch) -> Result<(), String> {
    let LaunchShape { grid: [x, y], block, cluster, shared_bytes, .. } = *launch;
    let legal = x > 0
        && y > 0
        && x < 1 << 31
        && y < 1 << 16
        && (32..=1024).contains(&block)
        && [1, 2, 4, 8].contains(&cluster)
        && (cluster == 1 || arch.compute_capability >= (9, 0))
        && x.is_multiple_of(cluster)
        && shared_bytes <= arch.shared_bytes;
    if !legal {
        return Err(format!("{launch:?}"));
    }
    let mut bytes = 0;
    for parameter in &launch.parameters {
        bytes += 128;
        match &parameter.argument {
            Argument::Map(map) => check_map(map)?,
            Argument::Strided(map) => {
                check_numbers(&map.dims, &map.strides_bytes, &map.box_dims, map.dtype.bytes(), map.swizzle_bytes)
                    .map_err(|why| format!("{why}: {map:?}"))?;
            }
            _ => {}
        }
    }
    if bytes <= 4096 { Ok(()) } else { Err(format!("{} parameters", launch.parameters.len())) }
}

fn check_map(map: &TensorMap) -> Result<(), String> {
    let rank = map.rank as usize;
    let (dims, strides, box_dims) = (&map.dims[..rank], &map.strides_bytes[..rank - 1], &map.box_dims[..rank]);
    check_numbers(dims, strides, box_dims, map.dtype.bytes(), map.swizzle_bytes)
        .and_then(|()| if map.offset_bytes.is_multiple_of(16) { Ok(()) } else { Err("its offset") })
        .map_err(|why| format!("{why}: {map:?}"))
}

fn check_numbers(dims: &[u64], strides: &[u64], boxes: &[u32], bytes: u32, swizzle: u32) -> Result<(), &'static str> {
    let inner = boxes[0] * bytes;
    let rules = [
        ("1 to 5 dimensions", (1..=5).contains(&dims.len())),
        ("dimensions of 1 to 2^32", dims.iter().all(|dim| (1..=1 << 32).contains(dim))),
        ("strides of whole 16 bytes below 2^40", strides.iter().all(|by| by % 16 == 0 && (16..1 << 40).contains(by))),
        ("boxes of 1 to 256", boxes.iter().all(|side| (1..=256).contains(side))),
        ("box rows of whole 16 bytes", inner.is_multiple_of(16)),
        ("a swizzle of 0, 32, 64 or 128", [0, 32, 64, 128].contains(&swizzle)),
        ("box rows within the swizzle", swizzle == 0 || inner <= swizzle),
    ];
    rules.into_iter().find(|(_, holds)| !holds).map_or(Ok(()), |(rule, _)| Err(rule))
}

/// The operations and families that the search reaches.
#[test]
fn the_search_plans_every_operation() {
    let mut draws = Draws::new(2);
    let plans: Vec<Plan> = (0..1500).filter_map(|_| Plan::new(&draws.spec()).ok()).collect();
    for op in Op::ALL {
        assert!(plans.iter().filter(|plan| plan.spec().op == op).count() > 4, "{op}");
    }
    for mma in bsr_codegen::Mma::ALL {
        assert!(plans.iter().filter(|plan| plan.spec().mma == mma).count() > 4, "{mma}");
    }
}
