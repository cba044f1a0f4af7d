//! What is launched and how it is run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::global::{BufferId, GlobalMemory};
use super::map_bytes;
use super::tensor_map::TensorMapDesc;
use crate::program::Program;
use crate::program::target::Target;
use crate::schedule::Schedule;

/// A kernel parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Param {
    /// A tensor map of 128 bytes, passed by value.
    TensorMap(TensorMapDesc),
    /// The address of a buffer.
    Buffer(BufferId),
    /// The address of a buffer plus bytes.
    BufferAt(BufferId, u64),
    /// A 32-bit value.
    U32(u32),
    /// A 64-bit value.
    U64(u64),
    /// A single-precision value.
    F32(f32),
    /// A value of any size, for instance a structure.
    Bytes(Vec<u8>),
    /// A structure: its bytes, and what lies at places within it: tensor maps, addresses, values.
    Structure(u32, Vec<(u32, Param)>),
}

impl GlobalMemory {
    /// Writes a parameter into a buffer, as a host's copy of a structure would.
    ///
    /// # Errors
    /// A place that is not in the buffer.
    pub fn put(&mut self, id: BufferId, at: u32, param: &Param) -> Result<(), String> {
        let (start, bytes) = (at as usize, param.bytes() as usize);
        let mut data = vec![0; bytes];
        param.write(&mut data, self);
        let all = self.bytes_mut(id);
        let most = all.len();
        match all.get_mut(start..start + bytes) {
            Some(here) => here.copy_from_slice(&data),
            None => return Err(format!("{bytes} bytes at {at} end at {}, and it has {most}", start + bytes)),
        }
        param.maps(at).into_iter().for_each(|(place, map)| self.place_map(id, u64::from(place), map.clone()));
        Ok(())
    }
}

impl Param {
    fn bytes(&self) -> u32 {
        match self {
            Self::TensorMap(_) => 128,
            Self::Buffer(_) | Self::BufferAt(..) | Self::U64(_) => 8,
            Self::U32(_) | Self::F32(_) => 4,
            Self::Bytes(bytes) => bytes.len() as u32,
            Self::Structure(bytes, _) => *bytes,
        }
    }

    /// The tensor maps in it, with their places from `at` on.
    fn maps(&self, at: u32) -> Vec<(u32, &TensorMapDesc)> {
        match self {
            Self::TensorMap(map) => vec![(at, map)],
            Self::Structure(_, fields) => fields.iter().flat_map(|(place, field)| field.maps(at + place)).collect(),
            _ => Vec::new(),
        }
    }

    /// Writes its bytes.
    fn write(&self, out: &mut [u8], memory: &GlobalMemory) {
        let mut put = |bytes: &[u8]| out[..bytes.len()].copy_from_slice(bytes);
        match self {
            Self::TensorMap(map) => put(&map_bytes::write(map, memory)),
            Self::Buffer(id) => put(&memory.address(*id).to_le_bytes()),
            Self::BufferAt(id, plus) => put(&memory.address(*id).wrapping_add(*plus).to_le_bytes()),
            Self::U32(v) => put(&v.to_le_bytes()),
            Self::U64(v) => put(&v.to_le_bytes()),
            Self::F32(v) => put(&v.to_le_bytes()),
            Self::Bytes(v) => put(v),
            Self::Structure(_, fields) => {
                fields.iter().for_each(|(place, field)| field.write(&mut out[*place as usize..], memory));
            }
        }
    }

