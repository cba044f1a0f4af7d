//! The Laplacian of a graph.

use super::cholesky::pivots;
use super::{asymmetry, field, residual};

#[test]
fn features_that_are_the_same_everywhere_are_the_null_space() {
    let graph = field("graph:60x3x4");
    assert!(asymmetry(&graph) == 0.0);
    for feature in 0..4 {
        let x: Vec<f64> = (0..graph.rows()).map(|at| f64::from(at % 4 == feature)).collect();
        assert!(residual(&graph, &x) < 1e-14);
    }
    // The graph is connected, so nothing else is: all but the last pivots are positive.
    let order: Vec<usize> = (0..graph.rows()).collect();
    let pivots = pivots(&graph, &order);
    let (positive, zero) = pivots.split_at(59 * 4);
    assert!(positive.iter().all(|pivot| *pivot > 0.5), "{pivots:?}");
    assert!(zero.iter().all(|pivot| pivot.abs() < 1e-11), "{pivots:?}");
}

#[test]
fn each_node_is_joined_to_earlier_ones_and_a_few_have_most_edges() {
    let (nodes, edges) = (4000, 5);
    let graph = field("graph:4000x5x1");
    // The first nodes are joined to all before them.
    assert_eq!(graph.nnzb(), nodes + 2 * (edges * (edges + 1) / 2 + edges * (nodes - edges - 1)));
    for node in 1..nodes {
        let earlier = graph.col_idx()[graph.blocks_of(node)].iter().filter(|column| (**column as usize) < node).count();
        assert_eq!(earlier, edges.min(node));
    }
    // Nodes with at least d edges are about (edges / d)^2 of all (Barabasi and Albert: a density like d^-3).
    let degrees: Vec<usize> = graph.row_lengths().map(|length| length - 1).collect();
    for least in [10, 20, 40] {
        let found = degrees.iter().filter(|degree| **degree >= least).count() as f64;
        let ratio = found / (nodes as f64 * (edges as f64 / least as f64).powi(2));
        assert!(ratio > 0.6 && ratio < 1.7, "{least}: {found}, {ratio}");
    }
    assert!(degrees.iter().max().unwrap() > &100);
}

#[test]
fn few_nodes_are_all_joined() {
    assert_eq!(field("graph:4x9x2").nnzb(), 16);
    assert_eq!(field("graph:1x1x3").values(), [0.0; 9]);
}
