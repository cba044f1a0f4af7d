//! What the parser refuses, and where it points.

use bsr_simulator::parse;
use proptest::prelude::*;

fn kernel(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n.reg .f32 %f<4>;\n.reg .pred %p<2>;\n{body}\nret;\n}}\n"
    )
}

fn refusal(body: &str) -> String {
    parse(&kernel(body)).err().map_or_else(|| panic!("accepted: {body}"), |e| e.to_string())
}

#[test]
fn errors_name_line_column_and_word() {
    let cases = [
        ("frobnicate.u32 %r0, %r1;", "10:1: the instruction `frobnicate` is not modelled"),
        ("mul.sat.s32 %r0, %r1, %r2;", "10:5: `.sat` of `mul.sat.s32` is not modelled here"),
        ("add.u32 %r0, %r1;", "10:1: `add.u32` takes 3 operands and has 2"),
        ("add.u32 %r0, %r1, %r9;", "10:19: `%r9` is not declared"),
        ("add.u32 %r0, %r1, %f0;", "10:19: `%f0` is a .f32 register where `add.u32` needs .u32"),
        ("add.u32 %rd0, %r1, %r2;", "10:9: `%rd0` is a .b64 register"),
        ("mov.u32 %r0, 0x1ffffffff;", "10:14: the constant 8589934591 does not fit .u32"),
        ("bra $nowhere;", "10:5: the label `$nowhere` does not exist in this scope"),
        ("@%r0 bra $x;\n$x:", "10:2: `%r0` is a .b32 register"),
        ("ld.global.u32 %r0, [%r1];", "10:21: `%r1` is .b32: an address here has 64 bits"),
        ("bar.sync 0, 100;", "10:13: the thread count of a barrier is a multiple of 32; 100 is not"),
        ("setmaxnreg.inc.sync.aligned.u32 100;", "10:33: setmaxnreg takes a multiple of 8"),
        ("cvt.f16.f32 %r0, %f0;", "10:1: cvt from .f32 to .f16 with this rounding"),
        (
            "wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {%f0}, %rd0, %rd1, 1, 1, 1, 0, 0;",
            "10:30: `.m64n12k16` of",
        ),
        ("mov.u32 %r0, %r1", "11:1: expected `;`, found `ret`"),
        ("mov.u32 %r0, \"a\";", "10:14: expected an operand, found a string"),
        (".texref x;", "10:1: the directive `.texref` is not modelled inside a kernel"),
        ("$a:\n$a:", "11:1: the label `$a` is defined twice"),
        (".reg .b32 %r0;", "10:11: `%r0` is declared twice"),
        ("mov.u32 %r0, 1; `", "10:17: the character ``` is not allowed in PTX"),
        ("/* open", "10:1: this comment is never closed"),
    ];
    for (body, wanted) in cases {
        let got = refusal(body);
        assert!(got.starts_with(wanted), "{body}\n  wanted {wanted}\n  got    {got}");
    }
}

#[test]
fn scopes_have_their_own_names() {
    let text = kernel("{\n.reg .b32 %inner;\nmov.u32 %inner, 1;\n$l:\nadd.u32 %r0, %inner, 1;\n}\n$l:");
    assert!(parse(&text).is_ok(), "{:?}", parse(&text).err());
    assert!(refusal("{\n.reg .b32 %inner;\n}\nmov.u32 %inner, 1;").contains("not declared"));
}

#[test]
fn deep_nesting_is_refused() {
    let text = kernel(&"{".repeat(10_000));
    assert!(parse(&text).unwrap_err().message.contains("nest deeper"));
    let operand = format!("mov.b64 %rd0, {};", "{".repeat(10_000));
    assert!(refusal(&operand).contains("nest deeper"));
}

/// A line of a megabyte, whose places are counted from one token to the next.
#[test]
fn long_lines_have_places() {
    let body = "add.u32 %r0, %r1, %r2; ".repeat(45_000);
    assert!(body.len() > 1_000_000 && parse(&kernel(&body)).is_ok());
    let refused = refusal(&format!("{body}add.u32 %r0, %r1;"));
    assert!(refused.starts_with(&format!("10:{}: `add.u32` takes 3", body.len() + 1)), "{refused}");
    let number = format!("mov.f32 %f0, {}.{};", "1".repeat(500_000), "0e+".repeat(170_000));
    assert!(refusal(&number).contains("is not a number"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_accepted_or_refused(text in "\\PC*") {
        let _ = parse(&text);
    }

    #[test]
    fn a_kernel_with_damage_never_panics(at in 0usize..20_000, cut in 0usize..40, insert in "[-.,:;%@!{}\\[\\]a-z0-9 ]{0,8}") {
        let text = include_str!("../kernels/gemm.ptx");
        let mut a = at % text.len();
        while !text.is_char_boundary(a) {
            a -= 1;
        }
        let mut b = (a + cut).min(text.len());
        while !text.is_char_boundary(b) {
            b += 1;
        }
        let damaged = format!("{}{insert}{}", &text[..a], &text[b..]);
        if let Err(e) = parse(&damaged) {
            prop_assert!(e.span.line as usize <= damaged.lines().count() + 1);
        }
    }
}

/// `INSTRUCTIONS.md` is the table, generated. `BSR_BLESS=1` writes it.
#[test]
fn the_table_of_instructions_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/INSTRUCTIONS.md");
    let table = bsr_simulator::instruction_table();
    if std::env::var_os("BSR_BLESS").is_some() {
        std::fs::write(path, &table).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), table, "run with BSR_BLESS=1");
}
