//! Vector clocks over threads and asynchronous operations.
//!
//! Every thread of a cluster has two components, one that counts its releases and one that counts its `cp.async`; every
//! other asynchronous operation in flight has one too (its *slot*). What a thread knows is a [`View`]: `seen` says up
//! to which point each other thread's accesses happened before now, `fenced` up to which point they are also visible to
//! the asynchronous proxy (there is a `fence.proxy.async` in between).

use std::rc::Rc;

/// One vector clock; components that were never named are 0. They count instructions and stay below 2^31: loops over them
/// compare them as signed numbers, which every processor does several at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock(Vec<Rc<Part>>);

/// Neighbouring components, which clocks share until one of them changes: a thread that releases changes one of many.
type Part = [u32; PART];

const PART: usize = 64;

/// A count that no component has.
pub(crate) const UNREACHED: u32 = i32::MAX.cast_unsigned();

impl Clock {
    #[inline]
    pub(crate) fn get(&self, i: u32) -> u32 {
        self.0.get(i as usize / PART).map_or(0, |part| part[i as usize % PART])
    }

    /// The first place where the components from `from` on have reached what is wanted there, which is more than 0.
    pub(crate) fn first_reached(&self, from: u32, wanted: &[u32]) -> Option<usize> {
        let from = from as usize;
        let reached = |known: &u32, wanted: &u32| known.cast_signed() >= wanted.cast_signed();
        let mut at = 0;
        while let (Some(part), Some(wanted)) =
            (self.0.get((from + at) / PART), wanted.get(at..).filter(|w| !w.is_empty()))
        {
            let known = &part[(from + at) % PART..];
            let pairs = known.iter().zip(wanted);
            if pairs.clone().fold(0, |any, (k, w)| any | u32::from(reached(k, w))) != 0 {
                return pairs.into_iter().position(|(k, w)| reached(k, w)).map(|place| at + place);
            }
            at += known.len();
        }
        None
    }

    pub(crate) fn raise(&mut self, i: u32, to: u32) {
        let i = i as usize;
        if self.0.len() <= i / PART {
            self.0.resize(i / PART + 1, Rc::new([0; PART]));
        }
        if self.0[i / PART][i % PART] < to {
            Rc::make_mut(&mut self.0[i / PART])[i % PART] = to;
        }
    }

    pub(crate) fn join(&mut self, other: &Self) {
        for (a, b) in self.0.iter_mut().zip(&other.0).filter(|(a, b)| !Rc::ptr_eq(a, b)) {
            match differ(a, b) {
                (false, _) => {}
                (true, false) => *a = Rc::clone(b),
                (true, true) => {
                    for (a, b) in Rc::make_mut(a).iter_mut().zip(&**b) {
                        *a = if a.cast_signed() < b.cast_signed() { *b } else { *a };
                    }
                }
            }
        }
        let common = self.0.len().min(other.0.len());
        self.0.extend_from_slice(&other.0[common..]);
    }

    /// Component-wise least: what both know.
    pub(crate) fn meet(&mut self, other: &Self) {
        self.0.truncate(other.0.len());
        for (a, b) in self.0.iter_mut().zip(&other.0).filter(|(a, b)| !Rc::ptr_eq(a, b)) {
            match differ(a, b) {
                (_, false) => {}
                (false, true) => *a = Rc::clone(b),
                (true, true) => {
                    for (a, b) in Rc::make_mut(a).iter_mut().zip(&**b) {
                        *a = if b.cast_signed() < a.cast_signed() { *b } else { *a };
                    }
                }
            }
        }
    }

