//! A linear layer with a block-sparse weight.

use bsr::FirstUse;
use bsr::prune::Keep;
use burn::module::{Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::backend::Backend;
use burn::tensor::{Distribution, Tensor};

use crate::backend::{primitive, tensor};
use crate::pattern::Places;
use crate::{BsrBackend, BsrTensor, Call, Error, Pattern, dense};

/// `x W^T + bias` with a weight of which only some blocks are stored and trained.
///
/// The pattern is part of the module's record: a layer takes the pattern of the record that it loads.
#[derive(Module, Debug)]
pub struct BlockSparseLinear<B: Backend> {
    /// The values of the stored blocks: blocks x rows x columns.
    pub weight: Param<Tensor<B, 3>>,
    /// One number for each output.
    pub bias: Option<Param<Tensor<B, 1>>>,
    places: Places<B>,
    #[module(skip)]
    first_use: FirstUse,
}

impl<B: Backend> BlockSparseLinear<B> {
    /// A layer with this weight, `outputs x inputs`, and bias.
    ///
    /// # Errors
    /// [`Error::Bias`].
    pub fn new(weight: BsrTensor<B>, bias: Option<Tensor<B, 1>>) -> Result<Self, Error> {
        let (values, pattern) = weight.into_parts();
        let outputs = pattern.shape()[0];
        if let Some(bias) = bias.as_ref().map(|bias| bias.dims()[0]).filter(|&bias| bias != outputs) {
            return Err(Error::Bias { bias, outputs });
        }
        let (weight, bias) = (Param::from_tensor(values), bias.map(Param::from_tensor));
        Ok(Self { weight, bias, places: Places::new(pattern), first_use: FirstUse::default() })
    }

    /// A layer with random numbers, drawn uniformly as [`LinearConfig`] does for the inputs that an output has on average.
    pub fn init(pattern: Pattern, bias: bool, device: &B::Device) -> Self {
        let [outputs, inputs] = pattern.shape();
        let bound = 1.0 / (inputs as f64 * pattern.structure().density()).max(1.0).sqrt();
        let drawn = Distribution::Uniform(-bound, bound);
        let values = Tensor::<B, 3>::random(pattern.values_shape(), drawn, device);
        // Zeros beyond the edge of the matrix.
        let values = dense::blocks(dense::whole(values, &pattern), &pattern);
        let bias = bias.then(|| Param::from_tensor(Tensor::<B, 1>::random([outputs], drawn, device)));
        let (weight, places) = (Param::from_tensor(values), Places::new(pattern));
        Self { weight, bias, places, first_use: FirstUse::default() }
    }

    /// A layer with the blocks of a dense one that have the largest norms. Its outputs are rows: `block` is of outputs x
    /// inputs, transposed from how Burn stores the weight.
    ///
    /// # Errors
    /// As [`BsrTensor::from_dense`].
    pub fn from_linear(linear: &Linear<B>, block: (usize, usize), keep: Keep) -> Result<Self, Error> {
        let weight = BsrTensor::from_dense(linear.weight.val().detach().transpose(), block, keep)?;
        Self::new(weight, linear.bias.as_ref().map(|bias| bias.val().detach()))
    }

    /// Sets how a kernel is chosen on a GPU for a product without measurements.
    #[must_use]
    pub fn with_first_use(mut self, first_use: FirstUse) -> Self {
        self.first_use = first_use;
        self
    }

    /// The positions of the weight's blocks.
    pub fn pattern(&self) -> &Pattern {
        self.places.pattern()
    }

    /// The weight, which shares the layer's values.
    pub fn matrix(&self) -> BsrTensor<B> {
        match BsrTensor::new(self.weight.val(), self.pattern().clone()) {
            Ok(matrix) => matrix,
            Err(error) => unreachable!("the layer was made of them: {error}"),
        }
    }

    /// A dense layer that computes the same, with zeros in place of blocks that are not stored.
    pub fn to_linear(&self) -> Linear<B> {
        let ([outputs, inputs], weight) = (self.pattern().shape(), self.matrix().to_dense().detach().transpose());
        let mut linear = LinearConfig::new(inputs, outputs).with_bias(false).init(&weight.device());
        linear.weight = Param::from_tensor(weight);
        linear.bias = self.bias.as_ref().map(|bias| Param::from_tensor(bias.val().detach()));
        linear
    }
}

impl<B: BsrBackend> BlockSparseLinear<B> {
    /// The layer's result; the last dimension of `x` is that of the inputs.
    ///
    /// # Panics
    /// If the number of inputs differs, as Burn's own layers do.
    pub fn forward<const D: usize>(&self, x: Tensor<B, D>) -> Tensor<B, D> {
        let ([outputs, inputs], mut shape) = (self.pattern().shape(), x.dims());
        let rows = shape[..D - 1].iter().product::<usize>();
        if shape[D - 1] != inputs {
            panic!("{}", Error::Inner { rows, cols: shape[D - 1], side: "features", inner: inputs });
        }
        let call = Call { transpose: false, first_use: self.first_use };
        let flat = primitive(x.reshape([rows, inputs]));
        let y: Tensor<B, 2> = tensor(B::bsr_linear(flat, primitive(self.weight.val()), self.pattern(), call));
        let y = match &self.bias {
            Some(bias) => y + bias.val().unsqueeze(),
            None => y,
        };
        shape[D - 1] = outputs;
        y.reshape(shape)
    }
}
