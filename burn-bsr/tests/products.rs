//! Products, gradients and layers on the CPU, beside the same with dense matrices.

#![cfg(feature = "ndarray")]
#![allow(clippy::unwrap_used)]

#[path = "../examples/train/model.rs"]
#[allow(dead_code)]
mod model;

use bsr::Structure;
use burn::backend::{Autodiff, NdArray};
use burn::module::{AutodiffModule, Module};
use burn::nn::LinearConfig;
use burn::record::{BinBytesRecorder, FullPrecisionSettings, Recorder};
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, Tolerance};
// The crate under another name, as a renamed dependency has it.
use burn_bsr as burn_sparse;
use burn_bsr::{BlockSparseLinear, BsrBackend, BsrGemm, BsrTensor, Call, FirstUse, GemmConfig, Keep, Pattern};

type Plain = NdArray<f32>;
type Graph = Autodiff<Plain>;

/// Whole blocks, and blocks that extend beyond the edge.
const SHAPES: [(usize, usize, (usize, usize)); 3] = [(64, 48, (16, 16)), (50, 37, (16, 8)), (7, 90, (8, 32))];

fn drawn<B: Backend>(rows: usize, cols: usize, seed: u64) -> Tensor<B, 2> {
    model::drawn([rows, cols], 1.0, seed, &Default::default())
}

fn sparse<B: Backend>(rows: usize, cols: usize, block: (usize, usize)) -> BsrTensor<B> {
    BsrTensor::from_dense(drawn(rows, cols, 1), block, Keep::Fraction(0.5)).unwrap()
}

fn same<B: Backend, const D: usize>(found: &Tensor<B, D>, exact: &Tensor<B, D>) {
    found.to_data().assert_approx_eq::<f32>(&exact.to_data(), Tolerance::absolute(1e-4));
}

#[test]
fn the_product_is_that_of_the_whole_matrix() {
    for (rows, cols, block) in SHAPES {
        let a = sparse::<Plain>(rows, cols, block);
        let stored = a.pattern().structure().nnzb();
        assert_eq!(stored, (rows.div_ceil(block.0) * cols.div_ceil(block.1)).div_ceil(2), "half of the blocks");
        let (whole, b) = (a.to_dense(), drawn(cols, 9, 2));
        same(&BsrGemm::auto_tuned(&a, b.clone(), GemmConfig::default()), &whole.clone().matmul(b));
        let (b, config) = (drawn(rows, 9, 3), GemmConfig { transpose: true, ..GemmConfig::default() });
        same(&BsrGemm::auto_tuned(&a, b.clone(), config), &whole.transpose().matmul(b));
        let (whole, b) = (a.to_dense(), drawn(cols, 9, 4));
        same(&burn_sparse::BsrGemm::auto_tuned(a, b.clone(), GemmConfig::default()), &whole.matmul(b));
    }
}

#[test]
fn the_blocks_that_stay_have_the_largest_norms() {
    let mut numbers = vec![0.1f32; 16];
    [5, 10].into_iter().for_each(|at| numbers[at] = 3.0);
    let dense = Tensor::<Plain, 1>::from_floats(numbers.as_slice(), &Default::default()).reshape([4, 4]);
    let kept = BsrTensor::from_dense(dense.clone(), (2, 2), Keep::Fraction(0.5)).unwrap();
    assert_eq!(
        (kept.pattern().structure().row_ptr(), kept.pattern().structure().col_idx()),
        (&[0, 1, 2][..], &[0, 1][..])
    );
    let whole = kept.to_dense().to_data().to_vec::<f32>().unwrap();
    let expected = [0.1, 0.1, 0.0, 0.0, 0.1, 3.0, 0.0, 0.0, 0.0, 0.0, 3.0, 0.1, 0.0, 0.0, 0.1, 0.1];
    assert_eq!(whole, expected);
}

/// The gradients of a product, and of the same with a dense matrix whose gradient is cut to the stored blocks.
#[test]
fn gradients_are_those_of_the_whole_matrix() {
    for (rows, cols, block) in SHAPES {
        for transpose in [false, true] {
            let (values, pattern) = sparse::<Graph>(rows, cols, block).into_parts();
            let values = values.detach().require_grad();
            let a = BsrTensor::new(values.clone(), pattern.clone()).unwrap();
            let whole = a.to_dense().detach().require_grad();
            let inner = if transpose { rows } else { cols };
            let (b, other) = (drawn::<Graph>(inner, 5, 2).require_grad(), drawn::<Graph>(inner, 5, 2).require_grad());
            let config = GemmConfig { transpose, ..GemmConfig::default() };
            // A square has gradients that depend on the result.
            let found = BsrGemm::auto_tuned(&a, b.clone(), config).powf_scalar(2.0).sum().backward();
            let dense = if transpose { whole.clone().transpose() } else { whole.clone() };
            let exact = dense.matmul(other.clone()).powf_scalar(2.0).sum().backward();
            let scale = 1e-2;
            same(&(b.grad(&found).unwrap() * scale), &(other.grad(&exact).unwrap() * scale));
            let exact = whole.grad(&exact).unwrap();
            let [high, wide] = [rows.div_ceil(block.0) * block.0, cols.div_ceil(block.1) * block.1];
            let padded = Tensor::<Plain, 2>::zeros([high, wide], &Default::default());
            let padded = padded.slice_assign([0..rows, 0..cols], exact);
            let grad = values.grad(&found).unwrap();
            for (at, (row, col)) in places(&pattern).into_iter().enumerate() {
                let there =
                    padded.clone().slice([row * block.0..(row + 1) * block.0, col * block.1..(col + 1) * block.1]);
                let here = grad.clone().narrow(0, at, 1).reshape([block.0, block.1]);
                same(&(here * scale), &(there * scale));
            }
        }
    }
}

