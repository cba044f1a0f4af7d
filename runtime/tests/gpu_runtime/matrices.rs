//! Devices, memory, matrices, streams and events.

use bsr_runtime::gpu::{Device, DeviceBsr, DeviceBuffer, DeviceDense, Event, Fingerprint, GpuError, Stream};
use bsr_runtime::{Bsr, Dense, Layout, Pattern};
use half::{bf16, f16};

use crate::{device, tell};

#[test]
fn a_device_knows_itself() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let info = device.info();
    tell(format_args!("{info:#?}"));
    assert!(!info.name.is_empty() && info.sm_count > 0 && info.l2_bytes > 0);
    assert!(info.shared_bytes_per_block >= 48 << 10 && info.cuda_version >= (12, 0));
    assert_eq!(info.uuid.len(), "GPU-".len() + 36);
    let (free, total) = device.memory().unwrap();
    assert!(free > 0 && free <= total && info.total_memory > 0);
    let (major, minor) = info.compute_capability;
    device.check_target(&format!("sm_{major}{minor}a")).unwrap();
    // Plain targets run on anything at least as new.
    device.check_target(&format!("sm_{major}{minor}")).unwrap();
    device.check_target("sm_70").unwrap();
    assert!(device.check_target(&format!("sm_{}0", major + 1)).is_err());
    let other = device.check_target("sm_75a").unwrap_err().to_string();
    assert!(other.contains("sm_75a") && other.contains(&info.name), "{other}");
    assert!(matches!(Device::open(4096), Err(GpuError::NoSuchDevice { ordinal: 4096, .. })));
}

#[test]
fn what_goes_up_comes_down() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let host: Vec<f32> = (0..100_003).map(|i| i as f32 * 0.5).collect();
    let mut buffer = DeviceBuffer::from_slice(&device, &host).unwrap();
    assert!(buffer.ptr().is_multiple_of(256));
    assert_eq!(buffer.to_vec().unwrap(), host);

    let stream = Stream::new(&device).unwrap();
    buffer.fill_bytes_on(0xFF, stream.handle()).unwrap();
    assert!(buffer.to_vec_on(stream.handle()).unwrap().iter().all(|x| x.is_nan()));
    buffer.upload_on(&host, stream.handle()).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), host);
    buffer.fill_bytes(0).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), vec![0.0; host.len()]);

    let short = buffer.upload_on(&host[1..], stream.handle());
    assert!(matches!(short, Err(GpuError::Length { host: 100_002, device: 100_003 })));
    let empty = DeviceBuffer::<u32>::from_slice(&device, &[]).unwrap();
    assert!(empty.is_empty() && empty.ptr() != 0 && empty.to_vec().unwrap().is_empty());
    let too_much = DeviceBuffer::<u8>::uninit(&device, 1 << 42);
    assert!(matches!(too_much, Err(GpuError::OutOfMemory { .. })), "{too_much:?}");
}

#[test]
fn matrices_go_up_and_come_down() {
    let Some((_turn, device)) = device() else {
        return;
    };
    for layout in [Layout::RowMajor, Layout::ColMajor] {
        for (rows, cols) in [(37, 53), (8192, 1), (1, 1), (64, 64)] {
            let host = Dense::<bf16>::normal(rows, cols, layout, 5);
            let up = DeviceDense::upload(&device, &host).unwrap();
            assert_eq!((up.rows(), up.cols(), up.ld()), (rows, cols, host.ld()));
            assert_eq!(up.download().unwrap().data(), host.data());
            let mut zeros = DeviceDense::<f32>::zeros(&device, rows, cols, layout).unwrap();
            assert!(zeros.download().unwrap().to_f64().iter().all(|&x| x == 0.0));
            zeros.fill_bytes(0xFF).unwrap();
            assert!(zeros.download().unwrap().to_f64().iter().all(|x| x.is_nan()));
        }
        // Lines that do not lie a multiple of 16 bytes apart, and memory after the last line.
        let data: Vec<f16> = (0..1000).map(|i| f16::from_f64(f64::from(i))).collect();
        let odd = Dense::from_vec(9, 9, layout, 11, data).unwrap();
        let up = DeviceDense::upload(&device, &odd).unwrap();
        assert_eq!(up.ld(), 16);
        assert_eq!(up.download().unwrap().to_f64(), odd.to_f64());
        // SAFETY: the memory is that of `up`, which outlives the view.
        let view = unsafe { DeviceDense::<f16>::from_raw(up.ptr(), 9, 9, layout, up.ld()) }.unwrap();
        assert_eq!(view.ptr(), up.ptr());
        assert!(matches!(view.download(), Err(GpuError::ForeignMemory)));
    }

    let host = Bsr::<f16>::generate(Pattern::TopK(3), 200, 300, (64, 48), 1).unwrap();
    let up = DeviceBsr::upload(&device, &host).unwrap();
    assert_eq!((up.rows(), up.cols(), up.block(), up.nnzb()), (200, 300, (64, 48), host.nnzb()));
    assert_eq!(up.row_ptr(), host.row_ptr());
    assert_eq!(up.col_idx().to_vec().unwrap(), host.col_idx());
    assert_eq!(up.values().to_vec().unwrap(), host.values());
    assert_eq!(up.fingerprint(), Fingerprint::of(host.structure()));
}

#[test]
fn events_tell_time_and_order_streams() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let (first, second) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let mut buffer = DeviceBuffer::<u8>::uninit(&device, 512 << 20).unwrap();
    let (start, end) = (Event::new(&device).unwrap(), Event::new(&device).unwrap());
    assert!(start.elapsed_ms(&end).is_err(), "never recorded");
    start.record(first.handle()).unwrap();
    buffer.fill_bytes_on(3, first.handle()).unwrap();
    end.record(first.handle()).unwrap();
    second.wait(&end).unwrap();
    buffer.fill_bytes_on(4, second.handle()).unwrap();
    end.synchronize().unwrap();
    let ms = start.elapsed_ms(&end).unwrap();
    tell(format_args!("512 MiB set in {ms} ms"));
    assert!(ms > 0.01 && ms < 1000.0, "{ms}");
    let content = buffer.to_vec_on(second.handle()).unwrap();
    assert!(content == vec![4; content.len()]);
}
