#![deny(warnings)]
//! One way to launch: two factors and what else a kernel reads are one tuple, in device memory, on the host and on the
//! simulator, for kernels, families, lists of products and products that choose their kernel.

use bsr::attention::{DevicePattern, DeviceTensor};
use bsr::family;
use bsr::gpu::Graph;
use bsr::prelude::*;
use bsr::reference::relative_error;

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[bsr_kernel(bm = 64, bn = 64, bk = 32)]
fn spmm(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

#[bsr_kernel(bm = 64, bn = 64, bk = 64)]
fn dds(a: Dense<f16>, b: Bsr<f16>) -> Dense<f16>;

#[bsr_kernel(bm = 64, bn = 256, bk = 64)]
fn sddmm(a: Dense<f16>, b: Dense<f16>) -> Bsr<f16>;

#[bsr_kernel(bm = 64, bn = 64, bk = 32)]
fn ffn(a: Bsr<f16>, b: Dense<f16>, bias: Rows<f32>, res: Dense<f16>, alpha: f32) -> Dense<f16> {
    alpha * acc + bias + res
}

#[bsr_kernel(bm = 64, bn = 64, bk = 32)]
fn normed(a: Bsr<f16>, b: Dense<f16>) -> (Dense<f16>, Rows<f32>) {
    (acc, row_sum(acc * acc))
}

#[bsr_kernel(bm = 64, bn = 256, bk = 64)]
fn masked(a: Dense<f16>, b: Dense<f16>, mask: Bsr<f16>) -> (Bsr<f16>, Rows<f32>) {
    let x = acc * mask;
    (x, row_max(x))
}

#[bsr_kernel(bm = 64, bn = 64, bk = 32, scale = row_col)]
fn fp8(a: Bsr<e4m3>, b: Dense<e4m3>) -> Dense<bf16>;

#[bsr_kernel(bm = 64, bn = 64, bk = 32, permute = on)]
fn reordered(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

#[bsr_kernel(bm = 64, bn = 64, bk = 32, beta = on)]
fn adding(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

#[bsr_kernel(bm = 64, bn = 64, bk = 32, batch = on)]
fn listed(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

#[bsr_kernel(bm = 64, bn = 256, bk = 64, batch = on)]
fn heads(a: Dense<f16>, b: Dense<f16>) -> Bsr<f16>;

#[bsr_kernel(bm = 64, bn = [32, 64], bk = 32)]
fn widths(a: Bsr<f16>, b: Dense<f16>, bias: Rows<f32>) -> Dense<f16> {
    acc + bias
}

#[bsr_kernel(bm = 64, bn = 256, bk = 64, stages = [2, 3])]
fn depths(a: Dense<f16>, b: Dense<f16>) -> Bsr<f16>;

#[bsr_kernel(op = attention, bm = 64, bn = 64, bk = 64)]
fn attend(q: Dense<bf16>, k: Dense<bf16>, v: Dense<bf16>, scale: f32) -> Dense<bf16>;

/// Operands in device memory.
struct Given {
    sparse: DeviceBsr<f16>,
    squares: DeviceBsr<f16>,
    dense: DeviceDense<f16>,
    rows: DeviceVector<f32>,
    order: DeviceOrder,
    eights: (DeviceBsr<e4m3>, DeviceDense<e4m3>, DeviceScales),
}

/// Every form of a launch; compiled, and run where there is a GPU.
fn on_a_gpu(device: &Device, given: &Given, c: &mut DeviceDense<f16>, sampled: &mut DeviceBsr<f16>) -> Outcome {
    let Given { sparse: a, squares, dense: b, rows: bias, order, eights } = given;
    let stream = Stream::new(device)?;
    let mut sums = DeviceVector::zeros(device, c.rows())?;

    let kernel = spmm::load(device)?;
    kernel.prepare(a, b.cols())?;
    kernel.launch(&stream, (a, b), c)?;
    let mut graph = Graph::capture(&stream, |stream| kernel.launch(stream, (a, b), c))?;
    // SAFETY: the operands are borrowed, and nothing else uses C.
    unsafe { graph.launch(stream.handle())? };
    dds::load(device)?.launch(&stream, (b, squares), c)?;
    let kernel = sddmm::load(device)?;
    kernel.prepare(sampled, b.cols())?;
    kernel.launch(&stream, (b, b), sampled)?;

    // What an epilogue reads, by its names or as the type that the attribute makes; C itself where it is written.
    let kernel = ffn::load(device)?;
    kernel.launch(&stream, (a, b, ffn_inputs { bias, res: b, alpha: 0.5 }), c)?;
    kernel.launch(&stream, (a, b, ffn_inputs { bias, res: InPlace, alpha: 0.5 }), c)?;
    let by_name = DeviceInputs::new().vector("bias", bias).matrix("res", b).scalar("alpha", 0.5);
    kernel.launch(&stream, (a, b, &by_name), c)?;

    // A second result is beside the first.
    normed::load(device)?.launch(&stream, (a, b), (c, &mut sums))?;
    masked::load(device)?.launch(&stream, (b, b, masked_inputs { mask: squares }), (sampled, &mut sums))?;

    // Scales, orders, what C holds.
    let ((a8, b8, scales), mut c16) = (eights, DeviceDense::zeros(device, c.rows(), c.cols(), Layout::RowMajor)?);
    fp8::load(device)?.launch(&stream, (a8, b8, scales), &mut c16)?;
    fp8::load(device)?.launch(&stream, (a8, b8, DeviceInputs::new().scales(scales)), &mut c16)?;
    reordered::load(device)?.launch(&stream, (a, b, order), c)?;
    let kernel = adding::load(device)?;
    kernel.launch(&stream, (a, b, DeviceInputs::new().beta(0.5)), c)?;
    kernel.launch(&stream, (a, b, adding_inputs { c: InPlace, beta: 0.5 }), c)?;

    // Lists of products.
    let kernel = listed::load(device)?;
    let mut batch = kernel.batch();
    batch.push((a, b), c)?;
    batch.prepare()?.launch(&stream)?;
    let kernel = heads::load(device)?;
    let mut batch = kernel.batch();
    batch.stacked((b, b), sampled, 1)?;
    batch.prepare()?.launch(&stream)?;

    // Families, chosen by hand or by the tuner.
    let member = widths::load_where::<f16, f16, f16>(device, |spec| spec.bn == 64)?;
    member.launch(&stream, (a, b, widths_inputs { bias }), c)?;
    let problem = depths::problem(sampled.structure(), b.cols());
    let member = depths::load_for::<f16, f16, f16>(device, &family::auto(device), &problem)?;
    member.prepare(sampled, b.cols())?;
    member.launch(&stream, (b, b), sampled)?;
    widths::auto::<f16, f16, f16>(device)?.launch(&stream, (a, b, widths_inputs { bias }), c)?;

    // Products that choose their kernel, sampled ones too.
    Auto::<Dsd, f16, f16, f16>::new(device).launch(&stream, (a, b), c)?;
    let product = Auto::<Sdd, f16, f16, f16>::new(device);
    product.launch(&stream, (b, b), sampled)?;
    println!("{}", product.explain((b, b, &*sampled))?);
    masked::auto(device).launch(&stream, (b, b, masked_inputs { mask: squares }), (sampled, &mut sums))?;
    Ok(stream.synchronize()?)
}

/// An attention, whose scale is a plain number, captured.
fn attention(device: &Device, tensors: [&DeviceTensor<bf16>; 3], pattern: &DevicePattern) -> Outcome {
    let ([q, k, v], kernel, stream) = (tensors, attend::load(device)?, Stream::new(device)?);
    let mut o = DeviceTensor::uninit(device, q.sizes(), Default::default())?;
    let mut graph = Graph::capture(&stream, |stream| kernel.launch(stream, (q, k, v, 0.125), pattern, &mut o))?;
    // SAFETY: the tensors are borrowed, and nothing else uses O.
    unsafe { graph.launch(stream.handle())? };
    Ok(stream.synchronize()?)
}

/// The same from the host, with results that are new.
fn from_the_host(device: &Device, a: &Bsr<f16>, b: &Dense<f16>, order: &Permutation) -> Outcome {
    let c: Dense<f16> = spmm::load(device)?.multiply((a, b))?;
    let blocks: Bsr<f16> = sddmm::load(device)?.multiply((b, b, a.structure()))?;
    let (c, rows): (Dense<f16>, Vec<f32>) = normed::load(device)?.multiply((a, &c))?;
    let (blocks, _) = masked::load(device)?.multiply((b, b, a.structure(), masked_inputs { mask: &blocks }))?;
    let c = ffn::load(device)?.multiply((a, b, ffn_inputs { bias: &rows, res: &c, alpha: 1.0 }))?;
    let _ = (blocks, reordered::load(device)?.multiply((a, &c, order))?);
    Ok(())
}

#[test]
fn there_is_one_way_to_launch() -> Outcome {
    let _ = (on_a_gpu, from_the_host, attention);
    assert!(attend::open().map_or_else(|error| error.is_no_device(), |kernel| kernel.launcher().ctas() > 0));
    let a = Bsr::generate(Pattern::TopK(2), 128, 96, (64, 32), 0)?;
    let b = Dense::normal(96, 40, Layout::RowMajor, 1);
    let (c, report) = spmm::simulate((&a, &b), &Options::default())?;
    assert!(report.is_clean());
    let (bias, res) = ([1.0; 128], Dense::normal(128, 40, Layout::RowMajor, 2));
    let inputs = ffn_inputs { bias: &bias, res: &res, alpha: 1.0 };
    let (with_inputs, report) = ffn::simulate((&a, &b, inputs), &Options::default())?;
    assert!(report.is_clean());
    let want: Vec<f64> = c.to_f64().iter().zip(res.to_f64()).map(|(sum, res)| sum + 1.0 + res).collect();
    assert!(relative_error(&with_inputs.to_f64(), &want) < 2e-3);
    Ok(())
}
