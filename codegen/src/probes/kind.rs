//! The kinds of slices.

/// What the time of a role is summed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// Waiting for a stage to be filled.
    Full,
    /// Waiting for a stage to be emptied.
    Empty,
    /// Issuing loads.
    Loads,
    /// Multiplying, the wait for the products included.
    Wgmma,
    /// Softmax of an attention.
    Softmax,
    /// Giving stages back.
    Release,
    /// From sums to stored results.
    Epilogue,
    /// From one tile to the next, and from one block to the next.
    Switch,
    /// Passing on and adding partial sums.
    Merge,
}

impl Group {
    /// All, in the order of a summary.
    pub const ALL: [Self; 9] = [
        Self::Full,
        Self::Empty,
        Self::Loads,
        Self::Wgmma,
        Self::Softmax,
        Self::Release,
        Self::Epilogue,
        Self::Switch,
        Self::Merge,
    ];

    /// In words; a slice's category in a trace.
    pub fn words(self) -> &'static str {
        match self {
            Self::Full => "waiting for full",
            Self::Empty => "waiting for empty",
            Self::Loads => "issuing loads",
            Self::Wgmma => "WGMMA",
            Self::Softmax => "softmax",
            Self::Release => "release",
            Self::Epilogue => "epilogue",
            Self::Switch => "tile switch",
            Self::Merge => "split-K fix-up",
        }
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $marker:literal, $words:literal, $group:ident;)*) => {
        /// What a role does in a slice of its time. The code of a record is the number of the kind.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[$doc])* #[doc = $words] $name,)*
        }

        impl Kind {
            /// All, in the order of their codes.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Its name in the markers of templates.
            pub fn marker(self) -> &'static str {
                match self { $(Self::$name => $marker,)* }
            }

            /// The slice's name.
            pub fn words(self) -> &'static str {
                match self { $(Self::$name => $words,)* }
            }

            /// What its time counts to.
            pub fn group(self) -> Group {
                match self { $(Self::$name => Group::$group,)* }
            }
        }
    };
}

kinds! {
    Tile = "tile", "tile", Switch;
    Prologue = "prologue", "prologue", Switch;
    NextTile = "next_tile", "tile switch", Switch;
    FindBlock = "find_block", "find the block", Switch;
    WaitFull = "wait_full", "wait for a full stage", Full;
    WaitTile = "wait_tile", "wait for the work tile", Full;
    WaitQueries = "wait_queries", "wait for Q", Full;
    WaitKeys = "wait_keys", "wait for K", Full;
    WaitValues = "wait_values", "wait for V", Full;
    WaitEmpty = "wait_empty", "wait for an empty stage", Empty;
    WaitEmptyQueries = "wait_empty_queries", "wait for an empty buffer of Q", Empty;
    WaitEmptyKeys = "wait_empty_keys", "wait for an empty stage of K", Empty;
    WaitEmptyValues = "wait_empty_values", "wait for an empty stage of V", Empty;
    Load = "load", "load A and B", Loads;
    LoadTile = "load_tile", "load the work tile", Loads;
    LoadBlocks = "load_blocks", "load blocks", Loads;
    LoadPanels = "load_b_panels", "load B panels", Loads;
    LoadQueries = "load_queries", "load Q", Loads;
    LoadKeys = "load_keys", "load K", Loads;
    LoadValues = "load_values", "load V", Loads;
    Issue = "issue", "issue WGMMA", Wgmma;
    Wgmma = "wgmma", "WGMMA", Wgmma;
    Drain = "drain", "wait for the last WGMMA", Wgmma;
    Scores = "scores", "WGMMA of Q and K", Wgmma;
    Output = "output", "WGMMA with V", Wgmma;
    Turn = "turn", "wait for the other consumer", Wgmma;
    Softmax = "softmax", "softmax", Softmax;
    Release = "release", "release", Release;
    Finish = "finish", "finish the row sums", Epilogue;
    WaitOperand = "wait_operand", "wait for the epilogue's operand", Epilogue;
    Store = "store", "store subtile", Epilogue;
    WaitStores = "wait_stores", "wait for stores", Epilogue;
    WaitPart = "wait_part", "wait for a split-K partial", Merge;
    AddPart = "add_part", "add a part", Merge;
    PassOn = "pass_on", "write a split-K partial", Merge;
    // Those that the gradient of an attention alone has.
    WaitRows = "wait_rows", "wait for the tile's rows", Full;
    WaitOutput = "wait_output", "wait for O", Full;
    WaitGradients = "wait_gradients", "wait for dO", Full;
    WaitEmptyRows = "wait_empty_rows", "wait for an empty buffer of the tile's rows", Empty;
    WaitEmptyOutput = "wait_empty_output", "wait for the empty buffer of O", Empty;
    WaitEmptyGradients = "wait_empty_gradients", "wait for an empty stage of dO", Empty;
    LoadRows = "load_rows", "load the tile's rows", Loads;
    LoadOutput = "load_output", "load O", Loads;
    LoadGradients = "load_gradients", "load dO", Loads;
    Slopes = "slopes", "WGMMA of dO and V", Wgmma;
    Sums = "sums", "WGMMA of the gradients", Wgmma;
    Delta = "delta", "delta", Softmax;
    Probability = "probability", "P", Softmax;
    Slope = "slope", "dS", Softmax;
}

impl Kind {
    /// The kind of a record's code, whose lowest 8 bits it is.
    pub fn of_code(code: u32) -> Option<Self> {
        Self::ALL.get((code & 0xff) as usize).copied()
    }

    /// The code of a record with an argument below 2^24.
    pub fn code_with(self, argument: u32) -> u32 {
        self.code() + (argument << 8)
    }

    /// Its code in records.
    pub fn code(self) -> u32 {
        self as u32
    }

    /// Does the end of such a slice look whether the ring has room for more? Most of those of a consumer's innermost loop do not:
    /// one look in a turn of the loop is enough.
    pub fn looks(self) -> bool {
        !matches!(
            self,
            Self::WaitValues
                | Self::Issue
                | Self::Wgmma
                | Self::Scores
                | Self::Output
                | Self::Turn
                | Self::Softmax
                | Self::Release
                | Self::WaitGradients
                | Self::Slopes
                | Self::Sums
                | Self::Delta
                | Self::Probability
                | Self::Slope
        )
    }

    /// The kind that a marker names.
    pub(crate) fn of_marker(marker: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.marker() == marker)
    }

    /// Does the slice fill a stage that a consumer waits for? What the consumer's wait is.
    pub fn awaited_by(self) -> Option<Self> {
        match self {
            Self::Load | Self::LoadBlocks | Self::LoadPanels => Some(Self::WaitFull),
            Self::LoadTile => Some(Self::WaitTile),
            Self::LoadQueries => Some(Self::WaitQueries),
            Self::LoadKeys => Some(Self::WaitKeys),
            Self::LoadValues => Some(Self::WaitValues),
            Self::LoadRows => Some(Self::WaitRows),
            Self::LoadOutput => Some(Self::WaitOutput),
            Self::LoadGradients => Some(Self::WaitGradients),
            _ => None,
        }
    }
}
