//! A tar archive in memory, as POSIX has it since 1988 (ustar). Pure.

/// Bytes of a block.
const BLOCK: usize = 512;
/// The longest name.
pub(super) const NAME_MAX: usize = 100;

/// A growing archive. All files are root's own, for root alone.
#[derive(Debug, Default)]
pub(super) struct Archive(Vec<u8>);

impl Archive {
    /// Adds a file; its name is cut to the longest that fits.
    pub(super) fn add(&mut self, name: &str, modified: u64, content: &[u8]) {
        let mut head = [0_u8; BLOCK];
        let mut put = |at: usize, text: &str| head[at..at + text.len()].copy_from_slice(text.as_bytes());
        let end = (0..=name.len().min(NAME_MAX)).rev().find(|end| name.is_char_boundary(*end)).unwrap_or_default();
        put(0, &name[..end]);
        put(100, "0000600\0");
        put(108, "0000000\0");
        put(116, "0000000\0");
        put(124, &format!("{:011o}\0", content.len()));
        put(136, &format!("{modified:011o}\0"));
        // While it is counted, the checksum is blanks.
        put(148, "        ");
        put(156, "0");
        put(257, "ustar\u{0}00");
        put(265, "root");
        put(297, "root");
        let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
        head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend_from_slice(&head);
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
    }

    /// The whole archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 2 * BLOCK, 0);
        self.0
    }
}
