//! The gradients of the products, which are products of the same kinds.

use burn::backend::Autodiff;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, binary};
use burn::tensor::ops::FloatTensor;

use crate::{BsrBackend, Call, Pattern};

/// What a backward pass needs: the nodes of the operands, and the call.
#[derive(Clone, Debug)]
struct Saved {
    nodes: [NodeId; 2],
    pattern: Pattern,
    call: Call,
}

/// `y = x W^T`: of `x` the gradient is `dy W`, of `W` the stored blocks of `dy^T x`.
#[derive(Debug)]
struct Linear;

impl<B: BsrBackend> Backward<B, 2> for Linear {
    type State = Saved;

    fn backward(self, ops: Ops<Saved, 2>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let Saved { nodes, pattern, call } = ops.state;
        let [x, values]: [FloatTensor<B>; 2] = nodes.map(|node| checkpointer.retrieve_node_output(node));
        binary::<B, _, _>(
            ops.parents,
            ops.node,
            grads,
            |dy| B::bsr_linear(dy, values, &pattern, call.transposed()),
            |dy| {
                let (y, x) = if call.transpose { (x, dy) } else { (dy, x) };
                B::bsr_sddmm(y, x, &pattern, call)
            },
        );
    }
}

/// `S`, the stored blocks of `y^T x`: of `y` the gradient is `x dS^T`, of `x` it is `y dS`.
#[derive(Debug)]
struct Sddmm;

impl<B: BsrBackend> Backward<B, 2> for Sddmm {
    type State = Saved;

    fn backward(self, ops: Ops<Saved, 2>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let Saved { nodes, pattern, call } = ops.state;
        let [y, x]: [FloatTensor<B>; 2] = nodes.map(|node| checkpointer.retrieve_node_output(node));
        let call = Call { transpose: false, ..call };
        binary::<B, _, _>(
            ops.parents,
            ops.node,
            grads,
            |ds| B::bsr_linear(x, ds, &pattern, call),
            |ds| B::bsr_linear(y, ds, &pattern, call.transposed()),
        );
    }
}

impl<B: BsrBackend, C: CheckpointStrategy> BsrBackend for Autodiff<B, C> {
    fn bsr_linear(x: FloatTensor<Self>, values: FloatTensor<Self>, pattern: &Pattern, call: Call) -> FloatTensor<Self> {
        let prepared = Linear.prepare::<C>([x.node.clone(), values.node.clone()]).compute_bound().stateful();
        match prepared {
            OpsKind::Tracked(mut prep) => {
                let nodes = [prep.checkpoint(&x), prep.checkpoint(&values)];
                let saved = Saved { nodes, pattern: pattern.clone(), call };
                prep.finish(saved, B::bsr_linear(x.primitive, values.primitive, pattern, call))
            }
            OpsKind::UnTracked(prep) => prep.finish(B::bsr_linear(x.primitive, values.primitive, pattern, call)),
        }
    }

    fn bsr_sddmm(y: FloatTensor<Self>, x: FloatTensor<Self>, pattern: &Pattern, call: Call) -> FloatTensor<Self> {
        let prepared = Sddmm.prepare::<C>([y.node.clone(), x.node.clone()]).compute_bound().stateful();
        match prepared {
            OpsKind::Tracked(mut prep) => {
                let nodes = [prep.checkpoint(&y), prep.checkpoint(&x)];
                let saved = Saved { nodes, pattern: pattern.clone(), call };
                prep.finish(saved, B::bsr_sddmm(y.primitive, x.primitive, pattern, call))
            }
            OpsKind::UnTracked(prep) => prep.finish(B::bsr_sddmm(y.primitive, x.primitive, pattern, call)),
        }
    }
}
