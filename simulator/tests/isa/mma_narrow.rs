//! `mma.sync` of integers of 8, 4 and 1 bits, of f16 in four groups of threads, and `movmatrix`: against the products of whole matrices.

use bsr_simulator::Options;

use crate::formats::{Format, list, run, words};

const HEAD: &str = ".version 8.7\n.target sm_90a";

/// Word `i` of an endless list.
fn word(i: usize, seed: u32) -> u32 {
    Format("u32").draw(i, seed) ^ Format("u32").draw(i, seed + 100).rotate_left(13)
}

/// Runs one instruction on words of A, B and C for each lane; gives those of D.
fn execute(opcode: &str, [a, b, c]: [&[Vec<u32>]; 3], d: usize, floats: [bool; 2]) -> Vec<Vec<u32>> {
    let flat = |lanes: &[Vec<u32>]| lanes.iter().flatten().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let counts = [a[0].len(), b[0].len(), c[0].len()];
    let mut body = String::new();
    for (buffer, n) in counts.into_iter().enumerate() {
        body += &format!("mad.wide.u32 %rd{}, %r0, {}, %rd{buffer};\n", 10 + buffer, n * 4);
        body += &(0..n)
            .map(|i| format!("ld.global.b32 %r{}, [%rd{} + {}];\n", 10 + 10 * buffer + i, 10 + buffer, i * 4))
            .collect::<String>();
    }
    let name = |float: bool, first: usize, n: usize| if float { list("%f", first, n) } else { list("%r", first, n) };
    if floats[1] {
        body += &(0..counts[2]).map(|i| format!("mov.b32 %f{}, %r{};\n", 30 + i, 30 + i)).collect::<String>();
    }
    body += &format!(
        "{opcode} {}, {}, {}, {};\nmad.wide.u32 %rd13, %r0, {}, %rd3;\n",
        name(floats[0], 50, d),
        list("%r", 10, counts[0]),
        list("%r", 20, counts[1]),
        name(floats[1], 30, counts[2]),
        d * 4
    );
    let part = if floats[0] { "%f" } else { "%r" };
    body += &(0..d).map(|i| format!("st.global.b32 [%rd13 + {}], {part}{};\n", i * 4, 50 + i)).collect::<String>();
    let buffers = [flat(a), flat(b), flat(c), vec![0; 128 * d]];
    let (report, out) = run(HEAD, 32, &buffers, &body, &Options::default());
    assert!(report.is_clean(), "{opcode}: {}", report.findings[0]);
    words(&out[3]).chunks(d).map(<[u32]>::to_vec).collect()
}

/// Element `j` of a word.
fn element(word: u32, bits: usize, j: usize, signed: bool) -> i64 {
    let raw = i64::from(word >> (bits * j)) & ((1 << bits) - 1);
    if signed && raw >> (bits - 1) == 1 { raw - (1 << bits) } else { raw }
}

#[test]
fn integers_of_eight_four_and_one_bits() {
    let shapes = [
        (8, 8, 16),
        (8, 16, 16),
        (8, 16, 32),
        (4, 8, 32),
        (4, 16, 32),
        (4, 16, 64),
        (1, 8, 128),
        (1, 16, 128),
        (1, 16, 256),
    ];
    for (bits, m, k) in shapes {
        let per = 32 / bits;
        let variants: &[(bool, bool, &str)] = match bits {
            1 => &[(false, false, ".xor.popc"), (false, false, ".and.popc")],
            _ => &[(true, true, ""), (true, false, ""), (false, true, ""), (false, false, "")],
        };
        for (a_signed, b_signed, tail) in variants {
            // A by rows, B by columns, in words along K; as the ISA's figures distribute them over lanes and registers.
            let of_a = |row: usize, w: usize| word(row * 64 + w, 1);
            let of_b = |column: usize, w: usize| word(column * 64 + w, 2);
            let start = |row: usize, column: usize| word(row * 8 + column, 3);
            let halves = m / 8;
            let deep = k / per / 4;
            let lanes = |of: &dyn Fn(usize, usize) -> Vec<u32>| (0..32).map(|l| of(l / 4, l % 4)).collect::<Vec<_>>();
            let a = lanes(&|g, t| (0..halves * deep).map(|r| of_a(r % halves * 8 + g, r / halves * 4 + t)).collect());
            let b = lanes(&|g, t| (0..deep).map(|r| of_b(g, r * 4 + t)).collect());
            let c = lanes(&|g, t| (0..2 * halves).map(|i| start(i / 2 * 8 + g, 2 * t + i % 2)).collect());
            let name = |signed: &bool| match bits {
                1 => "b1".to_owned(),
                _ => format!("{}{bits}", if *signed { "s" } else { "u" }),
            };
            let opcode =
                format!("mma.sync.aligned.m{m}n8k{k}.row.col.s32.{}.{}.s32{tail}", name(a_signed), name(b_signed));
            let d = execute(&opcode, [&a, &b, &c], 2 * halves, [false; 2]);
            for (l, found) in d.iter().enumerate() {
                for (i, found) in found.iter().enumerate() {
                    let (row, column) = (i / 2 * 8 + l / 4, l % 4 * 2 + i % 2);
                    let sum: i64 = (0..k / per)
                        .map(|w| {
                            let (x, y) = (of_a(row, w), of_b(column, w));
                            match *tail {
                                ".xor.popc" => i64::from((x ^ y).count_ones()),
                                ".and.popc" => i64::from((x & y).count_ones()),
                                _ => (0..per)
                                    .map(|j| element(x, bits, j, *a_signed) * element(y, bits, j, *b_signed))
                                    .sum(),
                            }
                        })
                        .sum();
                    assert_eq!(*found, start(row, column).wrapping_add(sum as u32), "{opcode} at {row}, {column}");
                }
            }
        }
    }
}

