//! Who wrote the elements of a wrong result.

use std::collections::BTreeMap;

use bsr_codegen::Plan;
use bsr_runtime::simulated::Writer;

/// Writers that are named; there may be as many as warps.
const MOST_PRINTED: usize = 3;

/// Which CTAs and warps wrote the elements at these bytes of C, those that wrote most of them first, on lines of their own.
pub(crate) fn words(writers: &[Writer], bytes: &[usize], plan: &Plan) -> String {
    let mut bytes = bytes.to_vec();
    bytes.sort_unstable();
    let mut last: Vec<Option<usize>> = vec![None; bytes.len()];
    for (number, writer) in writers.iter().enumerate() {
        let [from, to] = [writer.bytes.start, writer.bytes.end].map(|at| bytes.partition_point(|byte| *byte < at));
        last[from..to].fill(Some(number));
    }
    let mut counts: BTreeMap<(u32, u32, u32, u32), (usize, usize)> = BTreeMap::new();
    for number in last.iter().flatten() {
        let Writer { cluster, side, .. } = &writers[*number];
        counts.entry((*cluster, side.cta, side.warp, side.line)).or_insert((0, *number)).0 += 1;
    }
    let mut ordered: Vec<(usize, usize)> = counts.into_values().collect();
    ordered.sort_by_key(|(count, number)| (usize::MAX - count, *number));
    let mut text = String::new();
    for (count, number) in ordered.iter().take(MOST_PRINTED) {
        text.push_str(&format!("\n  {count} of them were written by {}", who(&writers[*number], plan)));
    }
    if ordered.len() > MOST_PRINTED {
        let rest: usize = ordered[MOST_PRINTED..].iter().map(|(count, _)| count).sum();
        text.push_str(&format!("\n  {rest} of them by {} other warps or instructions", ordered.len() - MOST_PRINTED));
    }
    let nobody = last.iter().filter(|number| number.is_none()).count();
    if nobody > 0 {
        text.push_str(&format!("\n  {nobody} of them were written by nobody"));
    }
    text
}

/// `CTA 3 (block 1 of cluster 1), consumer 0 (warp 5), at line 412: ..`
fn who(writer: &Writer, plan: &Plan) -> String {
    let (profile, side) = (plan.profile(), &writer.side);
    let cta = match profile.cluster {
        1 => format!("CTA {}", writer.cluster),
        size => format!("CTA {} (block {} of cluster {})", writer.cluster * size + side.cta, side.cta, writer.cluster),
    };
    let role = match (profile.kind.has_roles(), side.warp / 4) {
        (true, 0) => format!("the producer (warp {})", side.warp),
        (true, group) => format!("consumer {} (warp {})", group - 1, side.warp),
        (false, _) => format!("warp {}", side.warp),
    };
    let section = side.section.as_ref().map_or_else(String::new, |section| format!(", in section: {section}"));
    format!("{cta}, {role}, at line {}: {}{section}", side.line, side.text)
}
