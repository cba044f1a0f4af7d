//! PTX within other files: fat binaries, and objects, executables and libraries that hold some.
//!
//! A fat binary is a head of 16 bytes (magic number, version 1, size of the head, bytes that follow) and entries, each with
//! a head of its own: kind, its size, the bytes that follow, and flags.

use crate::Failure;

/// First word of a fat binary.
const MAGIC: u32 = 0xba55_ed50;
/// Bytes of its head.
const HEAD: usize = 16;
/// The kind of entries that are PTX.
const PTX: u16 = 1;
/// Flags of compressed entries.
const COMPRESSED: u64 = 0x2000 | 0x8000;
/// First bytes of ELF files: cubins, objects, executables, libraries.
const ELF: &[u8] = b"\x7fELF";

/// The PTX that a file is, or that it holds; of several texts the one with the kernel, for the latest target up to Hopper's.
/// `named` says how a kernel is asked for.
///
/// # Errors
/// Bad input: no PTX is in it, it is compressed, or several texts are equally good.
pub fn ptx_of(file: &[u8], entry: Option<&str>, named: &str) -> Result<String, Failure> {
    let mut all = texts(file)?;
    if all.len() == 1 {
        return Ok(all.remove(0));
    }
    let count = all.len();
    all.retain(|text| text.contains(&format!(".entry {}", entry.unwrap_or_default())));
    let best = all.iter().map(|text| target(text)).max().unwrap_or_default();
    all.retain(|text| target(text) == best);
    match (all.len(), entry) {
        (1, _) => Ok(all.remove(0)),
        (0, Some(entry)) => {
            Err(Failure::bad_input(format!("none of the file's {count} texts of PTX has a kernel `{entry}`")))
        }
        (0, None) => Err(Failure::bad_input(format!("none of the file's {count} texts of PTX has a kernel"))),
        (many, _) => {
            Err(Failure::bad_input(format!("the file has {many} texts of PTX\n  help: name a kernel: {named}")))
        }
    }
}

/// The number of a text's target and its suffix; 0 beyond Hopper.
fn target(text: &str) -> (u32, String) {
    let name = text.split_once(".target sm_").map_or("", |(_, rest)| rest);
    let digits = name.find(|c: char| !c.is_ascii_digit()).unwrap_or(name.len());
    let suffix = name[digits..].split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    match name[..digits].parse() {
        Ok(number) if number <= 90 => (number, suffix.to_owned()),
        _ => (0, String::new()),
    }
}

/// The PTX that a file is, or that it holds.
///
/// # Errors
/// Bad input: no PTX is in it, or it is compressed.
fn texts(file: &[u8]) -> Result<Vec<String>, Failure> {
    let (mut found, mut compressed, mut fat) = (Vec::new(), false, false);
    let mut at = 0;
    while let Some(entries) = next(file, &mut at) {
        fat = true;
        for (kind, flags, payload) in Entries(entries) {
            match (kind, flags & COMPRESSED) {
                (PTX, 0) => found.push(text(payload)),
                (PTX, _) => compressed = true,
                _ => {}
            }
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    if compressed {
        let remedy = "`cuobjdump -xptx all FILE` writes it as text; or compile with `-Xfatbin -compress-mode=none`";
        return Err(Failure::bad_input(format!("the PTX in this file is compressed\n  help: {remedy}")));
    }
    if fat || file.starts_with(ELF) {
        let remedy = "compile with `-gencode arch=compute_90a,code=compute_90a`, or with `-ptx`";
        return Err(Failure::bad_input(format!("this file has machine code and no PTX\n  help: {remedy}")));
    }
    match std::str::from_utf8(file) {
        Ok(all) => Ok(vec![all.to_owned()]),
        Err(error) => {
            let place = error.valid_up_to();
            Err(Failure::bad_input(format!("this is neither PTX (byte {place} is no text) nor a fat binary")))
        }
    }
}

fn text(payload: &[u8]) -> String {
    let end = payload.iter().position(|byte| *byte == 0).unwrap_or(payload.len());
    String::from_utf8_lossy(&payload[..end]).into_owned()
}

/// What follows the head of the next fat binary, which starts at a multiple of 8 bytes.
fn next<'f>(file: &'f [u8], at: &mut usize) -> Option<&'f [u8]> {
    while let Some(head) = file.get(*at..*at + HEAD) {
        let (size, length) = (number(head, 6, 2) as usize, number(head, 8, 8));
        let entries = usize::try_from(length).ok().and_then(|length| file.get(*at + size..)?.get(..length));
        match entries {
            Some(entries) if number(head, 0, 4) == u64::from(MAGIC) && size >= HEAD => {
                *at = (*at + size + entries.len()).next_multiple_of(8);
                return Some(entries);
            }
            _ => *at += 8,
        }
    }
    None
}