    /// Whether some component is less than the other clock's, and whether some is greater.
    fn differs(&self, other: &Self) -> (bool, bool) {
        let both = self.0.iter().zip(&other.0).filter(|(a, b)| !Rc::ptr_eq(a, b));
        let (mut less, mut greater) =
            both.map(|(a, b)| differ(a, b)).fold((false, false), |(less, greater), (l, g)| (less | l, greater | g));
        let common = self.0.len().min(other.0.len());
        let any = |parts: &[Rc<Part>]| parts.iter().any(|part| part.iter().any(|count| *count != 0));
        less |= any(&other.0[common..]);
        greater |= any(&self.0[common..]);
        (less, greater)
    }
}

/// Whether some component is less than the other part's, and whether some is greater.
fn differ(a: &Part, b: &Part) -> (bool, bool) {
    let (mut less, mut greater) = (0, 0);
    for (a, b) in a.iter().zip(b) {
        less |= u32::from(a.cast_signed() < b.cast_signed());
        greater |= u32::from(a.cast_signed() > b.cast_signed());
    }
    (less != 0, greater != 0)
}

/// What a thread, or an operation, knows. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub(crate) seen: Rc<Clock>,
    /// Of shared memory, and of global memory.
    pub(crate) fenced: Rc<Clock>,
    pub(crate) fenced_global: Rc<Clock>,
}

fn join(a: &mut Rc<Clock>, b: &Rc<Clock>) {
    if Rc::ptr_eq(a, b) {
        return;
    }
    match a.differs(b) {
        (false, _) => {}
        (true, false) => *a = Rc::clone(b),
        (true, true) => Rc::make_mut(a).join(b),
    }
}

impl View {
    pub(crate) fn join(&mut self, other: &Self) {
        join(&mut self.seen, &other.seen);
        join(&mut self.fenced, &other.fenced);
        join(&mut self.fenced_global, &other.fenced_global);
    }

    pub(crate) fn meet(&mut self, other: &Self) {
        if !Rc::ptr_eq(&self.seen, &other.seen) {
            Rc::make_mut(&mut self.seen).meet(&other.seen);
        }
        if !Rc::ptr_eq(&self.fenced, &other.fenced) {
            Rc::make_mut(&mut self.fenced).meet(&other.fenced);
        }
        if !Rc::ptr_eq(&self.fenced_global, &other.fenced_global) {
            Rc::make_mut(&mut self.fenced_global).meet(&other.fenced_global);
        }
    }

    /// Learns that component `i` is done up to `tick`; async work needs no proxy fence towards itself.
    pub(crate) fn learn(&mut self, i: u32, tick: u32) {
        if self.seen.get(i) < tick {
            Rc::make_mut(&mut self.seen).raise(i, tick);
        }
    }

    fn same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.seen, &other.seen)
            && Rc::ptr_eq(&self.fenced, &other.fenced)
            && Rc::ptr_eq(&self.fenced_global, &other.fenced_global)
    }
}

/// The views of a warp's threads: threads that know the same share one.
#[derive(Clone, Debug)]
pub(crate) struct WarpViews {
    /// Component of lane 0.
    base: u32,
    /// The running tick of all lanes: accesses made now carry it.
    pub(crate) tick: u32,
    groups: Vec<(u32, View)>,
}

impl WarpViews {
    pub(crate) fn new(warp: u32) -> Self {
        Self { base: warp * 32, tick: 1, groups: vec![(u32::MAX, View::default())] }
    }

    #[inline]
    pub(crate) fn view(&self, lane: u32) -> &View {
        let found = self.groups.iter().find(|(m, _)| m >> lane & 1 == 1);
        &found.unwrap_or(&self.groups[0]).1
    }

    /// The lanes that share this one's view.
    #[inline]
    pub(crate) fn sharing(&self, lane: u32) -> u32 {
        self.groups.iter().find(|(m, _)| m >> lane & 1 == 1).map_or(1 << lane, |(m, _)| *m)
    }

