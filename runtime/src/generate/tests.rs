#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

fn structure(text: &str, rows: usize, cols: usize, block: (usize, usize)) -> Structure {
    text.parse::<Pattern>().unwrap().structure(rows, cols, block, 11).unwrap()
}

fn lengths(structure: &Structure) -> Vec<usize> {
    structure.row_lengths().collect()
}

#[test]
fn random_stores_exactly_its_share_anywhere() {
    let s = structure("random:0.25", 4096, 4096, (64, 64));
    assert_eq!(s.nnzb(), 1024);
    // Row lengths follow the hypergeometric law: mean 16, standard deviation 3.4; not 16 in each row.
    let lengths = lengths(&s);
    let variance = lengths.iter().map(|&l| (l as f64 - 16.0).powi(2)).sum::<f64>() / 64.0;
    assert!((5.0..25.0).contains(&variance), "variance {variance}");
    // Every column is as likely: the same law downwards.
    let mut down = [0; 64];
    s.col_idx().iter().for_each(|&c| down[c as usize] += 1);
    assert!(down.iter().all(|&d| (2..=34).contains(&d)), "{down:?}");

    assert_eq!(structure("random:0.1", 100, 90, (16, 32)).nnzb(), 2); // round(2.1)
    assert_eq!(structure("random:0", 100, 90, (16, 32)).nnzb(), 0);
    assert_eq!(structure("random:1", 100, 90, (16, 32)).density(), 1.0);
}

#[test]
fn top_k_has_the_same_count_in_every_row_at_different_places() {
    let s = structure("topk:16", 8192, 8288, (512, 112));
    assert_eq!(lengths(&s), vec![16; 16]);
    let rows: Vec<&[i32]> = (0..16).map(|row| &s.col_idx()[s.blocks_of(row)]).collect();
    assert!(rows.windows(2).all(|pair| pair[0] != pair[1]));

    let refused = Pattern::TopK(8).structure(64, 100, (16, 16), 0).unwrap_err().to_string();
    assert!(
        refused.contains("100 columns in blocks of 16 make 7 block columns") && refused.contains("topk:7"),
        "{refused}"
    );
    assert_eq!(Pattern::TopK(7).structure(64, 100, (16, 16), 0).unwrap().density(), 1.0);
}

#[test]
fn window_follows_the_scaled_diagonal() {
    for (rows, cols, (bm, bk)) in [(64, 64, (4, 4)), (64, 256, (4, 8)), (250, 60, (16, 4)), (30, 300, (30, 7))] {
        let s = structure("window:0.2", rows, cols, (bm, bk));
        let width = (0.2 * s.block_cols() as f64).round() as usize;
        for row in 0..s.block_rows() {
            let columns = &s.col_idx()[s.blocks_of(row)];
            assert_eq!(columns.len(), width);
            assert!(columns.windows(2).all(|pair| pair[1] == pair[0] + 1));
            // The middle of the window is within half a block of the diagonal, or the window is at an edge.
            let middle = (columns[0] as f64 + width as f64 / 2.0) * bk as f64;
            let last_row = ((row + 1) * bm).min(rows);
            let diagonal = (row * bm + last_row) as f64 / 2.0 * cols as f64 / rows as f64;
            let at_edge = columns[0] == 0 || columns[width - 1] as usize == s.block_cols() - 1;
            assert!(at_edge || (middle - diagonal).abs() <= bk as f64 / 2.0, "row {row}: {middle} {diagonal}");
        }
    }
    assert_eq!(lengths(&structure("window:0.001", 64, 64, (16, 16))), [1; 4]);
    assert_eq!(structure("window:0", 64, 64, (16, 16)).nnzb(), 0);
    assert_eq!(structure("window:1", 64, 64, (16, 16)).density(), 1.0);
}

