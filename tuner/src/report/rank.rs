//! How well an order predicts another.

/// Spearman's rank correlation of two equally long lists: 1 where one orders as the other does, -1 where it orders the other
/// way round. Ties share their mean rank. None of fewer than 3 pairs, or where one list is constant.
pub fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < 3 || pairs.iter().any(|(x, y)| x.is_nan() || y.is_nan()) {
        return None;
    }
    let xs = ranks(pairs.iter().map(|pair| pair.0).collect());
    let ys = ranks(pairs.iter().map(|pair| pair.1).collect());
    let mean = (pairs.len() as f64 + 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    let spread = (product(&xs, &xs) * product(&ys, &ys)).sqrt();
    (spread > 0.0).then(|| product(&xs, &ys) / spread)
}

fn ranks(values: Vec<f64>) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for equal in order.chunk_by(|&a, &b| values[a] == values[b]) {
        // Ranks first + 1 ..= first + len.
        let rank = first as f64 + (equal.len() as f64 + 1.0) / 2.0;
        equal.iter().for_each(|&at| ranks[at] = rank);
        first += equal.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::spearman;

    #[test]
    fn orders_are_compared_and_not_values() {
        let same = [(1.0, 10.0), (2.0, 11.0), (3.0, 1e9)];
        let other = [(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)];
        assert_eq!((spearman(&same), spearman(&other)), (Some(1.0), Some(-1.0)));
    }

    #[test]
    fn ties_share_their_mean_rank() {
        // Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: 4.5 / sqrt(4.5 * 5).
        let found = spearman(&[(1.0, 1.0), (2.0, 2.0), (2.0, 3.0), (3.0, 4.0)]);
        assert!((found.unwrap_or_default() - 4.5 / 22.5_f64.sqrt()).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn nothing_is_said_of_few_or_constant_or_broken_data() {
        assert_eq!(spearman(&[(1.0, 1.0), (2.0, 2.0)]), None);
        assert_eq!(spearman(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(spearman(&[(1.0, 1.0), (f64::NAN, 2.0), (1.0, 3.0)]), None);
    }
}
