//! A cubin's bounds: the driver reads one without being told its length.

use super::error::GpuError;

/// Copies a cubin into memory aligned for its headers, after checking that every part its headers name
/// lies inside it.
pub(crate) fn checked_copy(image: &[u8]) -> Result<Vec<u64>, GpuError> {
    check_bounds(image).map_err(|why| GpuError::NotACubin { bytes: image.len(), why })?;
    let mut words: Vec<u64> = Vec::with_capacity(image.len() / 8 + 1);
    words.extend(image.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    }));
    Ok(words)
}

fn check_bounds(image: &[u8]) -> Result<(), &'static str> {
    const CUDA: u64 = 190;
    const NO_BITS: u64 = 8;
    if !image.starts_with(b"\x7fELF") {
        return Err("they do not begin with the ELF mark");
    }
    if image.get(4..6) != Some(&[2, 1]) {
        return Err("they are not a 64-bit little-endian ELF file");
    }
    let field = |offset: u64, size: usize| -> Result<u64, &'static str> {
        let start = usize::try_from(offset).map_err(|_| "the file is cut short")?;
        let end = start.checked_add(size).ok_or("the file is cut short")?;
        let bytes = image.get(start..end).ok_or("the file is cut short")?;
        Ok(bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    };
    if field(18, 2)? != CUDA {
        return Err("it is an ELF file for another machine");
    }
    let inside = |offset: u64, size: u64| -> Result<(), &'static str> {
        match offset.checked_add(size) {
            Some(end) if end <= image.len() as u64 => Ok(()),
            _ => Err("the file is cut short"),
        }
    };
    let (segments, segment_size, segment_count) = (field(32, 8)?, field(54, 2)?, field(56, 2)?);
    inside(segments, segment_size * segment_count)?;
    let (sections, section_size, section_count) = (field(40, 8)?, field(58, 2)?, field(60, 2)?);
    inside(sections, section_size * section_count)?;
    for number in 0..section_count {
        let header = sections + number * section_size;
        if field(header + 4, 4)? != NO_BITS {
            inside(field(header + 24, 8)?, field(header + 32, 8)?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A file of one section header naming 16 bytes at offset 128.
    fn image() -> Vec<u8> {
        let mut bytes = vec![0; 144];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18] = 190;
        bytes[40] = 64;
        bytes[58] = 64;
        bytes[60] = 1;
        bytes[64 + 24] = 128;
        bytes[64 + 32] = 16;
        bytes
    }

    #[test]
    fn a_whole_file_is_copied_byte_for_byte() {
        let words = checked_copy(&image()).unwrap();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(bytes, image());
    }

    #[test]
    fn every_cut_is_noticed() {
        for len in 0..image().len() {
            let cut = checked_copy(&image()[..len]);
            assert!(matches!(cut, Err(GpuError::NotACubin { .. })), "{len}");
        }
    }

    #[test]
    fn other_files_are_refused() {
        assert!(checked_copy(b".version 8.0").is_err());
        let mut host = image();
        host[18] = 62;
        assert!(checked_copy(&host).is_err());
    }
}