    /// What is published by a release of `mask`: all that these lanes know and did. Later accesses get a new tick.
    pub(crate) fn publish(&mut self, mask: u32) -> View {
        let mut out: Option<View> = None;
        for (m, v) in &self.groups {
            if m & mask != 0 {
                match &mut out {
                    None => out = Some(v.clone()),
                    Some(o) => o.join(v),
                }
            }
        }
        let mut out = out.unwrap_or_default();
        let seen = Rc::make_mut(&mut out.seen);
        for lane in lanes(mask) {
            seen.raise(self.base + lane, self.tick);
        }
        self.tick += 1;
        out
    }

    /// What each lane of `mask` publishes for itself.
    pub(crate) fn publish_each(&mut self, mask: u32) -> Vec<(u32, View)> {
        let mut out = Vec::with_capacity(mask.count_ones() as usize);
        for (m, v) in &self.groups {
            for lane in lanes(m & mask) {
                let mut v = v.clone();
                Rc::make_mut(&mut v.seen).raise(self.base + lane, self.tick);
                out.push((lane, v));
            }
        }
        self.tick += 1;
        out
    }

    /// Each lane learns that its component from `base` on reached its tick (0: nothing to learn).
    pub(crate) fn learn_each(&mut self, base: u32, ticks: &[u32; 32]) {
        let mut next = Vec::with_capacity(32);
        for (m, v) in self.groups.drain(..) {
            let mut rest = m;
            for lane in lanes(m).filter(|l| ticks[*l as usize] > v.seen.get(base + l)) {
                rest &= !(1 << lane);
                let mut mine = v.clone();
                mine.learn(base + lane, ticks[lane as usize]);
                next.push((1 << lane, mine));
            }
            if rest != 0 {
                next.push((rest, v));
            }
        }
        self.groups = next;
    }

    /// `mask` learns `view`.
    pub(crate) fn acquire(&mut self, mask: u32, view: &View) {
        self.update(mask, |v, _| v.join(view));
    }

    /// `mask` learns that component `i` reached `tick`.
    pub(crate) fn learn(&mut self, mask: u32, i: u32, tick: u32) {
        self.update(mask, |v, _| v.learn(i, tick));
    }

    /// A proxy fence by `mask` for shared or global memory, or both: what each lane knows and did there becomes visible to
    /// the asynchronous proxy.
    pub(crate) fn fence(&mut self, mask: u32, (shared, global): (bool, bool)) {
        let (base, tick) = (self.base, self.tick);
        // Each lane fences its own accesses; another lane's count only when they were seen.
        self.update(mask, |v, lanes_of| {
            let seen = Rc::clone(&v.seen);
            for (_, fenced) in [(shared, &mut v.fenced), (global, &mut v.fenced_global)].into_iter().filter(|f| f.0) {
                let fenced = Rc::make_mut(fenced);
                fenced.join(&seen);
                for lane in lanes(lanes_of) {
                    fenced.raise(base + lane, tick);
                }
            }
        });
        self.tick += 1;
    }

    fn update(&mut self, mask: u32, mut f: impl FnMut(&mut View, u32)) {
        // Threads that all learn the same go on sharing a view.
        if let [(lanes, view)] = &mut self.groups[..]
            && *lanes & !mask == 0
        {
            return f(view, *lanes);
        }
        let mut next: Vec<(u32, View)> = Vec::with_capacity(self.groups.len() + 1);
        for (m, v) in self.groups.drain(..) {
            let (inside, outside) = (m & mask, m & !mask);
            if outside != 0 {
                next.push((outside, v.clone()));
            }
            if inside != 0 {
                let mut v = v;
                f(&mut v, inside);
                next.push((inside, v));
            }
        }
        // Threads that now know the same share again.
        for (m, v) in next {
            match self.groups.iter_mut().find(|(_, g)| g.same(&v)) {
                Some((gm, _)) => *gm |= m,
                None => self.groups.push((m, v)),
            }
        }
    }
}

/// The lanes of a mask, ascending.
#[inline]
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = u32> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let lane = rest.trailing_zeros();
        rest &= rest - 1;
        Some(lane)
    })
}