    /// Whether it can be passed at a place of this alignment.
    fn check(&self, align: u32, memory: &GlobalMemory) -> Result<(), String> {
        match self {
            Self::TensorMap(_) if align < 64 => {
                Err(format!("a tensor map parameter is aligned to 64 bytes; this one to {align}"))
            }
            Self::TensorMap(map) => map.check(memory),
            Self::Buffer(id) | Self::BufferAt(id, _) if !memory.has(*id) => Err("the buffer does not exist".into()),
            Self::Structure(bytes, fields) => fields.iter().try_for_each(|(place, field)| {
                let (end, size) = (u64::from(*place) + u64::from(field.bytes()), field.bytes());
                if end > u64::from(*bytes) {
                    return Err(format!("at {place}: {place} + {size} bytes = {end}, and it has {bytes}"));
                }
                let align = if *place == 0 { align } else { align.min(1 << place.trailing_zeros()) };
                field.check(align, memory).map_err(|reason| format!("at {place}: {reason}"))
            }),
            _ => Ok(()),
        }
    }
}

/// The shape of a launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Blocks of a cluster in x, y, z; `[1, 1, 1]` without clusters.
    pub cluster: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// The kernel's parameters, in order.
    pub params: Vec<Param>,
}

/// How `wgmma` adds products of FP8 operands to the accumulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fp8Accumulate {
    /// In single precision, like products of 16-bit operands.
    #[default]
    Single,
    /// As measured on Hopper (DeepSeek-V3 Technical Report, section 3.5.2): within one instruction the accumulator
    /// and all products are aligned to the largest of them and keep 14 bits from its leading bit on; lower bits
    /// are cut off, towards zero.
    Reduced,
}

/// How to run it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Draws the order of everything that may happen in any order. The same seed gives the same run.
    pub seed: u64,
    /// How asynchronous work and threads are ordered.
    pub schedule: Schedule,
    /// Look for races, missing fences and reads of unwritten bytes.
    pub races: bool,
    /// The launch begins while an earlier kernel of the stream still runs (programmatic dependent launch): every buffer
    /// that is not [settled](GlobalMemory::settle) may still be written by it, and an access that is not ordered after a
    /// `griddepcontrol.wait` is a finding. Parameters and tensor maps are complete from the start. Needs `races`.
    pub dependent: bool,
    /// `elect.sync` elects the lowest lane, on which CUTLASS relies. The ISA allows any, and scrambled schedules draw one.
    pub lowest_leader: bool,
    /// How products of FP8 operands are summed.
    pub fp8: Fp8Accumulate,
    /// Record who writes which bytes of global memory; see [`Report::writers`](crate::Report).
    pub writers: bool,
    /// Record a trace of the run; see [`Report::trace`](crate::Report).
    pub trace: bool,
    /// Warp instructions after which a cluster is stopped.
    pub max_steps: u64,
    /// Distinct findings after which a cluster is stopped.
    pub max_findings: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            schedule: Schedule::Scrambled,
            races: true,
            dependent: false,
            lowest_leader: false,
            fp8: Fp8Accumulate::Single,
            writers: false,
            trace: false,
            max_steps: 200_000_000,
            max_findings: 16,
        }
    }
}

/// Why a launch cannot be made: what the driver would refuse.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LaunchError(pub(crate) String);

/// The message, as a `main` that returns the error prints it.
impl fmt::Debug for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Registers of a multiprocessor, the same on every target.
const REGISTER_FILE: u32 = 65_536;

