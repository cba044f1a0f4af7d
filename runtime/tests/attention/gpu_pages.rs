//! Page tables on a real GPU: one captured graph serves every table and all lengths, and a wrong problem has no keys.

use std::sync::Arc;

use bsr_runtime::attention::{DevicePages, DeviceTensor, HostPages, Inputs, Launcher, Mask, Shape};
use bsr_runtime::gpu::{DeviceBuffer, Graph, Stream, StreamRef};
use half::bf16;

use crate::device::device;
use crate::table::{Case, of_lengths};
use crate::{Operands, plan, wrong};

/// Keys of each problem in a replay: from none to all that there are.
fn lengths(step: usize, most: &[usize]) -> Vec<usize> {
    let of = |(problem, most): (usize, &usize)| match (step + problem) % 5 {
        0 => *most,
        1 => 0,
        _ => (step * 7919 + problem * 104_729) % (most + 1),
    };
    most.iter().enumerate().map(of).collect()
}

#[test]
fn one_graph_serves_every_length_and_reports_a_wrong_page() {
    let Some((_turn, device)) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    let most = [3000, 70, 900, 16, 5000];
    for spec in [
        "bm = 64, bn = 64, bk = 128, dtype = bf16, page = 64, pack_heads = 4, split = auto",
        "bm = 64, bn = 64, bk = 64, dtype = bf16, page = 16, split = auto",
        "bm = 64, bn = 64, bk = 128, dtype = bf16, page = 256, pack_heads = 4",
    ] {
        let case = of_lengths(spec, [8, 2], 1, &most);
        let (operands, Case { shape, order, .. }) = (Operands::<bf16>::new(&case), &case);
        let launcher = Launcher::load(&device, &plan(&case)).unwrap();
        let [q, k, v] = operands.each();
        let page = plan(&case).spec().page.unwrap() as usize;
        let host = HostPages::new(k, v, &most, page).unwrap();
        let [q, k, v] = [q, &host.keys, &host.values].map(|tensor| DeviceTensor::upload(&device, tensor).unwrap());
        let mut table = DeviceBuffer::from_slice(&device, &host.table).unwrap();
        let mut given = DeviceBuffer::from_slice(&device, &host.lengths).unwrap();
        // SAFETY: both are as large as the shape says, and live as long as the pages.
        let pages = unsafe { DevicePages::from_raw(&device, host.shape, table.ptr(), given.ptr()) };
        let pages = Arc::new(pages.unwrap());
        let pattern = launcher.paged(&pages, *shape).unwrap();
        let mut output = DeviceTensor::<bf16>::uninit(&device, q.sizes(), *order).unwrap();
        let mut sums = DeviceBuffer::<f32>::uninit(&device, shape.rows()).unwrap();
        let launch = |stream: StreamRef<'_>, output: &mut DeviceTensor<bf16>, sums: &mut DeviceBuffer<f32>| {
            let inputs = Inputs::from((&q, &k, &v, operands.scale));
            launcher.launch(stream, inputs, &pattern, output, Some(sums))
        };
        launch(stream.handle(), &mut output, &mut sums).unwrap();
        stream.synchronize().unwrap();
        let mut graph = Graph::capture(&stream, |stream| launch(stream, &mut output, &mut sums)).unwrap();
        for step in 0..40 {
            let mut lengths = lengths(step, &most);
            let mut entries = host.table.clone();
            // A page that does not exist, of the second problem: it is reported, and the problem has no keys.
            let is_wrong = step % 8 == 5 && lengths[1] > 0;
            if is_wrong {
                entries[host.shape.width] = host.shape.pages as i32;
            }
            let words: Vec<i32> = lengths.iter().map(|length| *length as i32).collect();
            table.upload_on(&entries, stream.handle()).unwrap();
            given.upload_on(&words, stream.handle()).unwrap();
            output.fill_bytes(0xFF).unwrap();
            sums.fill_bytes(0xFF).unwrap();
            // SAFETY: all that the graph touches is alive, and nothing else uses it.
            unsafe { graph.launch(stream.handle()) }.unwrap();
            stream.synchronize().unwrap();
            let found = pages.check().err().map(|error| error.to_string());
            assert_eq!(found.is_some(), is_wrong, "{spec}, replay {step}: {found:?}");
            if is_wrong {
                lengths[1] = 0;
            }
            let mask = Mask::full((1, shape.keys), case.mask.block()).unwrap();
            let of_step = Case {
                spec: case.spec.clone(),
                lengths: Some(lengths),
                mask,
                vectors: vec![],
                shape: Shape { ..*shape },
                ..case
            };
            wrong(&of_step, &operands, (&output.download().unwrap(), &sums.to_vec().unwrap()))
                .unwrap_or_else(|error| panic!("{spec}, replay {step}: {error}"));
        }
    }
}
