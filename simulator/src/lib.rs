//! Runs PTX text for `sm_70` to `sm_90a`, and for `sm_120`, on the CPU and checks its asynchronous protocol.
//!
//! [`parse`] turns PTX text into a [`Module`]; [`simulate`] executes one launch of a kernel on [`GlobalMemory`] and
//! gives a [`Report`]: everything that is wrong, and what the run cost. The crate knows PTX and the ISA only.
//!
//! ```
//! use bsr_simulator::{GlobalMemory, Launch, Options, Param, parse, simulate};
//! let module = parse("
//! .version 8.0
//! .target sm_90a
//! .address_size 64
//! .visible .entry twice(.param .u64 data) {
//!     .reg .b64 %rd<3>;
//!     .reg .b32 %r<3>;
//!     ld.param.u64 %rd0, [data];
//!     mov.u32 %r0, %tid.x;
//!     mad.wide.u32 %rd1, %r0, 4, %rd0;
//!     ld.global.u32 %r1, [%rd1];
//!     add.u32 %r1, %r1, %r1;
//!     st.global.u32 [%rd1], %r1;
//!     ret;
//! }").unwrap();
//! let mut memory = GlobalMemory::new();
//! let data = memory.upload((0..64u32).flat_map(u32::to_le_bytes).collect(), 16);
//! let launch = Launch { grid: [1; 3], cluster: [1; 3], block: [64, 1, 1], shared_bytes: 0, params: vec![Param::Buffer(data)] };
//! let report = simulate(&module, "twice", &launch, &mut memory, &Options::default()).unwrap();
//! assert!(report.findings.is_empty());
//! assert_eq!(memory.bytes(data)[4..8], [2, 0, 0, 0]);
//! ```
//!
//! # How it works
//!
//! * **Threads** run warp by warp; a diverged warp is several *fragments*, each with its own program counter, that
//!   join where they meet. Instructions that need threads together (`.aligned`, `.sync` with a member mask) wait for
//!   them.
//! * **Asynchronous work** (copies, the tensor core) is queued when it is issued and done when the [`Schedule`] says:
//!   at once, as late as possible, or in an order drawn from the seed. Loads may arrive in parts.
//! * **Happens-before** is tracked with vector clocks: every thread has a component, its `cp.async` have one, and so has
//!   every other asynchronous operation. Each byte of shared memory records its last writer and the readers since;
//!   two accesses that conflict and are not ordered are a [`FindingKind::Race`], even if the result came out right. The
//!   clocks also carry which writes a `fence.proxy.async` has made visible to the asynchronous proxy.
//! * **Clusters** run in parallel on private copies of what they write; two clusters that touch the same bytes, one
//!   of them writing, are reported, unless both do so by strong accesses (volatile, relaxed and up) or atomics. The clusters of
//!   a kernel that uses global atomics or strong accesses run in turns on one memory: what one releases at a place and
//!   another acquires there is ordered, if the scopes reach that far, and a strong vector load of data that was not so
//!   handed over is a finding. Without clusters every block is one by itself.
//! * **Polls**: a warp that comes back to a strong access in the very same state, while nothing has changed, waits
//!   for a change; clusters of which each only waits so are a deadlock.
//! * **Dependent launches** ([`Options::dependent`]): an earlier kernel may still be writing every buffer that is not
//!   [settled](GlobalMemory::settle); an access that no `griddepcontrol.wait` is ordered before is a finding.
//! * **Targets**: an instruction that the module's `.target` or `.version` does not have is refused when the text is
//!   read, and a launch keeps to the shared memory of the target's device and to clusters from `sm_90` on.
//!
//! # Numeric model
//!
//! Products of 16-bit and 8-bit floats are exact; `wgmma`, `mma` and `wmma` add them to the accumulator in single
//! precision in the order of k, rounding to nearest each time; a 16-bit accumulator is rounded once an instruction. The
//! tensor core adds the products of one instruction in an order and with a rounding of its own: results differ in the
//! last bits of single precision (relative Frobenius distance at most 1.8e-7 over 130 layouts on an H200, see
//! `AGREEMENT.md`), and agree after rounding to 16 bits but for ties.
//!
//! Products of integers are exact and summed in 32 bits, which wrap, or stop at their ends under `.satfinite`.
//!
//! `wgmma` of FP8 keeps fewer bits: [`Fp8Accumulate::Reduced`] models that, single precision is the default. `mma` of
//! FP8 is summed in single precision always.
//!
//! # Limits
//!
//! mbarrier operations that name no scope (`.cta` by the ISA) order accesses in the whole cluster, as hardware does;
//! a scope that is named counts. Textures, surfaces, calls through an address and recursion are not modelled and refused; so are `wmma` of
//! integers, TF32 and f64, and what stands in the table of refusals. The variables of a module begin each launch with their initial
//! values; `vprintf` prints nothing. Conflicts of shared-memory banks and latencies of loads are
//! not in the cost model.
//!
//! # Instructions
//!
#![doc = include_str!("../INSTRUCTIONS.md")]

mod address;
mod arithmetic;
mod asyncs;
mod check;
mod clusters;
mod coverage;
mod deadlock;
mod exec;
mod machine;
mod parse;
mod program;
mod report;
mod run;
mod schedule;
mod signature;
mod trace;

pub use check::{Finding, FindingKind, Side};
pub use coverage::{Coverage, Statement};
pub use machine::global::{BufferId, GlobalMemory};
pub use machine::im2col::Im2col;
pub use machine::launch::{Fp8Accumulate, Launch, LaunchError, Options, Param};
pub use machine::tensor_map::{Swizzle, TensorElement, TensorMapDesc};
pub use parse::{ParseError, Span};
pub use program::{INSTRUCTIONS, Instruction, Module, Origin, instruction_table, parse};
pub use report::{Report, Writer, simulate};
pub use schedule::Schedule;
pub use signature::{Parameter, Role, Signature};
pub use trace::Cost;