/// SDDMM has gradients too, so that gradients have gradients.
#[test]
fn sddmm_has_gradients() {
    let (rows, cols, block) = SHAPES[1];
    let pattern = sparse::<Graph>(rows, cols, block).into_parts().1;
    let (y, x) = (drawn::<Graph>(6, rows, 4).require_grad(), drawn::<Graph>(6, cols, 5).require_grad());
    let float = |tensor: &Tensor<Graph, 2>| tensor.clone().into_primitive().tensor();
    let blocks = Graph::bsr_sddmm(float(&y), float(&x), &pattern, Call::default());
    let blocks = Tensor::<Graph, 3>::from_primitive(burn::tensor::TensorPrimitive::Float(blocks));
    let found = blocks.powf_scalar(2.0).sum().backward();
    // The same with a mask of ones at the stored blocks.
    let ones = Tensor::<Graph, 3>::ones(pattern.values_shape(), &Default::default());
    let mask = BsrTensor::new(ones, pattern).unwrap().to_dense();
    let (y2, x2) = (y.clone().detach().require_grad(), x.clone().detach().require_grad());
    let exact = (y2.clone().transpose().matmul(x2.clone()) * mask).powf_scalar(2.0).sum().backward();
    same(&(y.grad(&found).unwrap() * 1e-2), &(y2.grad(&exact).unwrap() * 1e-2));
    same(&(x.grad(&found).unwrap() * 1e-2), &(x2.grad(&exact).unwrap() * 1e-2));
}

fn places(pattern: &Pattern) -> Vec<(usize, usize)> {
    let structure = pattern.structure();
    let of_row = |row: usize| structure.blocks_of(row).map(move |block| (row, structure.col_idx()[block] as usize));
    (0..structure.block_rows()).flat_map(of_row).collect()
}

#[test]
fn a_layer_of_all_blocks_is_the_dense_one() {
    let device = Default::default();
    let dense = LinearConfig::new(40, 24).init::<Plain>(&device);
    let layer = BlockSparseLinear::from_linear(&dense, (8, 16), Keep::Fraction(1.0)).unwrap();
    let x = drawn::<Plain>(6, 40, 3).reshape([2, 3, 40]);
    same(&layer.forward(x.clone()), &dense.forward(x.clone()));
    let half = BlockSparseLinear::from_linear(&dense, (8, 16), Keep::Fraction(0.5)).unwrap();
    assert_eq!(half.pattern().structure().nnzb(), 5, "9 blocks, of which half stay");
    same(&half.forward(x.clone()), &half.to_linear().forward(x));
}

#[test]
fn a_layer_takes_the_pattern_of_its_record() {
    let device = Default::default();
    let pattern = |columns: Vec<i32>| Pattern::new(Structure::new(32, 48, (16, 16), vec![0, 1, 3], columns).unwrap());
    let saved = BlockSparseLinear::<Plain>::init(pattern(vec![2, 0, 1]).unwrap(), true, &device);
    let recorder = BinBytesRecorder::<FullPrecisionSettings>::default();
    let bytes = recorder.record(saved.clone().into_record(), ()).unwrap();
    let other = BlockSparseLinear::<Plain>::init(pattern(vec![0, 0, 2]).unwrap(), true, &device);
    assert_ne!(other.pattern(), saved.pattern());
    let loaded = other.load_record(recorder.load(bytes, &device).unwrap());
    assert_eq!(loaded.pattern(), saved.pattern());
    let x = drawn::<Plain>(5, 48, 6);
    assert_eq!(loaded.forward(x.clone()).to_data(), saved.forward(x).to_data());
    assert!(format!("{saved}").contains("32 x 48, 3 blocks of 16 x 16"), "{saved}");
}

#[test]
fn a_layer_is_trained_and_used_without_gradients() {
    let losses = model::train::<Graph>(30, &Default::default()).unwrap();
    assert!(losses.iter().all(|loss| loss.is_finite()), "{losses:?}");
    assert!(losses[29] < 0.5 * losses[0], "{losses:?}");
    let again = model::train::<Graph>(3, &Default::default()).unwrap();
    assert_eq!(again, losses[..3]);
    let network = model::Network::<Graph>::new(1, &Default::default()).unwrap();
    let x = drawn::<Plain>(4, model::FEATURES, 7);
    let valid = network.valid().forward(x.clone());
    same(&valid, &network.forward(Tensor::from_inner(x)).inner());
}

#[test]
fn what_does_not_fit_is_refused() {
    let a = sparse::<Plain>(64, 48, (16, 16));
    let refused = BsrGemm::try_auto_tuned(&a, drawn(40, 3, 1), GemmConfig::default()).unwrap_err().to_string();
    assert!(refused.contains("a dense factor of 40 x 3, and the columns 48"), "{refused}");
    let values = Tensor::<Plain, 3>::zeros([2, 16, 16], &Default::default());
    let refused = BsrTensor::new(values, a.pattern().clone()).unwrap_err().to_string();
    assert!(refused.contains("[2, 16, 16], but the pattern has 6 blocks of 16 x 16"), "{refused}");
    let zeros = Tensor::<Plain, 2>::zeros([8, 8], &Default::default());
    let refused = BsrTensor::from_dense(zeros, (4, 4), Keep::Fraction(0.5)).unwrap_err().to_string();
    assert!(refused.contains("8 x 8 matrix has no stored block"), "{refused}");
    let bias = Tensor::<Plain, 1>::zeros([3], &Default::default());
    let refused = BlockSparseLinear::new(a, Some(bias)).err().unwrap().to_string();
    assert!(refused.contains("the bias has 3 elements, but the layer has 64 outputs"), "{refused}");
    assert_eq!(GemmConfig::default().first_use, FirstUse::Predict);
}
