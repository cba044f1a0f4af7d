//! Problems on a GPU: operands, which kernels share, and kernels that are verified and timed on them.

mod case;
mod operands;
mod product;

use std::rc::Rc;

use crate::{Failure, Planned};
pub use case::{Case, Launch, Recorded};
pub(crate) use operands::Multiplied;
pub use operands::{Left, Operands};
pub(crate) use product::Product;

/// Takes the name of each step that begins, for a person who waits.
pub type Steps = Rc<dyn Fn(String)>;

/// The products or SDDMMs of one problem on a device.
pub(crate) struct OnProducts {
    pub(crate) operands: Operands,
    /// Makes the case of one kernel.
    pub(crate) build: fn(&mut Operands, Planned) -> Result<Case, Failure>,
}

impl OnDevice for OnProducts {
    fn case(&mut self, planned: Planned) -> Result<Case, Failure> {
        (self.build)(&mut self.operands, planned)
    }

    fn product(&mut self) -> Option<&mut Operands> {
        Some(&mut self.operands)
    }
}

/// A problem on a device, where kernels find its operands.
pub trait OnDevice {
    /// Loads a kernel, and makes the operands that are not there yet.
    ///
    /// # Errors
    /// Those of the device, and of a problem that does not exist in the kernel's blocks.
    fn case(&mut self, planned: Planned) -> Result<Case, Failure>;

    /// The operands of a product, which other libraries read, too; none of an attention.
    fn product(&mut self) -> Option<&mut Operands> {
        None
    }
}
