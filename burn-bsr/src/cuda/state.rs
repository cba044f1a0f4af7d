//! What is kept on each GPU: kernels that were chosen, patterns, and the stream of the products.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bsr::auto::tuner;
use bsr::gpu::{ContextOrder, Device, DeviceBsr, Fingerprint, GpuError, Stream};
use bsr::{Auto, Dsd, FirstUse, KernelSpec, Layout, Sdd, Switch, Tuner, bf16, f16};

use super::launch::Number;

/// How the products are ordered with Burn's own kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By events of the context: the host does not wait.
    Events,
    /// By waiting on the host, before and after each product.
    Host,
}

static ORDER: AtomicU8 = AtomicU8::new(0);

/// Says how products are ordered from now on; events need a driver of CUDA 12.5 or newer, and are the default there.
pub fn set_order(order: Order) {
    ORDER.store(u8::from(order == Order::Host), Ordering::SeqCst);
}

/// How products are ordered on a GPU.
///
/// # Errors
/// When there is no such GPU.
pub fn order(ordinal: usize) -> Result<Order, GpuError> {
    let state = State::of(ordinal)?;
    let events = state.order.is_some() && ORDER.load(Ordering::SeqCst) == 0;
    Ok(if events { Order::Events } else { Order::Host })
}

/// Frees what is kept of kernels and patterns, after everything on the GPUs is done.
///
/// # Errors
/// [`GpuError::Driver`] with the error of an earlier launch, if one failed.
pub fn empty_cache() -> Result<(), GpuError> {
    for state in locked(states()).values() {
        state.device.synchronize()?;
        state.f16.clear();
        state.bf16.clear();
        locked(&state.known).clear();
    }
    Ok(())
}

/// A product's kind: what its kernels are chosen by, besides the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// Transposed or not, the layout of the dense factor and of the result.
    Linear(bool, Layout),
    /// The layouts of both factors.
    Sddmm(Layout, Layout),
}

/// A product that has been computed before: the pattern, the kind, whether it is of f16, the extent that the pattern does not
/// say, and whether kernels are measured.
pub(super) type Known = (Fingerprint, Kind, bool, usize, bool);

/// Products by what their kernels are chosen by, and whether kernels are measured.
type Products<O, T> = Mutex<HashMap<(Kind, bool), Arc<Auto<O, T, T, T>>>>;

/// What is kept of one GPU.
pub(super) struct State {
    pub(super) device: Device,
    pub(super) stream: Stream,
    order: Option<ContextOrder>,
    tuners: [Arc<Tuner>; 2],
    known: Mutex<HashSet<Known>>,
    pub(super) f16: Typed<f16>,
    pub(super) bf16: Typed<bf16>,
}

/// What is kept of one GPU and element type.
pub(super) struct Typed<T: Number> {
    linear: Products<Dsd, T>,
    sddmm: Products<Sdd, T>,
    /// The block columns of patterns; the values are those of the tensors that come.
    pub(super) patterns: Mutex<HashMap<Fingerprint, DeviceBsr<T>>>,
}

impl<T: Number> Default for Typed<T> {
    fn default() -> Self {
        Self { linear: Mutex::default(), sddmm: Mutex::default(), patterns: Mutex::default() }
    }
}

impl<T: Number> Typed<T> {
    fn clear(&self) {
        locked(&self.linear).clear();
        locked(&self.sddmm).clear();
        locked(&self.patterns).clear();
    }
}

fn states() -> &'static Mutex<HashMap<usize, Arc<State>>> {
    static STATES: OnceLock<Mutex<HashMap<usize, Arc<State>>>> = OnceLock::new();
    STATES.get_or_init(Mutex::default)
}

impl State {
    /// That of a GPU, opened when it is first asked for.
    pub(super) fn of(ordinal: usize) -> Result<Arc<Self>, GpuError> {
        let mut states = locked(states());
        if let Some(state) = states.get(&ordinal) {
            return Ok(Arc::clone(state));
        }
        let device = Device::open(ordinal)?;
        let tuners = [FirstUse::Predict, FirstUse::Measure].map(|first| Arc::new(tuner(&device).first_use(first)));
        let state = Arc::new(Self {
            stream: Stream::new(&device)?,
            order: ContextOrder::new(&device)?,
            tuners,
            known: Mutex::default(),
            f16: Typed::default(),
            bf16: Typed::default(),
            device,
        });
        states.insert(ordinal, Arc::clone(&state));
        Ok(state)
    }

    /// Runs what enqueues on this crate's stream after all that Burn has enqueued, and before all that it will. What is not
    /// known yet is compiled, and may be measured on the operands: the host waits for those first.
    pub(super) fn ordered<R, E: From<GpuError>>(
        &self,
        what: Known,
        enqueue: impl FnOnce() -> Result<R, E>,
    ) -> Result<R, E> {
        let is_new = locked(&self.known).insert(what);
        let events = self.order.as_ref().filter(|_| !is_new && ORDER.load(Ordering::SeqCst) == 0);
        let begun = match events {
            Some(order) => order.stream_after_all(&self.stream)?,
            None => false,
        };
        if !begun {
            self.device.synchronize()?;
        }
        let result = enqueue()?;
        let ended = match events {
            Some(order) => order.all_after_stream(&self.stream)?,
            None => false,
        };
        if !ended {
            self.stream.synchronize()?;
        }
        Ok(result)
    }

    fn tuner(&self, first_use: FirstUse) -> Arc<Tuner> {
        Arc::clone(&self.tuners[usize::from(first_use == FirstUse::Measure)])
    }

    /// The product of a sparse matrix and a dense one.
    pub(super) fn linear<T: Number>(
        &self,
        transpose: bool,
        layout: Layout,
        first: FirstUse,
    ) -> Arc<Auto<Dsd, T, T, T>> {
        let key = (Kind::Linear(transpose, layout), first == FirstUse::Measure);
        let switch = if transpose { Switch::On } else { Switch::Off };
        let template = KernelSpec::new(64, 64, 64).transpose(switch).b_layout(layout).c_layout(layout);
        let make = || Arc::new(Auto::with(&self.device, self.tuner(first), template));
        Arc::clone(locked(&T::cached(self).linear).entry(key).or_insert_with(make))
    }

    /// The stored blocks of a dense product.
    pub(super) fn sddmm<T: Number>(&self, a: Layout, b: Layout, first: FirstUse) -> Arc<Auto<Sdd, T, T, T>> {
        let key = (Kind::Sddmm(a, b), first == FirstUse::Measure);
        let template = KernelSpec::new(64, 64, 64).a_layout(a).b_layout(b);
        let make = || Arc::new(Auto::with(&self.device, self.tuner(first), template));
        Arc::clone(locked(&T::cached(self).sddmm).entry(key).or_insert_with(make))
    }
}

/// A lock, of a thread that panicked too: what is behind it is whole.
pub(super) fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
