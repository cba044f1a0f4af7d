//! Instructions of PTX that are refused by name, and why.

/// What several opcodes have in common: their first words, and the reason.
const REFUSED: &[(&[&str], &str)] = &[
    (&["tex", "tld4", "txq", "istypep"], "textures are described by the host, and none is part of a launch here"),
    (&["suld", "sust", "sured", "suq"], "surfaces are described by the host, and none is part of a launch here"),
    (&["multimem"], "it is of memory of several GPUs, and a launch has that of one"),
    (&["alloca", "stacksave", "stackrestore"], "local memory has the size that the text states"),
    (&["discard"], "what it leaves in memory has no value that could be followed"),
    (
        &[
            "vadd",
            "vsub",
            "vabsdiff",
            "vmin",
            "vmax",
            "vshl",
            "vshr",
            "vmad",
            "vset",
            "vadd2",
            "vsub2",
            "vavrg2",
            "vabsdiff2",
            "vmin2",
            "vmax2",
            "vset2",
            "vadd4",
            "vsub4",
            "vavrg4",
            "vabsdiff4",
            "vmin4",
            "vmax4",
            "vset4",
        ],
        "the video instructions are sequences of others on these targets",
    ),
    (&["tcgen05", "clusterlaunchcontrol"], "the first target that has it is sm_100"),
];

/// Why an instruction with this first word is refused.
pub(super) fn reason(head: &str) -> Option<&'static str> {
    REFUSED.iter().find(|(heads, _)| heads.contains(&head)).map(|(_, reason)| *reason)
}

/// The table in Markdown, for the documentation.
pub(super) fn table() -> String {
    let row = |(heads, reason): &(&[&str], &str)| format!("| `{}` | {reason} |\n", heads.join("` `"));
    let rows: String = REFUSED.iter().map(row).collect();
    format!("| opcode | reason |\n|---|---|\n{rows}")
}
