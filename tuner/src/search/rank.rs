//! How alike two orders are.

/// Spearman's rank correlation: 1 where both sort alike, -1 where one sorts backwards. Equal values share the mean of their
/// ranks. None of fewer than two pairs, or where all values of one side are equal, or one is no number.
///
/// # Panics
/// Never: of slices of different lengths the common part counts.
pub fn rank_correlation(predicted: &[f64], measured: &[f64]) -> Option<f64> {
    let count = predicted.len().min(measured.len());
    let (x, y) = (&predicted[..count], &measured[..count]);
    if x.iter().chain(y).any(|value| value.is_nan()) {
        return None;
    }
    let (x, y) = (ranks(x), ranks(y));
    let mean = (count as f64 + 1.0) / 2.0;
    let sum = |f: &dyn Fn(usize) -> f64| (0..count).map(f).sum::<f64>();
    let product = sum(&|i| (x[i] - mean) * (y[i] - mean));
    let [of_x, of_y] = [&x, &y].map(|ranks| sum(&|i| (ranks[i] - mean).powi(2)));
    let scale = (of_x * of_y).sqrt();
    (count >= 2 && scale > 0.0).then(|| (product / scale).clamp(-1.0, 1.0))
}

/// The same of pairs; none of fewer than three, which say nothing.
pub fn rank_correlation_of(pairs: &[(f64, f64)]) -> Option<f64> {
    let (x, y): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    if pairs.len() < 3 { None } else { rank_correlation(&x, &y) }
}

/// The rank of every value, from 1.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|x, y| values[*x].total_cmp(&values[*y]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    while first < order.len() {
        let equal = order[first..].iter().take_while(|at| values[**at] == values[order[first]]).count();
        let rank = first as f64 + (equal as f64 + 1.0) / 2.0;
        order[first..first + equal].iter().for_each(|at| ranks[*at] = rank);
        first += equal;
    }
    ranks
}
