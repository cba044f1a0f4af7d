//! Kernels with probes: the text is that of the kernel without them and what stands between its lines, and ptxas takes it.

use std::sync::LazyLock;

use bsr_codegen::probes::{Kind, Probes, ProbesError, SPARE_SLOTS};
use bsr_codegen::{Plan, Ptx};

use crate::matrix;
use crate::planning::plan;

const PROBES: Probes = Probes { first: 1, ctas: 3, records: 1000 };

/// What writes a record, or a half of one, and what asks whether there is room for more.
const RECORD: &str = "@%p_probe st.global";
const LOOK: &str = "setp.lt.and.u32 %p_probe,";

/// A plan of the matrix that has roles: its text without probes, and with them.
struct Probed {
    plan: Plan,
    text: Ptx,
    probed: Ptx,
}

/// All of them.
static PROBED: LazyLock<Vec<Probed>> = LazyLock::new(|| {
    let with = |plan: Plan| {
        let probed = plan.probed(PROBES).ok()?.ptx();
        Some(Probed { text: plan.ptx(), plan, probed })
    };
    let all: Vec<Probed> = matrix::plans().into_iter().filter_map(with).collect();
    assert!(all.len() > 100, "{} plans of the matrix have roles", all.len());
    all
});

/// The instructions of a text, each on one line, without what probes add.
fn instructions(text: &str) -> Vec<String> {
    let body = text.split_once("\n{\n").unwrap().1;
    let code = body.lines().map(str::trim).filter(|line| !line.starts_with("//") && !line.starts_with(".reg"));
    code.filter(|line| !line.is_empty() && !line.contains("probe")).map(str::to_owned).collect()
}

#[test]
fn the_instructions_between_probes_are_those_of_the_kernel() {
    for Probed { plan, text, probed } in PROBED.iter() {
        assert!(!text.text().contains("probe") && !text.text().contains("//@"), "{}", plan.spec());
        assert!(!probed.text().contains("//@"), "{}", plan.spec());
        assert_eq!(instructions(text.text()), instructions(probed.text()), "{}", plan.spec());
    }
}

#[test]
fn every_loop_with_records_looks_for_room_and_no_run_of_records_is_longer_than_the_spare_slots() {
    for Probed { plan, probed, .. } in PROBED.iter() {
        let lines: Vec<&str> = probed.text().lines().map(str::trim).collect();
        let is = |at: usize, sign: &str| lines[at].starts_with(sign);
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.contains("bra")) {
            let label = line.trim_end_matches(';').split_whitespace().last().unwrap().to_owned() + ":";
            let Some(from) = lines[..at].iter().position(|line| *line == label) else { continue };
            let has = |sign| (from..at).any(|at| is(at, sign));
            assert!(!has(RECORD) || has(LOOK), "{}: the loop from {label} looks for no room", plan.spec());
        }
        let mut run = 0;
        for at in 0..lines.len() {
            run = if is(at, LOOK) { 0 } else { run + u32::from(is(at, RECORD)) };
            assert!(run < SPARE_SLOTS, "{}: {run} records before line {at} without a look", plan.spec());
        }
    }
}

#[test]
fn what_records_tell_is_a_register_of_the_kernel() {
    for Probed { plan, text, probed } in PROBED.iter() {
        let instructions = instructions(text.text());
        // A stage goes into the code of a record, which row and column into its first word.
        let signs = [RECORD, "mad.lo.u32 %r_probe_t"];
        let records = probed.text().lines().filter(|line| signs.iter().any(|sign| line.contains(sign)));
        for record in records {
            let words = record.split([',', '{', '}']).map(str::trim);
            for register in words.filter(|word| word.starts_with('%') && !word.contains("probe")) {
                let known = instructions.iter().any(|line| line.contains(register));
                assert!(known, "{}: nothing writes {register}", plan.spec());
            }
        }
    }
}

#[test]
fn every_role_records_what_it_waits_for() {
    for (spec, kinds) in [
        (
            "bm = 512, bn = 128, bk = 112",
            &[Kind::WaitFull, Kind::WaitEmpty, Kind::Load, Kind::Wgmma, Kind::Release, Kind::Store, Kind::Tile][..],
        ),
        ("bm = 64, bn = 64, bk = 32, split = 4", &[Kind::WaitPart, Kind::AddPart, Kind::PassOn]),
        ("bm = 16, bn = 64, bk = 16, split = 4", &[Kind::WaitPart, Kind::AddPart, Kind::PassOn]),
        ("bm = 16, bn = 64, bk = 16", &[Kind::LoadBlocks, Kind::LoadPanels, Kind::WaitFull, Kind::Wgmma]),
        ("bm = 64, bn = 64, bk = 64, op = sdd", &[Kind::WaitTile, Kind::LoadTile, Kind::Load, Kind::Wgmma]),
        (
            "op = attention, bm = 128, bn = 128, bk = 128",
            &[Kind::WaitKeys, Kind::WaitValues, Kind::LoadKeys, Kind::Scores, Kind::Output, Kind::Softmax],
        ),
        (
            "op = attention_dq, bm = 128, bn = 128, bk = 128",
            &[
                Kind::WaitRows,
                Kind::WaitKeys,
                Kind::WaitOutput,
                Kind::LoadOutput,
                Kind::Delta,
                Kind::Slopes,
                Kind::Sums,
            ],
        ),
        (
            "op = attention_dkv, bm = 128, bn = 128, bk = 128",
            &[Kind::WaitQueries, Kind::WaitGradients, Kind::LoadGradients, Kind::Probability, Kind::Slope, Kind::Store],
        ),
    ] {
        let text = plan(spec).probed(PROBES).unwrap().ptx().text().to_owned();
        for kind in kinds {
            let codes = [format!("mov.u32 %r_probe_t, {};", kind.code()), format!(", 256, {};", kind.code())];
            let of_subtile = format!("mov.u32 %r_probe_t, {};", kind.code_with(1));
            assert!(codes.iter().chain([&of_subtile]).any(|code| text.contains(code)), "{spec}: no {kind:?}");
        }
    }
}

#[test]
fn kernels_without_roles_and_rings_without_end_are_refused() {
    let scalar = plan("bm = 8, bn = 16, bk = 8, mma = scalar, dtype = f32");
    assert!(matches!(scalar.probed(PROBES), Err(ProbesError::NoRoles { .. })));
    let flagship = plan("bm = 512, bn = 128, bk = 112");
    for bad in [
        Probes { ctas: 0, ..PROBES },
        Probes { records: 0, ..PROBES },
        Probes { records: 1 << 21, ..PROBES },
        Probes { ctas: 132, records: 1 << 20, ..PROBES },
    ] {
        let error = flagship.probed(bad).unwrap_err().to_string();
        assert!(error.contains("help: "), "{error}");
    }
}
