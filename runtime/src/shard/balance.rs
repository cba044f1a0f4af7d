//! Contiguous parts of a list whose largest sum is the smallest that there is.

use std::ops::Range;

use bsr_codegen::Refusal;

/// Cuts a list into `ranks` ranges that follow one another, none of them empty, so that the largest sum of weights in a
/// range is as small as it can be. It is at most the average, rounded up, and the largest weight less one.
///
/// # Errors
/// No ranks; more ranks than weights, so that a range would be empty.
pub fn balanced(weights: &[u64], ranks: usize) -> Result<Vec<Range<usize>>, Refusal> {
    if ranks == 0 {
        return Err(Refusal::new("a matrix cannot be divided among 0 ranks").help("give the number of GPUs"));
    }
    if ranks > weights.len() {
        let (lines, idle) = (weights.len(), ranks - weights.len());
        let fact = format!(
            "{ranks} ranks share {lines} whole block rows or columns, so that {idle} of them would own nothing"
        );
        return Err(Refusal::new(fact).help(format!("use at most {lines} ranks, or smaller blocks")));
    }
    let limit = smallest_limit(weights, ranks);
    let (mut cuts, mut start) = (Vec::with_capacity(ranks), 0);
    for later in (0..ranks).rev() {
        let (mut end, mut sum) = (start + 1, weights[start]);
        // One line is left for every later rank.
        while end + later < weights.len() && sum + weights[end] <= limit {
            sum += weights[end];
            end += 1;
        }
        cuts.push(start..end);
        start = end;
    }
    Ok(cuts)
}

/// The smallest sum that no range needs to exceed, by bisection.
fn smallest_limit(weights: &[u64], ranks: usize) -> u64 {
    let (mut low, mut high) = (weights.iter().copied().max().unwrap_or(0), weights.iter().sum());
    while low < high {
        let middle = low + (high - low) / 2;
        if ranges_within(weights, middle) <= ranks { high = middle } else { low = middle + 1 }
    }
    low
}

/// Ranges that a list takes where none exceeds `limit`, which no weight does.
fn ranges_within(weights: &[u64], limit: u64) -> usize {
    let (mut ranges, mut sum) = (1, 0);
    for weight in weights {
        if sum + weight > limit {
            ranges += 1;
            sum = 0;
        }
        sum += weight;
    }
    ranges
}
