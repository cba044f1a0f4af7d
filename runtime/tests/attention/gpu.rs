//! The table on a real GPU.

use std::sync::Arc;

use bsr_codegen::Dtype;
use bsr_runtime::attention::{
    DeviceFactors, DevicePages, DeviceTensor, HostPages, Inputs, Launcher, Tensor, UploadedVectors,
};
use bsr_runtime::gpu::{Device, DeviceBuffer, DeviceVector, Plain, Stream};
use bsr_runtime::{Element, e4m3};
use half::{bf16, f16};

use crate::device::device;
use crate::table::{self, Case};
use crate::{Operands, plan, wrong};
use crate::{clusters, lists, warps};

#[test]
fn every_case_on_a_gpu() {
    let Some((_turn, device)) = device() else { return };
    let cases = [
        table::blocks(),
        table::patterns(),
        table::tensors(),
        table::divided(),
        table::packed(),
        table::vectors(),
        table::sinks(),
        table::paged(),
        table::depths(),
        table::all_columns(),
        table::steep(),
        table::eight_bits(),
    ];
    run(&device, cases.into_iter().flatten());
}

#[test]
fn every_cluster_on_a_gpu() {
    let Some((_turn, device)) = device() else { return };
    run(&device, clusters::cases().into_iter());
}

#[test]
fn every_list_in_parameters_on_a_gpu() {
    let Some((_turn, device)) = device() else { return };
    run(&device, lists::cases().into_iter());
}

#[test]
fn every_case_of_warps_on_a_gpu() {
    let Some((_turn, device)) = device() else { return };
    let cases =
        [warps::blocks(), warps::patterns(), warps::tensors(), warps::scores(), warps::choices(), warps::all_columns()];
    let runs = |case: &Case| device.check_target(plan(case).arch().target).is_ok();
    run(&device, cases.into_iter().flatten().filter(runs));
}

pub(crate) fn run(device: &Device, cases: impl Iterator<Item = Case>) {
    let cases: Vec<Case> = cases.collect();
    let fault = |case: &Case| {
        let spec = *plan(case).spec();
        let checked = match (spec.a, spec.out) {
            (Dtype::E4M3, Dtype::BF16) => launch::<e4m3, bf16>(device, case).map(|_| ()),
            (Dtype::E4M3, _) => launch::<e4m3, f16>(device, case).map(|_| ()),
            (Dtype::BF16, _) => launch::<bf16, bf16>(device, case).map(|_| ()),
            _ => launch::<f16, f16>(device, case).map(|_| ()),
        };
        checked.err().map(|error| format!("{}, {:?}: {error}", case.spec, case.shape))
    };
    let faults: Vec<String> = cases.iter().filter_map(fault).collect();
    assert!(faults.is_empty(), "{} of {} cases:\n{}", faults.len(), cases.len(), faults.join("\n"));
}

/// Computes a case twice: the results are right, and the same bit by bit.
pub(crate) fn launch<T: Element + Plain, O: Element + Plain>(
    device: &Device,
    case: &Case,
) -> Result<Tensor<O>, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let operands = Operands::<T>::new(case);
    let launcher = Launcher::load(device, &plan(case)).map_err(|error| text(&error))?;
    let paged = case.lengths.as_ref().zip(plan(case).spec().page).map(|(lengths, page)| {
        let [_, k, v] = operands.each();
        HostPages::new(k, v, lengths, page as usize).unwrap()
    });
    let pattern = match &paged {
        Some(HostPages { shape, table, lengths, .. }) => {
            let pages = DevicePages::upload(device, *shape, table, lengths).map_err(|error| text(&error))?;
            launcher.paged(&Arc::new(pages), case.shape)
        }
        None => launcher.pattern(&case.mask, case.shape),
    };
    let pattern = pattern.map_err(|error| text(&error))?;
    let [q, k, v] = operands.each();
    let [k, v] = paged.as_ref().map_or([k, v], |paged| [&paged.keys, &paged.values]);
    let by_column = (T::DTYPE.is_fp8() && paged.is_none()).then(|| v.by_column());
    let v = by_column.as_ref().unwrap_or(v);
    let [q, k, v] = [q, k, v].map(|tensor| DeviceTensor::upload(device, tensor).unwrap());
    let vectors = UploadedVectors::new(device, &case.vectors).unwrap();
    let vectors = vectors.each();
    let sinks = operands.sinks.as_deref().map(|sinks| DeviceVector::upload(device, sinks).unwrap());
    let factors = operands.factors.as_ref().map(|factors| DeviceFactors::upload(device, factors).unwrap());
    let stream = Stream::new(device).unwrap();
    let mut results = vec![];
    for _ in 0..2 {
        let mut output = DeviceTensor::<O>::uninit(
            device,
            [q.sizes()[0], q.sizes()[1], q.sizes()[2], case.shape.columns],
            case.order,
        )
        .unwrap();
        output.fill_bytes(O::POISON_BYTE).unwrap();
        let mut sums = DeviceBuffer::<f32>::uninit(device, case.shape.rows()).unwrap();
        sums.fill_bytes(0xFF).unwrap();
        let inputs = Inputs::from((&q, &k, &v, operands.scale)).scalars(case.scalars).vectors(&vectors);
        let inputs = inputs.sinks(sinks.as_ref()).factors(factors.as_ref());
        let launched = launcher.launch(&stream, inputs, &pattern, &mut output, Some(&mut sums));
        launched.map_err(|error| text(&error))?;
        stream.synchronize().map_err(|error| text(&error))?;
        results.push((output.download().map_err(|error| text(&error))?, sums.to_vec().unwrap()));
    }
    let (output, sums) = &results[0];
    wrong(case, &operands, (output, sums))?;
    let bits = |at: usize| (O::to_bytes(results[at].0.data()), f32::to_bytes(&results[at].1));
    if bits(0) != bits(1) {
        return Err("two launches differ".to_owned());
    }
    Ok(results.swap_remove(0).0)
}
