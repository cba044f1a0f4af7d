//! Tensor copies that begin anywhere along the innermost dimension: which of them the GPU carries out, and what they write.
//!
//! A copy that the GPU refuses is an illegal instruction, after which its process has no GPU any more. So processes of their own
//! carry out the copies, each until the first one that is refused; another goes on behind it.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bsr_simulator::{Swizzle, TensorElement};

use super::copies::{images, load, write};
use super::program::{Map, Program};
use crate::{device, tell};

/// The numbers of the copies that a process carries out.
const COPIES: &str = "BSR_COPIES";

/// Copies that differ in their innermost coordinate.
struct Row {
    name: String,
    map: Map,
    /// The innermost coordinates, in elements.
    starts: Vec<i64>,
    /// The coordinates behind the innermost one.
    outer: Vec<i64>,
    way: Way,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Load,
    Prefetch,
    Store,
    Reduce(&'static str),
}

impl Row {
    fn program(&self, start: i64) -> Program {
        let coords: Vec<i64> = [start].into_iter().chain(self.outer.iter().copied()).collect();
        let (name, map) = (&self.name, self.map.clone());
        match self.way {
            Way::Load => {
                let offsets = vec![0; if self.map.corners.is_some() { coords.len() - 2 } else { 0 }];
                load(name, map, &coords, &offsets)
            }
            Way::Prefetch => prefetch(name, map, &coords),
            Way::Store => write(name, kind(self.map.element), map, &coords, ""),
            Way::Reduce(function) => write(name, kind(self.map.element), map, &coords, function),
        }
    }
}

/// What the numbers of an element type are filled with.
fn kind(element: TensorElement) -> &'static str {
    match element {
        TensorElement::B8 => "u8",
        TensorElement::F16 => "f16",
        TensorElement::Bf16 => "bf16",
        TensorElement::F32 | TensorElement::Tf32 => "f32",
        _ => "u32",
    }
}

/// Lines of `extent` elements, of which a box has so many bytes.
fn lines(element: TensorElement, swizzle: Swizzle, bytes: u32, extent: u64) -> Map {
    let line = (extent * u64::from(element.bytes())).next_multiple_of(16) + 16;
    Map {
        element,
        dims: vec![extent, 3],
        strides: vec![line],
        box_dims: vec![bytes / element.bytes(), 2],
        steps: vec![1, 1],
        corners: None,
        swizzle,
        fill_nan: false,
    }
}

/// Starts around each multiple of 16 bytes.
fn around(element: TensorElement) -> Vec<i64> {
    let step = i64::from(16 / element.bytes());
    let mut all: Vec<i64> = [-step, -1, 0, 1, step - 1, step, step + 1, 2 * step].into();
    all.dedup();
    all
}

fn row(name: &str, way: Way, map: Map, outer: &[i64], starts: Vec<i64>) -> Row {
    let name = format!("{way:?} {:?}, {name}", map.element);
    Row { name, map, starts, outer: outer.to_vec(), way }
}

const ADD: Way = Way::Reduce("add");

