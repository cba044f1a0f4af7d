//! The Laplacian of a graph of features.

use bsr_codegen::Refusal;
use rand::RngExt as _;
use rayon::prelude::*;

use crate::random::{Streams, fill_normal_f64};
use crate::{Bsr, Structure};

/// The Laplacian of a graph that grows by preferential attachment: `-(I + g g^T)` for an edge with a drawn g of length about
/// 1, and on the diagonal what makes the sum of a row's blocks zero.
pub(super) fn laplacian(nodes: usize, edges: usize, features: usize, seed: u64) -> Result<Bsr<f64>, Refusal> {
    let graph = grown(nodes, edges, seed);
    let structure = structure(&graph, nodes, features)?;
    let streams = Streams::new(seed, b"weights.");
    let size = features * features;
    let mut values = vec![0.0; structure.stored()];
    let mut rows = Vec::with_capacity(nodes);
    let mut rest = values.as_mut_slice();
    for length in structure.row_lengths() {
        let (row, behind) = rest.split_at_mut(length * size);
        rows.push(row);
        rest = behind;
    }
    rows.into_par_iter().enumerate().for_each(|(node, row)| {
        let (mut diagonal, mut weight, mut g) = (vec![0.0; size], vec![0.0; size], vec![0.0; features]);
        let columns = &structure.col_idx()[structure.blocks_of(node)];
        let mut own = 0;
        for (at, column) in columns.iter().map(|column| *column as usize).enumerate() {
            if column == node {
                own = at;
                continue;
            }
            // One weight for both directions.
            let edge = node.min(column) * nodes + node.max(column);
            fill_normal_f64(&mut streams.get(edge), &mut g);
            for (i, j) in (0..size).map(|at| (at / features, at % features)) {
                weight[i * features + j] = f64::from(i == j) + g[i] * g[j] / features as f64;
            }
            for ((sum, out), weight) in diagonal.iter_mut().zip(&mut row[at * size..]).zip(&weight) {
                *sum += weight;
                *out = -weight;
            }
        }
        row[own * size..][..size].copy_from_slice(&diagonal);
    });
    Bsr::from_structure(structure, values)
}

/// Edges of a graph that grows node by node, each joined to `edges` different earlier ones (to all where there are no more),
/// of which one is as likely as it has edges.
fn grown(nodes: usize, edges: usize, seed: u64) -> Vec<[u32; 2]> {
    let mut stream = Streams::new(seed, b"edges...").get(0);
    let mut graph = Vec::with_capacity(nodes.saturating_mul(edges.min(nodes)));
    // Both ends of every edge: a node is in it as often as it has edges.
    let mut ends: Vec<u32> = Vec::new();
    let mut chosen: Vec<u32> = Vec::with_capacity(edges.min(nodes));
    for node in 0..nodes as u32 {
        chosen.clear();
        if node as usize <= edges {
            chosen.extend(0..node);
        }
        while chosen.len() < edges.min(node as usize) {
            let end = ends[stream.random_range(0..ends.len())];
            if !chosen.contains(&end) {
                chosen.push(end);
            }
        }
        for &other in &chosen {
            graph.push([other, node]);
            ends.extend([other, node]);
        }
    }
    graph
}

/// A block for each node and for both directions of each edge.
fn structure(graph: &[[u32; 2]], nodes: usize, features: usize) -> Result<Structure, Refusal> {
    let mut row_ptr = vec![0; nodes + 1];
    for &[from, to] in graph {
        row_ptr[from as usize + 1] += 1;
        row_ptr[to as usize + 1] += 1;
    }
    for node in 0..nodes {
        row_ptr[node + 1] += row_ptr[node] + 1;
    }
    let mut next: Vec<usize> = row_ptr[..nodes].iter().map(|start: &i64| *start as usize).collect();
    let mut col_idx = vec![0; row_ptr[nodes] as usize];
    let mut put = |node: u32, column: u32| {
        col_idx[next[node as usize]] = column as i32;
        next[node as usize] += 1;
    };
    (0..nodes as u32).for_each(|node| put(node, node));
    graph.iter().for_each(|&[from, to]| {
        put(from, to);
        put(to, from);
    });
    for ends in row_ptr.windows(2) {
        col_idx[ends[0] as usize..ends[1] as usize].sort_unstable();
    }
    let side = nodes * features;
    Structure::new(side, side, (features, features), row_ptr, col_idx)
}