#[test]
fn documents_are_blocks_of_the_diagonal() {
    for (text, mean, causal) in [("documents:70", 70, false), ("causal_documents:40", 40, true)] {
        for (rows, cols, (bm, bk)) in [(500, 500, (64, 32)), (333, 333, (16, 48)), (7, 7, (3, 2)), (100, 300, (16, 16))]
        {
            let s = structure(text, rows, cols, (bm, bk));
            let documents = Documents::of(Pattern::Documents { mean, causal }, (rows, cols), 11).unwrap();
            let own = |starts: &[usize], at: usize| starts.partition_point(|start| *start <= at) - 1;
            let pair = |row: usize, column: usize| {
                let (of_row, of_column) = (own(&documents.rows, row), own(&documents.columns, column));
                let place = row + documents.columns[of_row + 1];
                of_row == of_column && (!causal || column + documents.rows[of_row + 1] <= place)
            };
            for row in 0..s.block_rows() {
                let has = |column: &i32| {
                    let first = *column as usize * bk;
                    let rows = row * bm..((row + 1) * bm).min(rows);
                    rows.clone().any(|row| (first..(first + bk).min(cols)).any(|column| pair(row, column)))
                };
                let expected: Vec<i32> = (0..s.block_cols() as i32).filter(has).collect();
                assert_eq!(s.col_idx()[s.blocks_of(row)], expected, "{text}, {rows} x {cols}, row {row}");
            }
            assert!(documents.rows.windows(2).all(|ends| (1..2 * mean).contains(&(ends[1] - ends[0]))));
            assert_eq!((documents.rows.last(), documents.columns.last()), (Some(&rows), Some(&cols)));
        }
    }
    assert!("documents:0".parse::<Pattern>().unwrap_err().to_string().contains("documents without rows"));
}

#[test]
fn causal_is_the_lower_triangle_by_elements() {
    for (rows, cols, (bm, bk)) in [(64, 64, (16, 16)), (70, 50, (16, 8)), (50, 200, (12, 20)), (7, 7, (3, 2))] {
        let s = structure("causal", rows, cols, (bm, bk));
        for row in 0..s.block_rows() {
            let below = |column: i32| (row * bm..((row + 1) * bm).min(rows)).any(|r| column as usize * bk <= r);
            let expected: Vec<i32> = (0..s.block_cols() as i32).filter(|&c| below(c)).collect();
            assert_eq!(s.col_idx()[s.blocks_of(row)], expected, "{rows} x {cols}, row {row}");
        }
    }
}

#[test]
fn power_law_rows_fall_as_one_over_rank() {
    let s = structure("powerlaw:0.05", 8192, 8192, (32, 32));
    assert_eq!(s.nnzb(), 3277); // round(0.05 * 65536)
    let drawn = lengths(&s);
    let mut sorted = drawn.clone();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    assert_ne!(drawn, sorted, "rows are shuffled");
    assert_eq!(sorted[0], 256);
    // Where no row is full, rank * length is constant but for the rounding.
    let full = sorted.iter().filter(|&&l| l == 256).count();
    let scale = (full + 1) as f64 * sorted[full] as f64;
    for (at, &length) in sorted.iter().enumerate().skip(full) {
        let exact = scale / (at + 1) as f64;
        assert!((length as f64 - exact).abs() <= 1.0 + exact * 0.05, "rank {}: {length}, not {exact}", at + 1);
    }
}

#[test]
fn power_law_lengths_add_up_for_every_count() {
    for (rows, cols) in [(1, 1), (1, 9), (9, 1), (7, 5), (16, 16)] {
        for count in 0..=rows * cols {
            let lengths = power_law_lengths(rows, cols, count);
            assert_eq!(lengths.iter().sum::<usize>(), count);
            assert!(lengths.windows(2).all(|pair| pair[0] >= pair[1]) && lengths[0] <= cols, "{lengths:?}");
        }
    }
}

#[test]
fn the_places_are_pinned() {
    let columns = |text| {
        let s = structure(text, 64, 128, (16, 16));
        (s.row_ptr().to_vec(), s.col_idx().to_vec())
    };
    assert_eq!(columns("random:0.25"), (vec![0, 4, 6, 8, 8], vec![0, 2, 3, 6, 3, 6, 3, 4]));
    assert_eq!(columns("topk:2"), (vec![0, 2, 4, 6, 8], vec![1, 3, 6, 7, 2, 3, 1, 5]));
    assert_eq!(columns("powerlaw:0.25"), (vec![0, 4, 6, 7, 8], vec![1, 2, 4, 5, 6, 7, 3, 6]));
}

#[test]
fn another_seed_gives_other_places() {
    for pattern in [Pattern::Random(0.3), Pattern::TopK(9), Pattern::PowerLaw(0.3)] {
        let with = |seed| pattern.structure(512, 512, (16, 16), seed).unwrap();
        assert_eq!(with(1), with(1));
        assert_ne!(with(1), with(2));
    }
}

