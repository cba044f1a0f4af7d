//! What clusters do to each other in global memory.

use std::ops::Range;

use crate::check::{Finding, FindingKind, Side};
use crate::machine::launch::Options;
use crate::machine::overlay::{Changes, Touch, merge};
use crate::program::Program;

/// Bytes that `ld.global.nc` reads and some thread writes: they are no constants. The first such pair is enough.
pub(crate) fn read_only_path(p: &Program, clusters: &[&Changes], options: &Options) -> Option<Finding> {
    let all = |list: fn(&Changes) -> &Vec<Touch>| {
        let mut touches: Vec<(Touch, u32)> =
            clusters.iter().zip(0..).flat_map(|(o, c)| list(o).iter().map(move |t| (*t, c))).collect();
        touches.sort_unstable_by_key(|(t, _)| t.start);
        touches
    };
    let reads = all(|changes| &changes.constant);
    if reads.is_empty() {
        return None;
    }
    let longest = reads.iter().map(|(t, _)| t.end - t.start).max().unwrap_or(0);
    let writes = all(|changes| &changes.writes).into_iter().chain(all(|changes| &changes.strong_writes));
    let (write, read) = writes.into_iter().find_map(|(w, c)| {
        let from = reads.partition_point(|(t, _)| t.start < w.start.saturating_sub(longest));
        let mut near = reads[from..].iter().take_while(|(t, _)| t.start < w.end);
        near.find(|(t, _)| t.end > w.start).map(|r| ((w, c), *r))
    })?;
    let side = |(t, c): (Touch, u32), does: &str| {
        let (line, text, section) = p.describe(t.pc);
        Side { line, text, section, cta: 0, warp: 0, lanes: 0, does: format!("{does} them in cluster {c}") }
    };
    Some(Finding {
        kind: FindingKind::ReadOnlyPath,
        message: format!(
            "ld.global.nc reads global bytes from {:#x} that the kernel writes: it may return what was there before; use \
             ld.global",
            write.0.start.max(read.0.start)
        ),
        sides: vec![side(read, "reads"), side(write, "writes")],
        addresses: Some(write.0.start.max(read.0.start)..write.0.end.min(read.0.end)),
        cluster: read.1,
        seed: options.seed,
        times: 1,
    })
}

/// How bytes of global memory are touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    WeakRead,
    WeakWrite,
    StrongRead,
    StrongWrite,
}

impl Access {
    /// Accesses of another cluster that race with this one: one of the two writes, and one is weak.
    fn conflicts(self) -> &'static [Self] {
        match self {
            Self::WeakRead => &[Self::WeakWrite, Self::StrongWrite],
            Self::WeakWrite => &[Self::WeakRead, Self::WeakWrite, Self::StrongRead, Self::StrongWrite],
            Self::StrongRead => &[Self::WeakWrite],
            Self::StrongWrite => &[Self::WeakRead, Self::WeakWrite],
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::WeakRead | Self::WeakWrite => "this access is weak: .relaxed.gpu or an atomic on both sides",
            Self::StrongRead | Self::StrongWrite => "the other access is weak: .relaxed.gpu or an atomic on both sides",
        }
    }
}

/// Bytes, the cluster that touches them, and how.
type Touched = (Touch, u32, Access);

/// Everything that clusters touch, joined where it is adjacent.
pub(crate) fn touches(clusters: &[&Changes]) -> Vec<Touched> {
    let of = |(changes, c): (&&Changes, u32)| {
        let lists = [
            (&changes.reads, Access::WeakRead),
            (&changes.writes, Access::WeakWrite),
            (&changes.strong_reads, Access::StrongRead),
            (&changes.strong_writes, Access::StrongWrite),
        ];
        let joined = |(list, access): (&Vec<Touch>, Access)| {
            let mut list = list.clone();
            merge(&mut list);
            list.into_iter().map(move |t| (t, c, access))
        };
        lists.into_iter().flat_map(joined).collect::<Vec<_>>()
    };
    clusters.iter().zip(0..).flat_map(of).collect()
}

/// The bytes in which clusters would race if nothing ordered them.
pub(crate) fn shared_bytes(clusters: &[&Changes]) -> Vec<Range<u64>> {
    let mut all = touches(clusters);
    all.sort_unstable_by_key(|(t, ..)| t.start);
    let (mut open, mut found): (Vec<Touched>, Vec<Range<u64>>) = (Vec::new(), Vec::new());
    for (t, c, access) in all {
        open.retain(|(o, ..)| o.end > t.start);
        let against = |o: &&Touched| o.1 != c && access.conflicts().contains(&o.2);
        if let Some(end) = open.iter().filter(against).map(|(o, ..)| o.end.min(t.end)).max() {
            match found.last_mut() {
                Some(last) if last.end >= t.start => last.end = last.end.max(end),
                _ => found.push(t.start..end),
            }
        }
        open.push((t, c, access));
    }
    found
}

/// Two clusters that touch the same bytes, one of them writing. The first such pair is enough.
pub(crate) fn cluster_race(p: &Program, mut touches: Vec<Touched>, options: &Options) -> Option<Finding> {
    touches.sort_unstable_by_key(|(t, ..)| t.start);
    // For the sweep: by kind of access, the furthest-reaching one of each cluster.
    let mut open: [Vec<(Touch, u32)>; 4] = Default::default();
    for (t, c, access) in touches {
        let against = access.conflicts().iter().flat_map(|kind| &open[*kind as usize]);
        if let Some((other, oc)) = against.clone().find(|(o, oc)| *oc != c && o.end > t.start) {
            let side = |t: &Touch, c: u32| {
                let (line, text, section) = p.describe(t.pc);
                Side {
                    line,
                    text,
                    section,
                    cta: 0,
                    warp: 0,
                    lanes: 0,
                    does: format!("touches the bytes in cluster {c}"),
                }
            };
            return Some(Finding {
                kind: FindingKind::ClusterRace,
                message: format!(
                    "clusters {oc} and {c} both touch global bytes from {:#x}, one of them writes, and {}",
                    t.start,
                    access.remedy()
                ),
                sides: vec![side(&t, c), side(other, *oc)],
                addresses: Some(t.start..t.end.min(other.end)),
                cluster: c,
                seed: options.seed,
                times: 1,
            });
        }
        let list = &mut open[access as usize];
        match list.iter_mut().find(|(_, oc)| *oc == c) {
            Some(mine) if mine.0.end < t.end => mine.0 = t,
            Some(_) => {}
            None => list.push((t, c)),
        }
        open.iter_mut().for_each(|list| list.retain(|(o, _)| o.end > t.start));
    }
    None
}
