//! From machine code back to lines of our PTX: ptxas notes them (`-lineinfo`), nvdisasm prints them (`-gp`).

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use bsr::gpu::Device;

use super::super::exit::Failure;
use super::super::ptxas::Ptxas;
use super::super::spec::Planned;
use super::super::toolkit::{self, PLACES};
use super::source::Row;

/// Machine code whose instructions are known by the lines that they come from.
#[derive(Debug)]
pub(super) struct Lined {
    pub(super) cubin: Vec<u8>,
    pub(super) lines: Lines,
    /// Who made it.
    pub(super) ptxas: String,
}

impl Lined {
    /// Assembles the kernel for a device.
    ///
    /// # Errors
    /// Why there are no lines, in one sentence: a program that is not there, or what it says.
    pub(super) fn new(planned: &Planned, device: &Device) -> Result<Self, String> {
        let words = |failure: Failure| failure.first_line().to_owned();
        let ptxas = Ptxas::find().map_err(words)?;
        let nvdisasm = toolkit::find("nvdisasm", Some(ptxas.path()))
            .ok_or_else(|| format!("no nvdisasm: not beside {}, {PLACES}", ptxas.path().display()))?;
        let target = target(planned.plan.arch().target, device.info().compute_capability);
        let cubin = ptxas.with_lines(&planned.ptx, &target).map_err(words)?;
        let lines = Lines::read(&disassembled(&nvdisasm, &cubin)?, planned.ptx.entry(), planned.ptx.text());
        if lines.0.is_empty() {
            return Err(format!("{} prints no lines of {}", nvdisasm.display(), planned.ptx.entry()));
        }
        let ptxas = format!("ptxas {}", ptxas.version().unwrap_or_else(|| "of unknown version".to_owned()));
        Ok(Self { cubin, lines, ptxas })
    }
}

/// What to assemble for: machine code runs on the capability that it was made for.
fn target(of_plan: &str, (major, minor): (u32, u32)) -> String {
    match of_plan.ends_with(['a', 'f']) {
        true => of_plan.to_owned(),
        false => format!("sm_{major}{minor}"),
    }
}

fn disassembled(nvdisasm: &Path, cubin: &[u8]) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("cannot start {}: {error}", nvdisasm.display());
    let folder = tempfile::tempdir().map_err(cannot)?;
    let path = folder.path().join("kernel.cubin");
    std::fs::write(&path, cubin).map_err(cannot)?;
    let output = Command::new(nvdisasm).args(["-c", "-gp"]).arg(&path).output().map_err(cannot)?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("nvdisasm does not read the machine code: {}", said.lines().next().unwrap_or_default())),
    }
}

/// The line of each instruction, by its place behind the kernel's first one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Lines(BTreeMap<u64, usize>);

/// What was counted on one line of the PTX.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counted {
    /// From 1; 0 stands for instructions without a line.
    pub(super) line: usize,
    pub(super) samples: f64,
    /// Samples by what the warps waited for.
    pub(super) stalls: BTreeMap<String, f64>,
}

impl Lines {
    /// Reads `nvdisasm -c -gp`: a comment says the line of the instructions that follow, up to the next one.
    ///
    /// Two kinds of instructions have the line of what was before them. WGMMAs are in the order of the text: where there are as
    /// many as in it, the first one there is the first one here. The first look at a barrier is made before the loop that waits
    /// for it: it belongs to the next wait of the text, and so does the branch behind it.
    pub(super) fn read(listing: &str, entry: &str, ptx: &str) -> Self {
        let with = |words| ptx.lines().zip(1..).filter(move |(line, _)| line.trim_start().starts_with(words));
        let of_text = |words| with(words).map(|(_, number)| number).collect::<Vec<usize>>();
        let [products, waits] = ["wgmma.mma_async", "mbarrier.try_wait"].map(of_text);
        let (mut lines, mut is_entry, mut line) = (BTreeMap::new(), false, None);
        let (mut wgmmas, mut wait) = (vec![], None);
        for words in listing.lines().map(str::trim) {
            if let Some(section) = words.strip_prefix(".section") {
                let name = section.trim_start().split(',').next().unwrap_or_default();
                (is_entry, line) = (name.strip_prefix(".text.") == Some(entry), None);
            } else if let Some(file) = words.strip_prefix("//## File") {
                line = file.rsplit_once("line ").and_then(|(_, number)| number.trim().parse().ok());
            } else if let (true, Some((place, opcode))) = (is_entry, instruction(words)) {
                if opcode.contains(".TRYWAIT") {
                    wait = line.and_then(|line| waits.iter().copied().find(|wait| *wait >= line));
                }
                let is_waiting = opcode.contains(".TRYWAIT") || opcode == "BRA";
                lines.extend(wait.filter(|_| is_waiting).or(line).map(|line| (place, line)));
                wait = wait.filter(|_| opcode != "BRA");
                // HGMMA, QGMMA, IGMMA.
                wgmmas.extend(opcode.split('.').next().is_some_and(|name| name.ends_with("GMMA")).then_some(place));
            }
        }
        if products.len() == wgmmas.len() {
            lines.extend(wgmmas.into_iter().zip(products));
        }
        Self(lines)
    }

    /// Sums the samples of instructions by line, in the order of the lines.
    pub(super) fn counted(&self, sass: &[Row]) -> Vec<Counted> {
        let first = sass.iter().find_map(|row| row.address).unwrap_or(0);
        let mut sums = BTreeMap::<usize, Counted>::new();
        for row in sass {
            let place = row.address.and_then(|address| address.checked_sub(first));
            let line = place.and_then(|place| self.0.get(&place)).copied().unwrap_or(0);
            let sum = sums.entry(line).or_insert_with(|| Counted { line, ..Counted::default() });
            sum.samples += row.samples;
            for (reason, count) in &row.stalls {
                *sum.stalls.entry(reason.clone()).or_default() += count;
            }
        }
        sums.into_values().collect()
    }
}

