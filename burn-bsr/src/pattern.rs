//! Patterns: the positions of the stored blocks. They are parts of modules, and are saved with their records.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bsr::gpu::Fingerprint;
use bsr::{Refusal, Structure};
use burn::module::{
    AutodiffModule, Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor,
};
use burn::record::{PrecisionSettings, Record};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Int, Tensor, TensorData};

use crate::Error;

/// The shape of a block-sparse matrix and the positions of its stored blocks, of which there is at least one. Clones share them.
#[derive(Clone)]
pub struct Pattern {
    inner: Arc<Inner>,
}

struct Inner {
    structure: Structure,
    fingerprint: Fingerprint,
}

impl Pattern {
    /// The pattern of a structure.
    ///
    /// # Errors
    /// [`Error::Empty`] for one without blocks; [`Error::Refused`] for 2^31 blocks and more.
    pub fn new(structure: Structure) -> Result<Self, Error> {
        if structure.nnzb() == 0 {
            return Err(Error::Empty { rows: structure.rows(), cols: structure.cols() });
        }
        if i32::try_from(structure.nnzb()).is_err() {
            let fact = format!("{} blocks are not below 2^31 = 2147483648", structure.nnzb());
            let refusal = Refusal::new(fact).why("the row pointers of a record have 32 bits");
            return Err(refusal.help("split the matrix by rows").into());
        }
        let fingerprint = Fingerprint::of(&structure);
        Ok(Self { inner: Arc::new(Inner { structure, fingerprint }) })
    }

    /// Shape and positions.
    pub fn structure(&self) -> &Structure {
        &self.inner.structure
    }

    /// A digest that distinguishes the pattern from all others.
    pub fn fingerprint(&self) -> Fingerprint {
        self.inner.fingerprint
    }

    /// Rows and columns of the matrix.
    pub fn shape(&self) -> [usize; 2] {
        [self.structure().rows(), self.structure().cols()]
    }

    /// The shape of the values: blocks, and their rows and columns.
    pub fn values_shape(&self) -> [usize; 3] {
        let (bm, bk) = self.structure().block();
        [self.structure().nnzb(), bm, bk]
    }

    /// For each stored block its position among all blocks of the matrix, row by row.
    pub(crate) fn places<B: Backend>(&self, device: &B::Device) -> Tensor<B, 1, Int> {
        let structure = self.structure();
        let place =
            |row: usize, block: usize| (row * structure.block_cols()) as i64 + i64::from(structure.col_idx()[block]);
        let places: Vec<i64> = (0..structure.block_rows())
            .flat_map(|row| structure.blocks_of(row).map(move |block| place(row, block)))
            .collect();
        let count = places.len();
        Tensor::from_data(TensorData::new(places, [count]), device)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.inner.structure == other.inner.structure
    }
}

impl Eq for Pattern {}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([rows, cols], [blocks, bm, bk]) = (self.shape(), self.values_shape());
        write!(f, "{rows} x {cols}, {blocks} blocks of {bm} x {bk}, density {:.3}", self.structure().density())
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({self})")
    }
}

/// A pattern as it is saved.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PatternRecord {
    shape: [usize; 2],
    block: [usize; 2],
    row_ptr: Vec<i32>,
    col_idx: Vec<i32>,
}

impl From<&Pattern> for PatternRecord {
    fn from(pattern: &Pattern) -> Self {
        let structure = pattern.structure();
        // Blocks are fewer than 2^31.
        let row_ptr = structure.row_ptr().iter().map(|at| *at as i32).collect();
        let col_idx = structure.col_idx().to_vec();
        Self { shape: pattern.shape(), block: structure.block().into(), row_ptr, col_idx }
    }
}

impl TryFrom<PatternRecord> for Pattern {
    type Error = Error;

    fn try_from(record: PatternRecord) -> Result<Self, Error> {
        let PatternRecord { shape: [rows, cols], block: [bm, bk], row_ptr, col_idx } = record;
        Self::new(Structure::new(rows, cols, (bm, bk), row_ptr, col_idx)?)
    }
}

impl<B: Backend> Record<B> for PatternRecord {
    type Item<S: PrecisionSettings> = Self;

    fn into_item<S: PrecisionSettings>(self) -> Self {
        self
    }

    fn from_item<S: PrecisionSettings>(item: Self, _: &B::Device) -> Self {
        item
    }
}

/// A pattern as a part of a module: it is saved and loaded with the module's record.
pub(crate) struct Places<B: Backend> {
    pattern: Pattern,
    backend: PhantomData<fn(B)>,
}

impl<B: Backend> Places<B> {
    pub(crate) fn new(pattern: Pattern) -> Self {
        Self { pattern, backend: PhantomData }
    }

    pub(crate) fn pattern(&self) -> &Pattern {
        &self.pattern
    }
}

impl<B: Backend> Clone for Places<B> {
    fn clone(&self) -> Self {
        Self::new(self.pattern.clone())
    }
}

impl<B: Backend> fmt::Debug for Places<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.pattern)
    }
}

impl<B: Backend> Module<B> for Places<B> {
    type Record = PatternRecord;

    fn collect_devices(&self, devices: Devices<B>) -> Devices<B> {
        devices
    }

    fn fork(self, _: &B::Device) -> Self {
        self
    }

    fn to_device(self, _: &B::Device) -> Self {
        self
    }

    fn visit<V: ModuleVisitor<B>>(&self, _: &mut V) {}

    fn map<M: ModuleMapper<B>>(self, _: &mut M) -> Self {
        self
    }

    /// The pattern of the record.
    ///
    /// # Panics
    /// If the record has no pattern: the file is damaged.
    fn load_record(self, record: PatternRecord) -> Self {
        match Pattern::try_from(record) {
            Ok(pattern) => Self::new(pattern),
            Err(error) => panic!("the record holds no pattern: {error}"),
        }
    }

    fn into_record(self) -> PatternRecord {
        PatternRecord::from(&self.pattern)
    }
}

impl<B: AutodiffBackend> AutodiffModule<B> for Places<B> {
    type InnerModule = Places<B::InnerBackend>;

    fn valid(&self) -> Self::InnerModule {
        Places::new(self.pattern.clone())
    }

    fn from_inner(module: Self::InnerModule) -> Self {
        Self::new(module.pattern)
    }
}

impl<B: Backend> ModuleDisplayDefault for Places<B> {
    fn content(&self, content: Content) -> Option<Content> {
        content.add_formatted(&self.pattern.to_string()).optional()
    }
}

impl<B: Backend> ModuleDisplay for Places<B> {}