/// All rows, those that tell most first.
fn rows() -> Vec<Row> {
    use TensorElement::{B8, B64, Bf16, F16, F32, F64, Tf32};
    let whole = || (-9..=17).collect::<Vec<i64>>();
    let mut all = Vec::new();
    for element in [F16, Bf16, F32, Tf32, F64] {
        let map = Map { fill_nan: true, ..lines(element, Swizzle::None, 32, 7) };
        let step = i64::from(16 / element.bytes());
        all.push(row("NaN outside", Way::Load, map, &[2], vec![-2 * step, -step, 0, step, 2 * step]));
    }
    for element in [F16, F32, B8] {
        for way in [Way::Load, Way::Prefetch, Way::Store, ADD] {
            if !matches!((way, element), (Way::Reduce(_), B8)) {
                all.extend(others(way, element));
            }
        }
    }
    for (element, functions) in [
        (TensorElement::U16, "add and inc"),
        (F16, "add min max and inc"),
        (Bf16, "add min max xor"),
        (F32, "add min max and inc"),
        (Tf32, "add"),
        (F64, "add min max and"),
        (TensorElement::B32, "add min max and or xor inc dec"),
        (TensorElement::S32, "add min max and or xor inc dec"),
        (B64, "add min max and or xor inc dec"),
        (TensorElement::S64, "add min max and or xor inc dec"),
        (B8, "add and"),
    ] {
        for function in functions.split(' ') {
            let map = lines(element, Swizzle::None, 32, 64);
            all.push(row("", Way::Reduce(function), map, &[0], vec![0]));
        }
    }
    for swizzle in [Swizzle::B128, Swizzle::B64, Swizzle::B32, Swizzle::None] {
        for element in [F16, B8, B64] {
            for way in [Way::Load, Way::Store, ADD] {
                if matches!((way, element), (Way::Reduce(_), B8)) {
                    continue;
                }
                let bytes = if swizzle == Swizzle::None { 128 } else { swizzle.span() };
                let map = lines(element, swizzle, bytes, u64::from(bytes / element.bytes()) + 32);
                all.push(row(&format!("box of {bytes} bytes, swizzle {swizzle:?}"), way, map, &[0], around(element)));
            }
        }
    }
    for way in [Way::Load, Way::Store] {
        all.push(row("box of 32 bytes", way, lines(F16, Swizzle::None, 32, 48), &[0], whole()));
    }
    all
}

/// Boxes that end behind the tensor's lines, boxes of which nothing is inside, one line, and im2col mode.
fn others(way: Way, element: TensorElement) -> Vec<Row> {
    let wide = lines(element, Swizzle::None, 32, 64);
    let short = lines(element, Swizzle::None, 64, u64::from(32 / element.bytes()) + 1);
    let one =
        Map { dims: vec![64], strides: vec![], box_dims: vec![32 / element.bytes()], steps: vec![1], ..wide.clone() };
    let step = i64::from(16 / element.bytes());
    let starts = vec![-step, 0, 1, step, 5 * step];
    let mut all = vec![
        row("lines that end within the box", way, short, &[1], starts.clone()),
        row("lines in front of the tensor", way, wide.clone(), &[-2], vec![0, 1]),
        row("lines partly in front of the tensor", way, wide.clone(), &[-1], vec![0]),
        row("lines behind the tensor", way, wide, &[3], vec![0, 1]),
        row("one line", way, one, &[], starts.clone()),
    ];
    if !matches!(way, Way::Prefetch) {
        let pixels = images(element, &[64, 6, 5, 2], [32 / element.bytes(), 16], (&[-1, -1], &[0, 0]), &[1, 1]);
        all.push(row("im2col", way, pixels.clone(), &[1, 1, 0], starts));
        all.push(row("im2col in front of the tensor", way, pixels, &[-1, 1, 0], vec![0]));
        for (lower, upper) in
            [([-1, 0], [0, 0]), ([0, -1], [0, 0]), ([1, 1], [1, 1]), ([0, 0], [-1, -1]), ([-1, -1], [-2, -2])]
        {
            for pixels in [4, 16] {
                let map = images(element, &[64, 6, 5, 2], [32 / element.bytes(), pixels], (&lower, &upper), &[1, 1]);
                let name = format!("im2col, {pixels} pixels, corners {lower:?} and {upper:?}");
                all.push(row(&name, way, map, &[1, 1, 0], vec![0]));
            }
        }
    }
    all
}

/// Nothing is to be seen of a prefetch but whether it is refused.
fn prefetch(name: &str, map: Map, coords: &[i64]) -> Program {
    let list = coords.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let rank = coords.len();
    let body = format!("cp.async.bulk.prefetch.tensor.{rank}d.L2.global [%map, {{{list}}}];\n");
    let bytes = map.bytes();
    Program::new(name.to_owned(), 1, vec![map], vec![vec![1; bytes]], &body)
}

