//! Fingerprints of texts.

/// The first 16 hexadecimal digits of the BLAKE3 hash of `text`: equal texts have equal fingerprints.
pub fn fingerprint(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().as_str()[..16].to_owned()
}