/// Kind, flags and bytes of each entry.
struct Entries<'f>(&'f [u8]);

impl<'f> Iterator for Entries<'f> {
    type Item = (u16, u64, &'f [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let head = self.0.get(..48)?;
        let (size, length) = (number(head, 4, 4) as usize, usize::try_from(number(head, 8, 8)).ok()?);
        let payload = self.0.get(size..)?.get(..length)?;
        self.0 = self.0.get(size + length..).filter(|_| size >= head.len())?;
        Some((number(head, 0, 2) as u16, number(head, 40, 8), payload))
    }
}

fn number(from: &[u8], at: usize, bytes: usize) -> u64 {
    from[at..at + bytes].iter().rev().fold(0, |v, b| v << 8 | u64::from(*b))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn entry(kind: u16, flags: u64, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![0; 64];
        out[..2].copy_from_slice(&kind.to_le_bytes());
        out[4..8].copy_from_slice(&64u32.to_le_bytes());
        out[8..16].copy_from_slice(&(payload.len() as u64).to_le_bytes());
        out[40..48].copy_from_slice(&flags.to_le_bytes());
        out.extend(payload);
        out
    }

    fn binary(entries: &[Vec<u8>]) -> Vec<u8> {
        let all = entries.concat();
        let head = [&MAGIC.to_le_bytes()[..], &[1, 0, 16, 0], &(all.len() as u64).to_le_bytes()].concat();
        [head, all].concat()
    }

    #[test]
    fn of_several_texts_the_kernel_and_the_latest_target_choose() {
        let text =
            |target: &str, kernel: &str| format!(".version 8.0\n.target {target}\n.visible .entry {kernel}() {{}}\n");
        let of = |all: &[(&str, &str)]| {
            let entries: Vec<_> = all.iter().map(|(to, kernel)| entry(PTX, 0, text(to, kernel).as_bytes())).collect();
            binary(&entries)
        };
        let targets = of(&[("sm_90", "k"), ("sm_90a", "k"), ("sm_100a", "k"), ("sm_80", "k")]);
        assert!(ptx_of(&targets, None, "").unwrap().contains("sm_90a"));
        let kernels = of(&[("sm_90a", "first"), ("sm_90a", "second")]);
        assert!(ptx_of(&kernels, Some("second"), "").unwrap().contains("second"));
        assert!(ptx_of(&kernels, None, "HOW").unwrap_err().to_string().contains("name a kernel: HOW"));
        assert!(ptx_of(&kernels, Some("third"), "").unwrap_err().to_string().contains("has a kernel `third`"));
    }

    #[test]
    fn texts_are_found_wherever_they_are() {
        let (code, one) = (entry(2, 0, b"\x7fELF...."), entry(PTX, 0, b".version 8.0\n\0\0\0"));
        let two = entry(PTX, 0, b".version 8.6\n\0\0\0");
        assert_eq!(texts(&binary(&[code.clone(), one.clone()])).unwrap(), [".version 8.0\n"]);
        // In an executable, after other bytes.
        let inside = [&b"\x7fELF\0\0\0\0"[..], &[7; 16], &binary(&[one]), &binary(&[code.clone(), two])].concat();
        assert_eq!(texts(&inside).unwrap(), [".version 8.0\n", ".version 8.6\n"]);
        assert_eq!(texts(b".version 8.0").unwrap(), [".version 8.0"]);
        let why = |file: &[u8]| texts(file).unwrap_err().to_string();
        assert!(why(&binary(&[code])).contains("no PTX"));
        assert!(why(b"\x7fELF\0\0\0\0").contains("no PTX"));
        assert!(why(&binary(&[entry(PTX, 0x2000, b"LZ4")])).contains("cuobjdump -xptx"));
        assert!(why(&[0xff; 40]).contains("neither PTX"));
        // Cut off at any byte.
        (0..inside.len()).for_each(|end| drop(texts(&inside[..end])));
    }
}
