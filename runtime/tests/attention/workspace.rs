//! A workspace of the caller's on a real GPU.

use bsr_runtime::Element;
use bsr_runtime::attention::{DeviceTensor, Inputs, Launcher, Mask};
use bsr_runtime::gpu::{DeviceBuffer, Stream};
use half::bf16;

use crate::device::device;
use crate::table::{case, shape};
use crate::{Operands, plan, wrong};

/// Launches in it are right and give the bits of launches in the pattern's own, one after the other, for two masks of one kernel; one
/// of another length is refused with the number.
#[test]
fn sums_are_passed_on_in_a_workspace_of_the_caller_s() {
    let Some((_turn, device)) = device() else { return };
    let keys = 3000;
    let of =
        |mask: Mask| case("bm = 64, bn = 64, bk = 64, dtype = bf16, split = 8", shape(1, [4, 2], [5, keys], 64), mask);
    let cases = [of(Mask::full((5, keys), (64, 64)).unwrap()), of(Mask::random((5, keys), (64, 64), 0.9, 3).unwrap())];
    let launcher = Launcher::load(&device, &plan(&cases[0])).unwrap();
    let stream = Stream::new(&device).unwrap();
    let mut workspace = None;
    for case in &cases {
        let operands = Operands::<bf16>::new(case);
        let [q, k, v] = operands.each().map(|tensor| DeviceTensor::upload(&device, tensor).unwrap());
        let pattern = launcher.pattern(&case.mask, case.shape).unwrap();
        let len = pattern.workspace_len();
        assert!(len > 0, "keys are divided");
        let freed = launcher.pattern(&case.mask, case.shape).unwrap().without_workspace();
        let workspace = workspace.get_or_insert_with(|| DeviceBuffer::<f32>::zeroed(&device, len).unwrap());
        let mut results = vec![];
        for number in 0..4 {
            let mut output = DeviceTensor::<bf16>::uninit(&device, [1, 4, 5, 64], case.order).unwrap();
            output.fill_bytes(bf16::POISON_BYTE).unwrap();
            let mut sums = DeviceBuffer::<f32>::uninit(&device, case.shape.rows()).unwrap();
            sums.fill_bytes(0xFF).unwrap();
            let inputs = Inputs::from((&q, &k, &v, operands.scale));
            let (inputs, pattern) = match number {
                0 => (inputs, &pattern),
                _ => (inputs.workspace(&mut *workspace), &freed),
            };
            launcher.launch(&stream, inputs, pattern, &mut output, Some(&mut sums)).unwrap();
            stream.synchronize().unwrap();
            results.push((output.download().unwrap(), sums.to_vec().unwrap()));
        }
        wrong(case, &operands, (&results[1].0, &results[1].1)).unwrap();
        let bits = |at: usize| (bf16::to_bytes(results[at].0.data()), f32::to_bytes(&results[at].1));
        assert!((1..4).all(|at| bits(at) == bits(0)));

        let mut short = DeviceBuffer::<f32>::zeroed(&device, len - 1).unwrap();
        let mut output = DeviceTensor::<bf16>::uninit(&device, [1, 4, 5, 64], case.order).unwrap();
        let inputs = Inputs::from((&q, &k, &v, operands.scale)).workspace(&mut short);
        let refused = launcher.launch(&stream, inputs, &pattern, &mut output, None).unwrap_err().to_string();
        assert!(refused.contains(&format!("the workspace has {} elements", len - 1)), "{refused}");
        assert!(refused.contains(&format!("{} bytes, {len} elements of 4 bytes", 4 * len)), "{refused}");
    }
}
