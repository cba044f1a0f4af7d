//! The lists of a launch in the memory of a machine.

/// Clusters that get work, as a grid, and where the lists of their work are.
pub(crate) type Work<A> = ([u32; 2], Lists<A>);

/// Where the lists of a launch are. A list that the operation does not have has no address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lists<A> {
    /// The work plan's heads.
    pub(crate) heads: Option<A>,
    /// The work tiles.
    pub(crate) tiles: Option<A>,
    /// The block columns; the steps of an attention.
    pub(crate) columns: Option<A>,
    /// The numbers of the blocks in storage.
    pub(crate) blocks: Option<A>,
    /// The stage metadata, or the unions of block rows that share tiles.
    pub(crate) stage_metadata: Option<A>,
    /// The tensor maps of a batch.
    pub(crate) maps: Option<A>,
    /// The records of a batch's problems.
    pub(crate) problems: Option<A>,
    /// Where CTAs pass on partial sums: any address where none do.
    pub(crate) workspace: Option<A>,
    /// The rings of a probed kernel.
    pub(crate) probes: Option<A>,
}

impl<A> Default for Lists<A> {
    fn default() -> Self {
        Self {
            heads: None,
            tiles: None,
            columns: None,
            blocks: None,
            stage_metadata: None,
            maps: None,
            problems: None,
            workspace: None,
            probes: None,
        }
    }
}
