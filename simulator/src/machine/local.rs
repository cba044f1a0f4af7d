//! The local memory of a thread.

/// Its bytes, and which of them have been written.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    pub(super) bytes: Box<[u8]>,
    pub(super) written: Box<[bool]>,
}