impl Launch {
    pub(crate) fn check(&self, p: &Program, memory: &GlobalMemory) -> Result<(), LaunchError> {
        let refused = |text: String| Err(LaunchError(text));
        let threads = product(self.block);
        if threads == 0 || threads > 1024 {
            return refused(format!("a block has 1 to 1024 threads; {:?} is {threads}", self.block));
        }
        for i in 0..3 {
            if self.cluster[i] == 0 || !self.grid[i].is_multiple_of(self.cluster[i]) {
                return refused(format!(
                    "the grid {:?} is not a multiple of the cluster {:?}",
                    self.grid, self.cluster
                ));
            }
        }
        if product(self.cluster) > 8 {
            return refused(format!(
                "a portable cluster has at most 8 blocks; {:?} is {}",
                self.cluster,
                product(self.cluster)
            ));
        }
        if product(self.cluster) > 1 && p.target < Target::Sm90 {
            return refused(format!(
                "clusters of {:?} in a kernel for {}; the first target that has them is {}",
                self.cluster,
                p.target.name(),
                Target::Sm90.name()
            ));
        }
        if product(self.grid) == 0 {
            return refused(format!("the grid {:?} has no block", self.grid));
        }
        if product(self.grid) > 1 << 31 {
            return refused(format!("the grid {:?} is too large", self.grid));
        }
        if let Some(r) = p.limits.req_ntid
            && r != self.block
        {
            return refused(format!(
                "the kernel requires a block of {r:?} threads (.reqntid) and {:?} is launched",
                self.block
            ));
        }
        if let Some(m) = p.limits.max_ntid
            && threads > u64::from(m)
        {
            return refused(format!("the kernel allows {m} threads a block (.maxntid) and {threads} are launched"));
        }
        if let Some(c) = p.limits.cluster
            && c != self.cluster
        {
            return refused(format!(
                "the kernel requires clusters of {c:?} (.reqnctapercluster) and {:?} is launched",
                self.cluster
            ));
        }
        let shared = u64::from(p.static_shared) + u64::from(self.shared_bytes);
        let most = p.target.shared_bytes();
        if shared > u64::from(most) {
            return refused(format!(
                "{} static + {} dynamic = {shared} bytes of shared memory; a block of {} has {most}",
                p.static_shared,
                self.shared_bytes,
                p.target.name()
            ));
        }
        if self.params.len() != p.params.len() {
            let [wanted, found] = [p.params.len(), self.params.len()];
            return refused(format!("the kernel takes {wanted} parameters and {found} are given"));
        }
        for (index, (decl, param)) in p.params.iter().zip(&self.params).enumerate() {
            let name = &decl.name;
            if decl.bytes != param.bytes() {
                let sizes = format!("{} bytes and the value given has {}", decl.bytes, param.bytes());
                return refused(format!("parameter {index} `{name}` is {sizes}"));
            }
            let refuse = |reason: String| refused(format!("parameter {index} `{name}`: {reason}"));
            param.check(decl.align, memory).or_else(refuse)?;
        }
        match memory.bad_maps().next() {
            Some((address, reason)) => refused(format!("the tensor map at {address:#x}: {reason}")),
            None => Ok(()),
        }
    }

    pub(crate) fn threads(&self) -> u32 {
        product(self.block) as u32
    }

    /// Registers a thread starts with: the compiler's cap from the kernel's directives.
    pub(crate) fn registers_at_entry(&self, p: &Program) -> u32 {
        let cap = p.limits.req_ntid.map(|r| product(r) as u32).or(p.limits.max_ntid).unwrap_or_else(|| self.threads());
        let threads = cap.next_multiple_of(32).max(32);
        let by_file = REGISTER_FILE / (threads * p.limits.min_ctas) / 8 * 8;
        p.limits.max_nreg.unwrap_or(u32::MAX).min(by_file).min(255)
    }

    /// The parameter bytes.
    pub(crate) fn parameter_bytes(&self, p: &Program, memory: &GlobalMemory) -> Vec<u8> {
        let mut out = vec![0; p.param_bytes as usize];
        for (decl, param) in p.params.iter().zip(&self.params) {
            param.write(&mut out[decl.offset as usize..], memory);
        }
        out
    }

    /// The tensor maps among the parameters, by their places in parameter space.
    pub(crate) fn parameter_maps(&self, p: &Program) -> BTreeMap<u32, Arc<TensorMapDesc>> {
        let all = p.params.iter().zip(&self.params);
        all.flat_map(|(decl, param)| param.maps(decl.offset)).map(|(at, map)| (at, Arc::new(map.clone()))).collect()
    }
}

pub(crate) fn product(v: [u32; 3]) -> u64 {
    v.iter().map(|x| u64::from(*x)).product()
}