/// What became of a copy.
#[derive(Clone)]
enum Outcome {
    /// What the simulator says: the same bytes, or that it is not allowed.
    Same,
    SameFault,
    /// Done, with other bytes.
    Differs(String),
    /// One of the two refuses it.
    OnlyGpuFaults(String),
    OnlySimulatorFaults(String),
    NoMap,
}

impl Outcome {
    fn letter(&self) -> char {
        match self {
            Self::Same => '.',
            Self::SameFault => 'x',
            Self::Differs(_) => '~',
            Self::OnlyGpuFaults(_) => 'G',
            Self::OnlySimulatorFaults(_) => 'S',
            Self::NoMap => 'm',
        }
    }

    fn told(&self) -> Option<&str> {
        match self {
            Self::Differs(text) | Self::OnlyGpuFaults(text) | Self::OnlySimulatorFaults(text) => Some(text),
            _ => None,
        }
    }

    /// From a line of a process: a letter and a text.
    fn read(line: &str) -> Option<Self> {
        let mut letters = line.chars();
        let (letter, text) = (letters.next()?, letters.as_str().trim().to_owned());
        Some(match letter {
            '.' => Self::Same,
            'x' => Self::SameFault,
            '~' => Self::Differs(text),
            'G' => Self::OnlyGpuFaults(text),
            'S' => Self::OnlySimulatorFaults(text),
            'm' => Self::NoMap,
            _ => return None,
        })
    }
}

/// One copy on both machines.
fn compare(device: &bsr_runtime::gpu::Device, program: &Program) -> Outcome {
    let simulated = program.judged();
    let found = match super::gpu::run(device, program) {
        Ok(None) => return Outcome::NoMap,
        Ok(Some(found)) => found,
        Err(_) if simulated.is_err() => return Outcome::SameFault,
        Err(error) => return Outcome::OnlyGpuFaults(error.to_string().lines().next().unwrap_or_default().to_owned()),
    };
    let simulated = match simulated {
        Ok(simulated) => simulated,
        Err(finding) => return Outcome::OnlySimulatorFaults(finding),
    };
    for (buffer, (gpu, simulator)) in found.iter().zip(&simulated).enumerate() {
        if let Some(first) = (0..gpu.len()).find(|i| gpu[*i] != simulator[*i]) {
            let count = gpu.iter().zip(simulator).filter(|(one, other)| one != other).count();
            let bytes =
                |of: &[u8]| of[first / 16 * 16..].iter().take(32).map(|b| format!("{b:02x}")).collect::<String>();
            return Outcome::Differs(format!(
                "{count} bytes of buffer {buffer}, from {first} on: GPU {}, simulator {}",
                bytes(gpu),
                bytes(simulator)
            ));
        }
    }
    Outcome::Same
}

/// More than a row has starts: copy `n` of row `r` has the number `r * MOST + n`.
const MOST: usize = 32;

fn program(rows: &[Row], number: usize) -> Program {
    let row = &rows[number / MOST];
    row.program(row.starts[number % MOST])
}

#[test]
#[ignore = "one process of `copies_that_begin_anywhere_are_the_gpus`"]
fn copies_of_one_process() {
    let Ok(numbers) = std::env::var(COPIES) else { return };
    let Some((_turn, device)) = device() else { return };
    let rows = rows();
    for number in numbers.split(',').filter_map(|n| n.parse().ok()) {
        let outcome = compare(&device, &program(&rows, number));
        println!("COPY {number} {} {}", outcome.letter(), outcome.told().unwrap_or_default());
        if matches!(outcome, Outcome::SameFault | Outcome::OnlyGpuFaults(_)) {
            // What is left of CUDA in this process can only fail, when it is taken down too.
            std::process::exit(0);
        }
    }
}