/// The place of an instruction, and its opcode: `/*01b0*/  @P0 BRA.U 0x2c0 ;`.
fn instruction(line: &str) -> Option<(u64, &str)> {
    let (place, instruction) = line.strip_prefix("/*")?.split_once("*/")?;
    let opcode = instruction.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or_default();
    Some((u64::from_str_radix(place, 16).ok()?, opcode))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As nvdisasm 13.2 prints code of ptxas 13.0, shortened.
    const DISASSEMBLED: &str = r#"	.target	sm_90a

//--------------------- .text.other --------------------------
	.section	.text.other,"ax",@progbits
	//## File ".nv_debug_ptx_txt", line 7
        /*0000*/                   EXIT ;

//--------------------- .text.bsr_k --------------------------
	.section	.text.bsr_k,"ax",@progbits
	.align	128
        .global         bsr_k
.text.bsr_k:
	//## File ".nv_debug_ptx_txt", line 22
        /*0000*/                   LDC R1, c[0x0][0x28] ;
	//## File ".nv_debug_ptx_txt", line 48
        /*0010*/                   S2UR UR4, SR_CTAID.X ;
        /*0020*/                   I2FP.F32.U32 R0, UR4 ;
.L_x_0:
	//## File ".nv_debug_ptx_txt", line 22
        /*0030*/                   HGMMA.64x256x16.F32 R24, gdesc[UR20].tnspB, RZ, !UPT ;
        /*0040*/              @!P0 BRA `(.L_x_0) ;
"#;

    /// The second line is a WGMMA.
    const PTX: &str = "    wgmma.fence.sync.aligned;\n    wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16\n";

    fn row(address: u64, samples: f64, reason: &str) -> Row {
        let stalls = vec![(reason.to_owned(), samples)];
        Row { address: Some(0x7f03_2f7a_0000 + address), samples, stalls, ..Row::default() }
    }

    #[test]
    fn an_instruction_has_the_line_that_was_said_last() {
        let lines = Lines::read(DISASSEMBLED, "bsr_k", "");
        assert_eq!(lines.0, [(0x00, 22), (0x10, 48), (0x20, 48), (0x30, 22), (0x40, 22)].into());
        assert_eq!(Lines::read(DISASSEMBLED, "bsr", "").0.len(), 0);
    }

    #[test]
    fn a_wgmma_has_its_line_by_its_number() {
        let lines = Lines::read(DISASSEMBLED, "bsr_k", PTX);
        assert_eq!((lines.0[&0x30], lines.0[&0x40]), (2, 22));
        // There are more in the text: nothing says which one it is.
        let lines = Lines::read(DISASSEMBLED, "bsr_k", &PTX.repeat(2));
        assert_eq!(lines.0[&0x30], 22);
    }

    #[test]
    fn the_first_look_at_a_barrier_is_of_the_loop_that_waits_for_it() {
        let ptx = "add.s64 %rd_b, %rd_desc_b, %rd_t;\n$full:\n    mbarrier.try_wait.parity %p, [%r], %r_t;\n    @!%p bra $full;\n";
        let listing = r#"	.section	.text.bsr_k,"ax",@progbits
	//## File ".nv_debug_ptx_txt", line 1
        /*26e0*/                   SHF.L.U32 R4, R4, 0x1f, RZ ;
        /*26f0*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P2, [UR20], R4 ;
        /*2700*/              @!P2 BRA `(.L_x_23) ;
        /*2710*/                   EXIT ;
.L_x_23:
	//## File ".nv_debug_ptx_txt", line 3
        /*2720*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P2, [UR20], R4 ;
	//## File ".nv_debug_ptx_txt", line 4
        /*2730*/               @P2 BRA `(.L_x_23) ;
        /*2740*/              @!P2 BRA `(.L_x_42) ;
"#;
        let lines = Lines::read(listing, "bsr_k", ptx);
        let of = |place| lines.0[&place];
        assert_eq!([0x26e0, 0x26f0, 0x2700, 0x2710].map(of), [1, 3, 3, 1]);
        assert_eq!([0x2720, 0x2730, 0x2740].map(of), [3, 3, 4]);
    }

    #[test]
    fn samples_are_summed_by_line_wherever_the_code_was_loaded() {
        let lines = Lines::read(DISASSEMBLED, "bsr_k", "");
        let sass = [row(0, 1.0, "wait"), row(0x10, 2.0, "wait"), row(0x20, 3.0, "gmma"), row(0x30, 5.0, "gmma")];
        let counted = lines.counted(&sass);
        let of = |line| counted.iter().find(|counted| counted.line == line).map(|counted| counted.samples);
        assert_eq!((of(22), of(48), of(0)), (Some(6.0), Some(5.0), None));
        let stalls: Vec<(&str, f64)> = counted[1].stalls.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(stalls, [("gmma", 3.0), ("wait", 2.0)]);
        // What is not in the listing has no line.
        let counted = lines.counted(&[row(0, 1.0, "wait"), row(0x50, 2.0, "wait")]);
        assert_eq!((counted[0].line, counted[0].samples), (0, 2.0));
    }

    #[test]
    fn machine_code_is_made_for_the_device() {
        assert_eq!((target("sm_90a", (9, 0)), target("sm_80", (9, 0))), ("sm_90a".to_owned(), "sm_90".to_owned()));
    }
}
