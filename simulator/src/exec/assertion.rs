//! `__assertfail`: an assertion of the kernel's source that does not hold.

use crate::check::FindingKind;
use crate::machine::memory::Who;
use crate::machine::{Exec, Flow, Machine};

/// Characters of a message that are reported.
const LONGEST: usize = 400;

impl Machine<'_> {
    /// The parameters are the message, the file, the line, the function and the size of a character.
    pub(super) fn assertion(&mut self, who: Who, params: &[u32]) -> Exec<Flow> {
        let thread = who.w as u32 * 32 + Self::first_lane(who.mask);
        let number = |m: &mut Self, at: usize, bytes| params.get(at).map_or(0, |p| m.peek_local(thread, *p, bytes));
        let [message, file, function] = [0, 1, 3].map(|at| {
            let address = number(self, at, 8);
            self.text_at(address, who.pc)
        });
        let line = number(self, 2, 4);
        let text = format!("an assertion does not hold: {message} ({file}:{line}, in {function})");
        self.fail(FindingKind::Assertion, who.w, who.mask, who.pc, text)
    }

    /// The text of bytes up to a zero.
    fn text_at(&mut self, address: u64, pc: u32) -> String {
        let mut bytes = Vec::new();
        let mut byte = [0];
        while bytes.len() < LONGEST
            && self.global.read_atomic(address + bytes.len() as u64, &mut byte, pc)
            && byte[0] != 0
        {
            bytes.push(byte[0]);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
