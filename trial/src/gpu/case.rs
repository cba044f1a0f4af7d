//! One kernel with its operands, ready to be verified and timed.

use bsr_runtime::bench::{Candidate, Work};
use bsr_runtime::gpu::{Device, FunctionAttributes, Stream, StreamRef};

use crate::verify::{Rows, Tolerance, Verdict};
use crate::{Failure, Planned};

/// What the driver says of a kernel, and what its last launch recorded if it has probes.
pub type Recorded = (FunctionAttributes, Option<Vec<u32>>);

/// One kernel with its operands.
pub struct Case {
    /// The kernel.
    pub planned: Planned,
    /// The rows that are compared.
    pub rows: Rows,
    /// The size of the problem; an attention counts its own operations and bytes.
    pub work: Work,
    /// Operations on stored blocks.
    pub flops: u64,
    /// Bytes that must move at least once.
    pub bytes: u64,
    pub(crate) tolerance: f64,
    pub(crate) device: Device,
    pub(crate) launch: Box<dyn Launch>,
}

/// A launch whose element types are known to itself alone.
pub trait Launch {
    /// Fills the result with NaN, or with a number that no sum is.
    ///
    /// # Errors
    /// Those of the device.
    fn poison(&mut self) -> Result<(), Failure>;

    /// Enqueues the kernel as it is timed.
    ///
    /// # Errors
    /// Those of the launch.
    fn launch(&mut self, stream: StreamRef<'_>) -> Result<(), Failure>;

    /// Enqueues the kernel with all of its results.
    ///
    /// # Errors
    /// Those of the launch.
    fn launch_all(&mut self, stream: StreamRef<'_>) -> Result<(), Failure> {
        self.launch(stream)
    }

    /// Copies the result to the host and compares it.
    ///
    /// # Errors
    /// Those of the device. A wrong result is a verdict, no error.
    fn verdict(&self) -> Result<Verdict, Failure>;

    /// What the driver says of a kernel of this project, and what the last launch of one with probes recorded.
    ///
    /// # Errors
    /// Those of the device.
    fn recorded(&self) -> Result<Option<Recorded>, Failure> {
        Ok(None)
    }
}

impl Case {
    /// Runs the kernel into a poisoned result and compares.
    ///
    /// # Errors
    /// Those of the device. A wrong result is a verdict, no error.
    pub fn run(&mut self) -> Result<Verdict, Failure> {
        let stream = Stream::new(&self.device)?;
        self.launch.poison()?;
        self.launch.launch_all(stream.handle())?;
        stream.synchronize()?;
        self.launch.verdict()
    }

    /// Poisons the result, so that [`Case::verdict`] is on what is launched from now on.
    ///
    /// # Errors
    /// Those of the device.
    pub fn poison(&mut self) -> Result<(), Failure> {
        self.launch.poison()
    }

    /// Compares the result, after all work on the device.
    ///
    /// # Errors
    /// Those of the device.
    pub fn verdict(&self) -> Result<Verdict, Failure> {
        self.launch.verdict()
    }

    /// The bounds of a right result: those that are asked for, or else what types and lengths of sums lead to.
    pub fn tolerance(&self, asked: Option<f64>) -> Tolerance {
        asked.map_or(Tolerance::strict(self.tolerance), Tolerance::norm)
    }

    /// GB/s of the bytes that must move, in `us` microseconds; 0 for no time.
    pub fn hbm_gbs(&self, us: f64) -> f64 {
        if us > 0.0 { self.bytes as f64 / us / 1e3 } else { 0.0 }
    }

    /// What the driver says of the kernel, and what the last launch of one with probes recorded.
    ///
    /// # Errors
    /// Those of the device.
    pub fn recorded(&self) -> Result<Option<Recorded>, Failure> {
        self.launch.recorded()
    }

    /// The kernel as something to time.
    pub fn candidate(&mut self) -> Candidate<'_> {
        let launch = &mut self.launch;
        Candidate::new(self.planned.spec().to_string(), move |stream: StreamRef<'_>| launch.launch(stream))
    }
}
