//! A block that exits while its bulk store has not read shared memory yet: the simulator reports it, since the ISA ends shared memory
//! with its block. Here is what a GPU does, with blocks behind that fill the same memory at once.

use bsr_runtime::gpu::{Device, DeviceBuffer, GpuError, LaunchDims, Module, Stream, launch_params};

use crate::{address, device, tell};

/// Bytes of a block's store: so many blocks are on a multiprocessor that there is always one to take over.
const TILE: u32 = 49152;
const BLOCKS: u32 = 16384;

/// `stores` fills a tile of shared memory with the number of the block, has it copied to the block's part of `out`, and exits.
/// `differ` counts the words of that part that are others.
fn text() -> String {
    let head = "(.param .u64 out, .param .u64 wrong)\n.maxntid 128, 1, 1\n{\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n.reg .pred %p<3>;\n\
                ld.param.u64 %rd0, [out];\nld.param.u64 %rd1, [wrong];\nmov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;\n";
    format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n\
         .visible .entry stores{head}mov.u32 %r2, smem;\nmul.lo.u32 %r3, %r0, 16;\n$fill:\nadd.u32 %r4, %r2, %r3;\n\
         st.shared.v4.b32 [%r4], {{%r1, %r1, %r1, %r1}};\nadd.u32 %r3, %r3, 2048;\nsetp.lt.u32 %p0, %r3, {TILE};\n@%p0 bra $fill;\n\
         fence.proxy.async.shared::cta;\nbar.sync 0;\nsetp.ne.u32 %p1, %r0, 0;\n@%p1 bra $end;\nmul.wide.u32 %rd2, %r1, {TILE};\n\
         add.u64 %rd2, %rd2, %rd0;\ncp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r2], {TILE};\ncp.async.bulk.commit_group;\n\
         $end:\nret;\n}}\n\
         .visible .entry differ{head}mul.wide.u32 %rd2, %r1, {TILE};\nadd.u64 %rd2, %rd2, %rd0;\nmul.lo.u32 %r3, %r0, 4;\nmov.u32 %r5, 0;\n\
         $next:\ncvt.u64.u32 %rd3, %r3;\nadd.u64 %rd3, %rd3, %rd2;\nld.global.b32 %r4, [%rd3];\nsetp.ne.u32 %p0, %r4, %r1;\n\
         @%p0 add.u32 %r5, %r5, 1;\nadd.u32 %r3, %r3, 512;\nsetp.lt.u32 %p1, %r3, {TILE};\n@%p1 bra $next;\nred.global.add.u32 [%rd1], %r5;\n\
         ret;\n}}\n"
    )
}

fn wrong_words(device: &Device) -> Result<u32, GpuError> {
    let module = Module::load(device, &text())?;
    let (stores, differ) = (module.function("stores")?, module.function("differ")?);
    let mut out = DeviceBuffer::<u32>::uninit(device, (BLOCKS * (TILE / 4)) as usize)?;
    let wrong = DeviceBuffer::<u32>::zeroed(device, 1)?;
    let stream = Stream::new(device)?;
    out.fill_bytes_on(0xff, stream.handle())?;
    let addresses = [out.ptr(), wrong.ptr()];
    for (function, shared_bytes) in [(&stores, TILE), (&differ, 0)] {
        let dims = LaunchDims { grid: [BLOCKS, 1], block: 128, cluster: 1, shared_bytes, is_dependent: false };
        function.prepare(dims)?;
        let mut params = [address(&addresses[0]), address(&addresses[1])];
        // SAFETY: both kernels take two addresses: of a tile for each block, and of one word; the buffers live until the stream
        // is done.
        unsafe { launch_params(function, dims, &mut params, stream.handle())? };
    }
    Ok(wrong.to_vec_on(stream.handle())?[0])
}

#[test]
fn a_store_of_a_block_that_exits_reads_what_the_block_left() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let wrong = wrong_words(&device).unwrap();
    tell(format_args!("{BLOCKS} blocks exit before their stores of {TILE} bytes have read: {wrong} words are wrong"));
    assert_eq!(wrong, 0);
}