#[test]
fn matrices_without_blocks() {
    for text in ["random:0.5", "topk:0", "window:0.5", "causal", "powerlaw:0.5"] {
        for (rows, cols) in [(0, 0), (0, 64), (64, 0)] {
            assert_eq!(structure(text, rows, cols, (16, 16)).nnzb(), 0, "{text}");
        }
    }
}

#[test]
fn what_cannot_be_is_refused_before_memory_is_asked_for() {
    let too_many = Pattern::Random(1.0).structure((1 << 31) - 1, (1 << 31) - 1, (1 << 15, 1), 0).unwrap_err();
    assert!(too_many.to_string().contains("value rows"), "{too_many}");
    let no_block = Pattern::Causal.structure(64, 64, (0, 16), 0).unwrap_err();
    assert!(no_block.to_string().contains("the block is 0 x 16"), "{no_block}");
    for pattern in [Pattern::Random(1.5), Pattern::Window(-0.1), Pattern::PowerLaw(f64::NAN)] {
        let refused = pattern.structure(64, 64, (16, 16), 0).unwrap_err();
        assert!(refused.to_string().contains("is not between 0 and 1"), "{refused}");
    }
}

#[test]
fn text_that_is_no_pattern_is_answered_with_what_to_write() {
    for (text, answer) in [
        ("", "write random:DENSITY"),
        ("rand:0.5", "`rand:0.5` is not a pattern"),
        ("random", "the parameter is missing\n  help: write random:0.25"),
        ("random:", "`` is not a decimal number"),
        ("random:a", "`a` is not a decimal number\n  help: write random:0.25"),
        ("random:1.01", "the fraction 1.01 is not between 0 and 1"),
        ("window:-0.5", "the fraction -0.5"),
        ("powerlaw:NaN", "the fraction NaN"),
        ("topk:1.5", "`1.5` is not a whole number of blocks\n  help: write topk:16"),
        ("topk:-1", "`-1` is not a whole number"),
        ("causal:1", "causal takes no parameter"),
    ] {
        let refused = text.parse::<Pattern>().unwrap_err().to_string();
        assert!(refused.contains(answer), "{text}: {refused}");
    }
}

fn any_pattern() -> impl Strategy<Value = Pattern> {
    let fraction = 0.0..=1.0f64;
    prop_oneof![
        fraction.clone().prop_map(Pattern::Random),
        any::<usize>().prop_map(Pattern::TopK),
        fraction.clone().prop_map(Pattern::Window),
        Just(Pattern::Causal),
        fraction.prop_map(Pattern::PowerLaw),
        (1..300_usize, any::<bool>()).prop_map(|(mean, causal)| Pattern::Documents { mean, causal }),
    ]
}

proptest! {
    #[test]
    fn text_and_pattern_agree(pattern in any_pattern()) {
        prop_assert_eq!(pattern.to_string().parse::<Pattern>().unwrap(), pattern);
    }

    #[test]
    fn any_text_is_answered(text in ".{0,20}") {
        if let Ok(pattern) = text.parse::<Pattern>() {
            prop_assert!(pattern.check_fraction().is_ok());
        }
    }

    #[test]
    fn every_pattern_in_every_shape_is_valid_or_refused(
        pattern in any_pattern(), rows in 0usize..200, cols in 0usize..200,
        block in (1usize..40, 1usize..40), seed in any::<u64>(),
    ) {
        let pattern = match pattern {
            Pattern::TopK(count) => Pattern::TopK(count % 20),
            other => other,
        };
        match pattern.structure(rows, cols, block, seed) {
            Ok(structure) => {
                let expected = match pattern {
                    Pattern::Random(density) | Pattern::PowerLaw(density) => {
                        (density * (structure.block_rows() * structure.block_cols()) as f64).round() as usize
                    }
                    Pattern::TopK(count) => count * structure.block_rows(),
                    Pattern::Window(_) | Pattern::Causal | Pattern::Documents { .. } => structure.nnzb(),
                };
                prop_assert_eq!(structure.nnzb(), expected);
            }
            Err(refused) => prop_assert!(refused.to_string().starts_with("topk:"), "{refused}"),
        }
    }
}
