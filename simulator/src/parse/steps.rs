//! Counts the steps of reading a text (bytes and tokens looked at), so that tests can check how they grow with its length:
//! unlike a time, a count is the same on every machine. Outside this crate's tests nothing is counted.

/// Adds to the count of this thread.
#[inline]
pub(super) fn add(steps: usize) {
    #[cfg(test)]
    tests::STEPS.with(|count| count.set(count.get() + steps));
    #[cfg(not(test))]
    let _ = steps;
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    thread_local! {
        pub(super) static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    fn steps(line: &str) -> usize {
        STEPS.set(0);
        let _ = crate::parse(&format!(
            ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n.reg .b32 %r<4>;\n\
             .reg .f32 %f<4>;\n{line}\nret;\n}}\n"
        ));
        STEPS.get()
    }

    #[test]
    fn the_steps_of_a_line_grow_as_its_length() {
        type Line = fn(usize) -> String;
        let cases: [(&str, Line); 7] = [
            ("statements", |n| "add.u32 %r0, %r1, %r2; ".repeat(n)),
            ("an error at the end", |n| format!("{} add.u32 %r0;", "add.u32 %r0, %r1, %r2; ".repeat(n))),
            ("labels", |n| (0..n).map(|label| format!("$l{label}: bra $l{label}; ")).collect()),
            ("registers", |n| (0..n).map(|name| format!(".reg .b32 %x{name}; mov.b32 %x{name}, 1; ")).collect()),
            ("comments", |n| "/* a */ ".repeat(n)),
            ("a word", |n| format!("bra ${};", "a".repeat(20 * n))),
            ("digits", |n| format!("mov.f32 %f0, {}.{};", "1".repeat(20 * n), "0e+".repeat(20 * n))),
        ];
        for (name, line) in cases {
            let [once, more] = [200, 1600].map(|size| steps(&line(size)));
            assert!(once > 200 && more < 9 * once, "{name}: {once} steps, and {more} for a line eight times as long");
        }
    }
}
