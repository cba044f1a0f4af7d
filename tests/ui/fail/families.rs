use bsr::{Bsr, Dense, bsr_kernel, f16};

#[bsr_kernel(bm = 128, bn = [32, 64, 96, 128], bk = [16, 32, 48, 64], stages = 2..=40)]
struct TooMany;

#[bsr_kernel(bm = 64, bn = [64, 96, 128, 160], bk = 64, stages = 2..=4, schedule = [balanced, strided], c_layout = [row, col], swizzle = [64, 128])]
struct TooManyToEmbed;

#[bsr_kernel(bm = 100, bn = [64, 128], bk = [60, 64], stages = [99, 100])]
struct NoneIsLegal;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, dtype = [f16, bf16])]
fn fixed(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

#[bsr_kernel(bm = 128, bn = [64, 128], bk = 64)]
fn unlisted<T>(a: Bsr<T>, b: Dense<T>) -> Dense<T>;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, dtype = [f16, e5m2])]
fn unwritten<'a, T, U: Copy, V>(a: Bsr<T>, b: Dense<T>) -> Dense<T>;

#[bsr_kernel(bm = 128, bn = 128, bk = 64, dtype = bf16)]
fn single<T>(a: Bsr<T>, b: Dense<T>) -> Dense<T>;

fn main() {
    println!("{} {}", TooMany::MEMBERS.len(), TooManyToEmbed::MEMBERS.len());
    println!("{} {}", NoneIsLegal::MEMBERS.len(), none_is_legal_members::bn64_bk60_stages99::SPEC);
    println!("{} {} {}", fixed::MEMBERS.len(), unlisted::MEMBERS.len(), unwritten::MEMBERS.len());
    println!("{}", single::SPEC);
}