/// Each group of eight threads multiplies 8 x 4 by 4 x 8, in every layout; numbers are small and whole.
#[test]
fn halves_in_four_groups() {
    let value = |i: usize, seed: u32| f32::from((word(i, seed) % 9) as u8) - 4.0;
    let half = |v: f32| u32::from(half::f16::from_f32(v).to_bits());
    let pair = |low: f32, high: f32| half(low) | half(high) << 16;
    for (a_rows, b_columns) in [(true, true), (true, false), (false, true), (false, false)] {
        for (d_float, c_float) in [(true, true), (true, false), (false, false)] {
            let a = |q: usize, row: usize, k: usize| value(q * 64 + row * 4 + k, 1);
            let b = |q: usize, k: usize, column: usize| value(q * 64 + k * 8 + column, 2);
            let c = |q: usize, row: usize, column: usize| value(q * 64 + row * 8 + column, 3);
            // Group, and the place of the thread in it: PTX ISA, fragments of m8n8k4.
            let place = |l: usize| (l / 4 % 4, l % 4, usize::from(l >= 16) * 4);
            let at = |float: bool, l: usize, i: usize| {
                let (_, t, upper) = place(l);
                if float { ((t & 1) + (i & 2) + upper, (i & 4) + (t & 2) + (i & 1)) } else { (t + upper, i) }
            };
            let fragment = |by_line: bool, of: &dyn Fn(usize, usize) -> f32, l: usize| {
                let (_, t, upper) = place(l);
                let one = |i: usize| if by_line { of(t + upper, i) } else { of(i + upper, t) };
                vec![pair(one(0), one(1)), pair(one(2), one(3))]
            };
            let of_a: Vec<_> = (0..32).map(|l| fragment(a_rows, &|row, k| a(place(l).0, row, k), l)).collect();
            let of_b: Vec<_> = (0..32).map(|l| fragment(b_columns, &|column, k| b(place(l).0, k, column), l)).collect();
            let of_c: Vec<Vec<u32>> = (0..32)
                .map(|l| {
                    let one = |i: usize| {
                        let (row, column) = at(c_float, l, i);
                        c(place(l).0, row, column)
                    };
                    match c_float {
                        true => (0..8).map(|i| one(i).to_bits()).collect(),
                        false => (0..4).map(|i| pair(one(2 * i), one(2 * i + 1))).collect(),
                    }
                })
                .collect();
            let ty = |float: bool| if float { "f32" } else { "f16" };
            let opcode = format!(
                "mma.sync.aligned.m8n8k4.{}.{}.{}.f16.f16.{}",
                if a_rows { "row" } else { "col" },
                if b_columns { "col" } else { "row" },
                ty(d_float),
                ty(c_float)
            );
            let d = execute(&opcode, [&of_a, &of_b, &of_c], if d_float { 8 } else { 4 }, [d_float, c_float]);
            for (l, found) in d.iter().enumerate() {
                for i in 0..8 {
                    let (row, column) = at(d_float, l, i);
                    let q = place(l).0;
                    let want = (0..4).fold(c(q, row, column), |sum, k| sum + a(q, row, k) * b(q, k, column));
                    let got = if d_float { found[i] } else { found[i / 2] >> (i % 2 * 16) & 0xffff };
                    assert_eq!(got, if d_float { want.to_bits() } else { half(want) }, "{opcode}: lane {l}, {i}");
                }
            }
        }
    }
}

#[test]
fn a_matrix_is_transposed() {
    let body = "mad.wide.u32 %rd1, %r0, 4, %rd0;\nld.global.b32 %r2, [%rd1];\nmovmatrix.sync.aligned.m8n8.trans.b16 %r3, %r2;\n\
                st.global.b32 [%rd1], %r3;";
    let bytes = (0..64u16).flat_map(u16::to_le_bytes).collect();
    let (report, out) = run(HEAD, 32, &[bytes], body, &Options::default());
    assert!(report.is_clean(), "{}", report.findings[0]);
    let found: Vec<u16> = out[0].as_chunks().0.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
    let want: Vec<u16> = (0..64).map(|i| i % 8 * 8 + i / 8).collect();
    assert_eq!(found, want);
}
