//! The one list of what is modelled.

/// A family of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Opcode with its modelled modifiers; `{}` encloses alternatives, `[]` what may be left out.
    pub form: &'static str,
    /// The types.
    pub types: &'static str,
    /// What to know.
    pub note: &'static str,
}

const fn i(form: &'static str, types: &'static str, note: &'static str) -> Instruction {
    Instruction { form, types, note }
}

/// Every instruction that the simulator executes. Anything else is a [`ParseError`](crate::ParseError), and so is an
/// instruction that the module's target does not have.
pub const INSTRUCTIONS: &[Instruction] = &[
    i(
        "add[.sat] sub[.sat] mul.{lo,hi,wide} mad.{lo,hi[.sat],wide} div rem min[.relu] max[.relu]",
        "u16 u32 u64 s16 s32 s64",
        "division by zero is a finding; add, min and max of u16x2 and s16x2, too; .sat of s32, .relu of s32 and s16x2",
    ),
    i("mul24.{lo,hi} mad24.{lo,hi[.sat]}", "u32 s32", ""),
    i(
        "add.cc addc[.cc] sub.cc subc[.cc] mad.{lo,hi}.cc madc.{lo,hi}[.cc]",
        "u32 s32 u64 s64",
        "the carry flag is one of each thread",
    ),
    i("neg abs", "s16 s32 s64", ""),
    i("sad", "u16 .. s64", ""),
    i("and or xor not cnot", "pred b16 b32 b64", "cnot not on pred"),
    i("shl shr shf.{l,r}.{wrap,clamp}", "b16 b32 b64, shr also u s, shf b32", "amounts clamp at the width"),
    i(
        "popc clz brev bfe bfi bfind[.shiftamt] fns bmsk.{clamp,wrap} szext.{clamp,wrap} prmt[.mode] lop3[.or,.and] dp4a dp2a.{lo,hi}",
        "b32 b64 u32 u64 s32 s64",
        "fns, bmsk, prmt and lop3: b32, szext, dp4a and dp2a: u32 s32",
    ),
    i(
        "add sub mul fma min max neg abs [.rn][.ftz][.sat][.relu][.NaN][.xorsign.abs], copysign, testp.class",
        "f16 f16x2 bf16 bf16x2 f32 f64",
        "round to nearest even; of f32 also .rz .rm .rp; copysign and testp: f32 f64",
    ),
    i(
        "div rcp sqrt {.rn,.rz,.rm,.rp,.approx,.full}, rsqrt ex2 lg2 sin cos tanh .approx",
        "f32, some f64 f16 bf16",
        "approx: better than the ISA's bound; .rz .rm .rp of f32",
    ),
    i(
        "setp.cmp[.and,.or,.xor] set.cmp[.and,.or,.xor] selp slct",
        "all, ordered and unordered; setp and set of f16x2 bf16x2",
        "",
    ),
    i(
        "cvt[.rn,.rz,.rm,.rp,.rni,.rzi,.rmi,.rpi,.rna][.sat,.satfinite][.ftz][.relu]",
        "integers, f16 bf16 f32 f64 tf32, f16x2 bf16x2 e4m3x2 e5m2x2",
        "packed forms take two f32; e4m3x2 and e5m2x2 need satfinite",
    ),
    i("cvt.pack.sat", "u16 s16 u8 s8 u4 s4 from s32", ""),
    i("mov", "pred b16..b64 u s f16 bf16 f32 f64", "also packs and unpacks `{a, b}` and reads special registers"),
    i(
        "cvta[.to].{global,const,shared,shared::cluster,param,local}.u64 mapa getctarank isspacep",
        "u32 u64",
        "isspacep: not of .const",
    ),
    i(
        "bra[.uni] brx.idx ret exit trap brkpt nanosleep pmevent",
        "",
        "nanosleep only passes time, pmevent does nothing",
    ),
    i(
        "call[.uni]",
        "",
        "of functions in the text, each call decoded anew; `vprintf` prints nothing, `__assertfail` is a finding",
    ),
    i(
        "griddepcontrol.{wait,launch_dependents}",
        "",
        "in a dependent launch global memory may be touched only after wait; launch_dependents has no effect",
    ),
    i(
        "ld ldu[.weak,.volatile,[.mmio].relaxed,.acquire][.global,.const,.param,.local,.shared*][.nc][.v2,.v4]",
        "b8..b64 u s f32 f64",
        "cache operators are accepted; relaxed orders like acquire inside a cluster; .nc of bytes that the kernel writes is a finding",
    ),
    i(
        "st[.weak,.volatile,[.mmio].relaxed,.release][.global,.param,.local,.shared*][.v2,.v4]",
        "b8..b64 u s f32 f64",
        "relaxed orders like release inside a cluster",
    ),
    i(
        "atom red .{add[.noftz],min,max,and,or,xor,exch,cas,inc,dec}",
        "u32 s32 u64 s64 b32 b64 f16 f16x2 bf16 bf16x2 f32 f64",
        "clusters of such a kernel run in turns on one memory; cas of b16, too",
    ),
    i(
        "atom red .global.{add[.noftz],min.noftz,max.noftz}.{v2,v4,v8}",
        "f32 f16 f16x2 bf16 bf16x2",
        "each element by itself; f32: add",
    ),
    i(
        "st.async[.weak] red.async.relaxed.cluster.{add,min,max,and,or,xor,inc,dec} [.shared::cluster].mbarrier::complete_tx::bytes",
        "b32 b64 u s f32 f64",
        "to another block than the thread's, where the mbarrier is, too",
    ),
    i(
        "prefetch.{tensormap,L1,L2,L2::evict_*} prefetchu.L1 applypriority createpolicy.{fractional,range,cvt}",
        "",
        "the address is checked",
    ),
    i(
        "shfl.sync vote.sync match.sync redux.sync activemask elect.sync bar.warp.sync",
        "b32 b64 u32 s32 pred",
        "all named threads must execute it",
    ),
    i("bar barrier[.cta].{sync,arrive,red.popc,red.and,red.or}[.aligned]", "", "ids 0 to 15, counts checked"),
    i("barrier.cluster.{arrive,wait}[.release,.relaxed,.acquire][.aligned]", "", ""),
    i(
        "fence membar, fence.proxy.async[.space], fence.proxy.alias, fence.mbarrier_init.release.cluster",
        "",
        "a proxy fence covers its state space; .alias orders nothing, since every place has one address",
    ),
    i(
        "fence.proxy.tensormap::generic.{acquire,release}.scope",
        "",
        "of tensor maps in global memory; copies need it, once for each block",
    ),
    i(
        "tensormap.replace.tile tensormap.cp_fenceproxy",
        "b1024",
        "of tensor maps that the kernel makes from zeros or from one of its parameters; interleaved layouts are refused",
    ),
    i(
        "mbarrier.{init,inval,arrive[.expect_tx,.noComplete],arrive_drop,expect_tx,complete_tx,test_wait,try_wait[.parity],pending_count}",
        "b64",
        "misuse is a finding",
    ),
    i(
        "cp.async.{ca,cg}.shared.global, commit_group, wait_group, wait_all, mbarrier.arrive[.noinc]",
        "",
        "4, 8, 16 bytes, src-size, ignore-src; nothing orders two copies but a wait",
    ),
    i(
        "cp.async.bulk.tensor.{1d..5d} load (.multicast::cluster), store, prefetch; cp.reduce.async.bulk.tensor .{add,min,max,inc,dec,and,or,xor}",
        "",
        ".tile, and .im2col of 3d to 5d (.im2col_no_offs to global memory); L2 hints ignored",
    ),
    i(
        "cp.async.bulk global/shared/cluster copies, prefetch; cp.reduce.async.bulk .{add[.noftz],min,max,inc,dec,and,or,xor}",
        "",
        "multiples of 16 bytes",
    ),
    i("cp.async.bulk.commit_group wait_group[.read]", "", ""),
    i("wgmma.{fence,commit_group,wait_group}.sync.aligned", "", ""),
    i(
        "wgmma.mma_async.sync.aligned.m64nNkK",
        "f32 or f16 += f16 bf16 tf32 e4m3 e5m2; s32 += s8 u8",
        "A by descriptor or registers; transposes for 16-bit types; integers wrap, or .satfinite",
    ),
    i(
        "wgmma.mma_async.sp.sync.aligned.m64nNkK",
        "the same",
        "K is twice as large; metadata that are not valid are a finding",
    ),
    i(
        "mma.sync.aligned.{m8n8,m16n8}kK.row.col",
        "f32 f16 += f16 bf16 tf32 e4m3 e5m2; s32 += s8 u8 s4 u4 b1; f64 += f64",
        "f16 and bf16: m16n8 k8 and k16, tf32 k4 and k8, 8-bit floats k16 and k32; f64 m8n8k4 and m16n8 k4, k8 and k16; 8-bit integers m8n8k16 \
         and m16n8 k16 and k32, 4-bit ones m8n8k32 and m16n8 k32 and k64 (they wrap, or .satfinite); bits m8n8k128 and m16n8 k128 and k256 with \
         .xor.popc or .and.popc; f16 m8n8k4 of every layout, four products",
    ),
    i(
        "mma.sp[::ordered_metadata].sync.aligned.m16n8kK.row.col",
        "f32 f16 += f16 bf16 tf32 e4m3 e5m2; s32 += s8 u8 s4 u4",
        "8-bit floats k64 into f32, 8-bit integers k32 and k64, 4-bit ones k64 and k128, tf32 k8 and k16, other floats k16 and k32; metadata that \
         are not valid are a finding",
    ),
    i(
        "wmma.{load,store,mma}.sync.aligned.{m16n16k16,m32n8k16,m8n32k16}",
        "f32 f16 += f16; f32 += bf16",
        "fragments are opaque; the matrix starts at a multiple of 32 bytes (or of its line), every line at one of 16",
    ),
    i(
        "ldmatrix stmatrix .sync.aligned.m8n8.{x1,x2,x4}[.trans].shared.b16, movmatrix.sync.aligned.m8n8.trans.b16",
        "b16",
        "",
    ),
    i("setmaxnreg.{inc,dec}.sync.aligned.u32", "", "the block's pool is enforced"),
];

/// [`INSTRUCTIONS`] as a Markdown table, and what not every target has as another, for the documentation.
#[must_use]
pub fn instruction_table() -> String {
    let mut out = String::from("| instruction | types | note |\n|---|---|---|\n");
    for i in INSTRUCTIONS {
        out.push_str(&format!("| `{}` | {} | {} |\n", i.form, i.types, i.note));
    }
    out.push_str("\nInstructions that are refused by name:\n\n");
    out.push_str(&super::decode::refused_table());
    out.push_str(
        "\nWhat not every target has, by words of the opcode; all rows that an instruction matches apply:\n\n",
    );
    out + &super::target::target_table()
}