/// Lets processes carry out these copies.
fn in_processes(mut numbers: Vec<usize>, outcomes: &Mutex<BTreeMap<usize, Outcome>>, until: Instant) {
    while !numbers.is_empty() && Instant::now() < until {
        let list = numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let out = Command::new(std::env::current_exe().unwrap())
            .args(["agreement::starts::copies_of_one_process", "--exact", "--ignored", "--nocapture"])
            .env(COPIES, list)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let mut done = 0;
        let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        for line in text.lines() {
            let Some((number, rest)) = line.split_once("COPY ").and_then(|(_, rest)| rest.split_once(' ')) else {
                continue;
            };
            let (Ok(number), Some(outcome)) = (number.parse(), Outcome::read(rest)) else { continue };
            outcomes.insert(number, outcome);
            done += 1;
        }
        if done == 0 {
            let why = String::from_utf8_lossy(&out.stderr).lines().last().unwrap_or_default().to_owned();
            outcomes.insert(numbers[0], Outcome::OnlyGpuFaults(format!("the process ended: {why}")));
            done = 1;
        }
        numbers.drain(..done);
    }
}

#[test]
fn copies_from_the_start_of_a_line_are_refused_with_padding_alone() {
    for row in rows()
        .iter()
        .filter(|row| !matches!(row.way, Way::Reduce(f) if f != "add") && row.outer.iter().all(|c| *c >= 0))
    {
        if matches!(
            (row.way, row.map.element),
            (Way::Reduce(_), TensorElement::U16 | TensorElement::B8 | TensorElement::S64)
        ) {
            continue;
        }
        let found = row.program(0).judged();
        let is_padded = row.map.corners.as_ref().is_some_and(|(lower, _)| lower.iter().any(|corner| *corner != 0));
        let is_refused = is_padded && matches!(row.way, Way::Store | Way::Reduce(_));
        assert_eq!(found.is_err(), is_refused, "{}: {found:?}", row.name);
    }
}

#[test]
fn copies_that_begin_anywhere_are_the_gpus() {
    let Some((_turn, _device)) = device() else { return };
    let seconds = std::env::var("BSR_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(600);
    let (rows, until) = (rows(), Instant::now() + Duration::from_secs(seconds));
    let (outcomes, next) = (Mutex::new(BTreeMap::new()), AtomicUsize::new(0));
    let workers = std::thread::available_parallelism().map_or(4, |n| n.get().min(16));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let row = next.fetch_add(1, Ordering::Relaxed);
                    if row >= rows.len() {
                        break;
                    }
                    in_processes((row * MOST..row * MOST + rows[row].starts.len()).collect(), &outcomes, until);
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    tell(format_args!(
        ". the same, x both refuse, ~ other bytes, G only the GPU refuses, S only the simulator, m no tensor map, ? not run"
    ));
    let mut different = 0;
    for (i, row) in rows.iter().enumerate() {
        let of = |n: usize| outcomes.get(&(i * MOST + n));
        let letters: String = (0..row.starts.len()).map(|n| of(n).map_or('?', Outcome::letter)).collect();
        let places = if row.starts.len() < 9 { format!("{:?}", row.starts) } else { String::new() };
        tell(format_args!("{letters:9} {} {places}", row.name));
        let told: Vec<_> = (0..row.starts.len()).filter_map(|n| Some((row.starts[n], of(n)?.told()?))).collect();
        different += told.len();
        // One of each kind of text is enough.
        let mut seen = Vec::new();
        for (start, text) in told {
            let head = text.split(&[',', '0'][..]).next().unwrap_or_default().to_owned();
            if !seen.contains(&head) && seen.len() < 3 {
                tell(format_args!("    at {start}: {text}"));
                seen.push(head);
            }
        }
    }
    assert_eq!(different, 0, "the simulator and the GPU do not agree on these copies");
    let all: usize = rows.iter().map(|row| row.starts.len()).sum();
    assert_eq!(outcomes.len(), all, "not all copies were run in {seconds} s");
}
