//! Which load a consumer waited for: stages are filled and read in one order.

use bsr_codegen::probes::Kind;

use super::decode::{Cta, Track};

/// From a slice that loads to the slice that uses what was loaded, each as the number of its track and its own.
pub(super) struct Flow {
    pub(super) from: (usize, usize),
    pub(super) to: (usize, usize),
}

/// The flows of a CTA.
pub(super) fn flows(cta: &Cta, producers: usize) -> Vec<Flow> {
    let mut flows = vec![];
    for (producer, loading) in cta.tracks.iter().enumerate().filter(|(_, track)| track.role < producers) {
        for kind in Kind::ALL {
            let Some(wait) = kind.awaited_by() else { continue };
            let loads = of_kind(loading, *kind);
            for (consumer, using) in cta.tracks.iter().enumerate().filter(|(_, track)| track.role >= producers) {
                // What follows the wait uses the stage: the last wait of a ring that overflowed may have nothing behind it.
                let uses = of_kind(using, wait).into_iter().map(|at| at + 1).filter(|at| *at < using.slices.len());
                let pairs = loads.iter().zip(uses);
                flows.extend(pairs.map(|(load, usage)| Flow { from: (producer, *load), to: (consumer, usage) }));
            }
        }
    }
    flows
}

/// The numbers of a track's slices of one kind.
fn of_kind(track: &Track, kind: Kind) -> Vec<usize> {
    (0..track.slices.len()).filter(|at| track.slices[*at].kind == kind).collect()
}
