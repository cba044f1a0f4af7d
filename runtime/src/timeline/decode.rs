//! From the words of the rings to slices of each role's time.

use bsr_codegen::probes::{HEADER_BYTES, Kind, Probes, RECORD_BYTES, Roles};
use bsr_codegen::{Plan, Refusal};

/// Which clock the records were written by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// A GPU's: cycles of each multiprocessor, laid over `%globaltimer`'s nanoseconds.
    Gpu,
    /// The simulator's cost model: cycles from the launch, which say nothing of a GPU's time.
    Simulator,
}

/// What the roles of some CTAs did.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The kernel's spec.
    pub spec: String,
    /// Which clock it is by.
    pub clock: Clock,
    /// The CTAs that recorded something, by number.
    pub ctas: Vec<Cta>,
    pub(super) roles: Roles,
}

/// One CTA.
#[derive(Clone, Debug)]
pub struct Cta {
    /// Its number in the grid.
    pub number: u32,
    /// The multiprocessor that it ran on.
    pub multiprocessor: u32,
    /// Its roles, producers first.
    pub tracks: Vec<Track>,
}

/// What one role of a CTA did.
#[derive(Clone, Debug)]
pub struct Track {
    /// The number of the role.
    pub role: usize,
    /// What it is called.
    pub name: String,
    /// Records that the role wrote or would have written.
    pub counted: usize,
    /// Records that its ring has: the first ones.
    pub kept: usize,
    /// Without gaps, in order.
    pub slices: Vec<Slice>,
    /// The tiles that it began, in order.
    pub tiles: Vec<Tile>,
    /// Cycles from the kernel's first instruction to the role's end.
    pub from: u64,
    /// See `from`.
    pub to: u64,
    /// `%clock64` and `%globaltimer` at the role's begin and at its end.
    pub(super) anchors: [(u64, u64); 2],
}

/// A part of a role's time, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// What the role did.
    pub kind: Kind,
    /// When it began.
    pub from: u64,
    /// When it ended, and the next slice began.
    pub to: u64,
    /// The stage, or the number of the subtile; 0 where there is nothing to say.
    pub argument: u32,
}

/// The begin of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// When it began.
    pub at: u64,
    /// Which one it is, see [`bsr_codegen::probes::TileName`].
    pub place: [u32; 3],
}

const HEADER: usize = HEADER_BYTES as usize / 4;
/// Words of a header: the bytes of header and records, the multiprocessor, the clock at the kernel's first instruction, which the
/// first ring of a CTA has for all.
const BYTES: usize = 8;
const MULTIPROCESSOR: usize = 10;
const ENTERED: usize = 11;
const RECORD: usize = RECORD_BYTES as usize / 4;

impl Timeline {
    /// Reads what a probed plan's kernel left in its rings.
    ///
    /// # Errors
    /// Records of another kernel, or none.
    pub fn new(plan: &Plan, words: &[u32], clock: Clock) -> Result<Self, Refusal> {
        let (probes, roles) = plan.probes().ok_or_else(|| {
            Refusal::new("the kernel has no probes, so it recorded nothing").help("a plan that `Plan::probed` made")
        })?;
        let expected = probes.bytes(roles) / 4;
        if words.len() != expected {
            let found = words.len();
            return Err(Refusal::new(format!("{found} words of records; the rings of this plan have {expected}")));
        }
        let mut ctas = vec![];
        let rings = words.chunks_exact(probes.ring_bytes() as usize / 4);
        let rings: Vec<&[u32]> = rings.collect();
        for (number, of_cta) in (probes.first..).zip(rings.chunks_exact(roles.count() as usize)) {
            let mut tracks = Vec::<Track>::new();
            for (role, ring) in of_cta.iter().enumerate() {
                tracks.extend(track((probes, roles), role, (number, of_cta[0][ENTERED]), ring)?);
            }
            if let Some(first) = tracks.first() {
                ctas.push(Cta { number, multiprocessor: of_cta[first.role][MULTIPROCESSOR], tracks });
            }
        }
        if ctas.is_empty() {
            let (first, last) = (probes.first, probes.first + probes.ctas - 1);
            return Err(Refusal::new(format!("none of the CTAs {first} to {last} wrote a record"))
                .why("the grid has fewer, or they had nothing to do")
                .help("CTA 0 is always there"));
        }
        Ok(Self { spec: plan.spec().to_string(), clock, ctas, roles: *roles })
    }
}

/// One role's ring; nothing of a role that has not come to its end.
fn track(
    (probes, roles): (&Probes, &Roles),
    role: usize,
    (cta, entered): (u32, u32),
    ring: &[u32],
) -> Result<Option<Track>, Refusal> {
    let (header, records) = ring.split_at(HEADER);
    let wide = |at: usize| u64::from(header[at]) | u64::from(header[at + 1]) << 32;
    let anchors = [(wide(0), wide(2)), (wide(4), wide(6))];
    let counted = probes.counted(header[BYTES]) as usize;
    if counted == 0 {
        return Ok(None);
    }
    let name = roles.name(role);
    let kept = counted.min(probes.room() as usize);
    let (mut slices, mut tiles) = (vec![], Vec::<Tile>::new());
    // The first slice began before the header was written. Times of records are low halves, each not far behind the last.
    let behind = (anchors[0].0 as u32).wrapping_sub(entered);
    let from = anchors[0].0.saturating_sub(u64::from(behind));
    let mut now = from;
    for (number, record) in records.chunks_exact(RECORD).take(kept).enumerate() {
        let &[end, code] = record else { continue };
        let argument = code >> 8;
        let Some(kind) = Kind::of_code(code) else {
            let (place, kinds) = (format!("record {number} of {name} of CTA {cta}"), Kind::ALL.len());
            return Err(Refusal::new(format!("{place} has the code {code}, and kinds have codes below {kinds}"))
                .help("read the records with the plan of the kernel that wrote them"));
        };
        if kind == Kind::Tile {
            if argument == 0 {
                tiles.push(Tile { at: now, place: [0; 3] });
            }
            if let Some(word) = tiles.last_mut().and_then(|tile| tile.place.get_mut(argument as usize)) {
                *word = end;
            }
            continue;
        }
        let to = now + u64::from(end.wrapping_sub(now as u32));
        slices.push(Slice { kind, from: now, to, argument });
        now = to;
    }
    Ok(Some(Track { role, name, counted, kept, slices, tiles, from, to: anchors[1].0.max(now), anchors }))
}
