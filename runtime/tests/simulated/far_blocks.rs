//! Small blocks whose numbers take all 32 bits: their values, their columns and their numbers lie beyond what 32 bits address.

use bsr_codegen::{Argument, IndexWidth, Operand, Plan, Problem};
use bsr_simulator::{BufferId, GlobalMemory, Launch, Options, Param, parse, simulate};

/// The number of the first block that is stored, and its place in the lists: 12 GiB behind their addresses, its values of 3 x 3
/// in f64 216 GiB.
const FIRST: u64 = 3 << 30;
/// The same where numbers have 64 bits: they are those of the lists modulo 2^32, too.
const WIDE: u64 = (5 << 32) + 7;
/// Rows and columns of the blocks.
const SIDE: usize = 3;
const BLOCK_BYTES: u64 = (SIDE * SIDE * size_of::<f64>()) as u64;

/// The columns of the blocks of each of three block rows, as the kernel reads them.
const ROWS: [&[u32]; 3] = [&[0, 2, 3], &[], &[1, 2]];
/// The number of each of these blocks among the stored ones, where that is not its place.
const NUMBERS: [u32; 5] = [4, 0, 3, 1, 2];

fn bytes<T, const N: usize>(values: impl IntoIterator<Item = T>, of: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.into_iter().flat_map(of).collect()
}

/// The value of row `r` and column `c` of block `number` as it is stored.
fn value(number: usize, r: usize, c: usize) -> f64 {
    (number * SIDE * SIDE + r * SIDE + c + 1) as f64
}

/// C[i] = A[i, j] B[j], with the B of column 1.
fn want(is_transposed: bool) -> Vec<f64> {
    let x = |k: usize| (k + 1) as f64;
    let mut place = 0;
    let mut all = vec![];
    for columns in ROWS {
        let mut sums = [0.0; SIDE];
        for column in columns {
            let number = if is_transposed { NUMBERS[place] as usize } else { place };
            for (r, sum) in sums.iter_mut().enumerate() {
                for c in 0..SIDE {
                    let a = if is_transposed { value(number, c, r) } else { value(number, r, c) };
                    *sum += a * x(*column as usize * SIDE + c);
                }
            }
            place += 1;
        }
        all.extend(sums);
    }
    all
}

#[test]
fn values_and_lists_are_addressed_in_64_bits() {
    for (choice, first, is_transposed) in [
        ("", FIRST, false),
        (", lanes = 8", FIRST, false),
        (", lanes = 1", FIRST, false),
        (", transpose = on", FIRST, true),
        (", transpose = on, lanes = 4", FIRST, true),
        (", row_ptr = i64", FIRST, false),
        (", row_ptr = i64", WIDE, false),
        (", row_ptr = i64, lanes = 4, arch = sm_90a", WIDE, false),
    ] {
        let spec = format!("bm = 3, bn = 1, bk = 3, mma = scalar, dtype = f64, b_layout = col, c_layout = col{choice}");
        let plan = Plan::new(&spec.parse().unwrap()).unwrap();
        let (ptx, (rows, columns)) = (plan.ptx(), (ROWS.len() * SIDE, 4 * SIDE));
        let mut memory = GlobalMemory::new();
        let mut upload = |bytes: Vec<u8>| memory.upload(bytes, 256);
        let blocks = ROWS.iter().map(|row| row.len()).sum::<usize>();
        let values = (0..blocks).flat_map(|block| (0..SIDE * SIDE).map(move |at| value(block, at / SIDE, at % SIDE)));
        let a = upload(bytes(values, f64::to_le_bytes));
        let b = upload(bytes((0..columns).map(|k| (k + 1) as f64), f64::to_le_bytes));
        let c = upload(bytes(vec![f64::NAN; rows], f64::to_le_bytes));
        let ends = ROWS.iter().scan(first, |at, row| {
            *at += row.len() as u64;
            Some(*at)
        });
        let ends = std::iter::once(first).chain(ends);
        let row_ptr = upload(match plan.spec().row_ptr {
            IndexWidth::I32 => bytes(ends, |end| (end as u32).to_le_bytes()),
            IndexWidth::I64 => bytes(ends, u64::to_le_bytes),
        });
        let col_idx = upload(bytes(ROWS.concat(), u32::to_le_bytes));
        let block_idx = upload(bytes(NUMBERS.map(|number| first as u32 + number), u32::to_le_bytes));
        // What begins so far in front of a buffer that the first block is the buffer's first.
        let before = |id: BufferId, each: u64| Param::U64(memory.address(id).wrapping_sub(first.wrapping_mul(each)));
        let (m, k) = (rows as u64, columns as u64);
        let problem = Problem { m, n: 1, k, nnzb: blocks as u64, ldb: k, ldc: m, ..Problem::default() };
        let shape = plan.launch(&problem, [1, 1]);
        let of = |argument: &Argument| match argument {
            Argument::Pointer(Operand::A) => before(a, BLOCK_BYTES),
            Argument::Pointer(Operand::B) => Param::Buffer(b),
            Argument::Pointer(_) => Param::Buffer(c),
            Argument::RowPtr => Param::Buffer(row_ptr),
            Argument::ColIdx => before(col_idx, 4),
            Argument::BlockIdx => before(block_idx, 4),
            Argument::Number(number) => Param::U32(*number),
            other => panic!("{other:?} is no parameter of small blocks"),
        };
        let launch = Launch {
            grid: [1, 1, 1],
            cluster: [1, 1, 1],
            block: [shape.block, 1, 1],
            shared_bytes: shape.shared_bytes,
            params: shape.parameters.iter().map(|parameter| of(&parameter.argument)).collect(),
        };
        let report =
            simulate(&parse(ptx.text()).unwrap(), ptx.entry(), &launch, &mut memory, &Options::default()).unwrap();
        assert!(report.is_clean(), "{spec}: {:#?}", report.findings);
        let found: Vec<f64> =
            memory.bytes(c).chunks_exact(8).map(|eight| f64::from_le_bytes(eight.try_into().unwrap())).collect();
        assert_eq!(found, want(is_transposed), "{spec}");
    }
}
