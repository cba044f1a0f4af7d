//! Carrying out copies, whenever the schedule lets them.

use crate::arithmetic::atomic::reduce_elements;
use crate::arithmetic::numbers::nearest_tf32;
use crate::check::FindingKind;
use crate::machine::in_flight::{Pending, Spot, Work};
use crate::machine::memory::{Deed, Place, Who};
use crate::machine::tensor_map::{TensorElement, TensorMapDesc};
use crate::machine::{Exec, Machine, Stop};
use crate::program::op::AtomFn;
use crate::program::types::Ty;

impl Machine<'_> {
    /// May this copy take its next step now?
    pub(crate) fn copy_may_run(&self, index: usize) -> bool {
        match &self.asyncs.pending[index].work {
            Work::Arrive { after, .. } => after.iter().all(|id| self.asyncs.done(*id, false)),
            _ => true,
        }
    }

    /// Takes the next step of a copy in flight: all of a load; reading, then writing, of a store.
    pub(crate) fn advance_copy(&mut self, index: usize) -> Exec<()> {
        self.epoch += 1;
        let mut op = self.asyncs.take(index);
        if op.write_stamp.is_some() && op.data.is_none() {
            op.data = Some(self.read_source(&op)?);
            self.asyncs.has_read(op.id);
            self.asyncs.release(op.stamp.base);
            self.asyncs.add(op);
            let last = self.asyncs.pending.len() - 1;
            self.asyncs.pending.swap(index, last);
            return Ok(());
        }
        if let Some(r) = &mut self.recorder {
            let cta = self.warps[op.w].cta as u32;
            r.copy(cta, self.program.where_is(op.pc), op.issued, op.due);
        }
        let who = Who { w: op.w, mask: 1, pc: op.pc };
        match &op.work {
            Work::TileLoad { map, coords, rows, to, barrier } => {
                self.gone(&op, to.0)?;
                let map = self.map(*map)?;
                self.load_tile(&op, &map, coords, rows.clone(), *to)?;
                let bytes = rows.len() as u32 * map.row_bytes();
                self.arrived(&op, *barrier, bytes)?;
            }
            Work::Load { from, to, bytes, barrier } => {
                self.gone(&op, to.0)?;
                let mut data = vec![0; *bytes as usize];
                self.load(&op.stamp, &op.view, Place::Global(*from), &mut data)?;
                self.store(&op.stamp, &op.view, Place::Shared(to.0, to.1), &data)?;
                self.arrived(&op, *barrier, *bytes)?;
            }
            Work::Across { to, bytes, barrier, .. } => {
                self.gone(&op, to.0)?;
                let (stamp, data) = (op.write_stamp.unwrap_or(op.stamp), op.data.clone().unwrap_or_default());
                self.store(&stamp, &op.view, Place::Shared(to.0, to.1), &data)?;
                self.arrived(&op, *barrier, *bytes)?;
            }
            Work::TileStore { map, coords, f, .. } => {
                let map = self.map(*map)?;
                self.store_tile(&op, &map, coords, *f)?;
            }
            Work::Store { to, f, .. } => {
                let (stamp, mut data) = (op.write_stamp.unwrap_or(op.stamp), op.data.clone().unwrap_or_default());
                if let Some(f) = f {
                    self.reduce(&op, *to, &mut data, *f)?;
                } else {
                    self.store(&stamp, &op.view, Place::Global(*to), &data)?;
                }
            }
            Work::Post { data, to, barrier, f } => {
                self.gone(&op, to.0)?;
                self.post(&op, data, *to, *f)?;
                self.arrived(&op, *barrier, data.len() as u32)?;
            }
            Work::Lanes(all) => {
                for (c, i) in all {
                    self.gone(&op, c.to.0)?;
                    let mut data = [0; 16];
                    if c.real > 0 {
                        self.load(&i.stamp, &i.view, Place::Global(c.from), &mut data[..c.real as usize])?;
                    }
                    self.store(&i.stamp, &i.view, Place::Shared(c.to.0, c.to.1), &data[..c.bytes as usize])?;
                }
            }
            Work::Arrive { barrier, .. } => {
                let view = op.view.clone();
                self.arrive_at(who, *barrier, 1, None, Some(view))?;
            }
        }
        self.asyncs.finish(op.id);
        self.asyncs.release(op.stamp.base);
        if let Some(s) = op.write_stamp {
            self.asyncs.release(s.base);
        }
        Ok(())
    }

    /// A copy to shared memory whose block has exited.
    fn gone(&mut self, op: &Pending, cta: usize) -> Exec<()> {
        self.exited(op, cta, "lands in", "wait for its barrier")
    }

    /// The shared memory of a block is there until it exits.
    fn exited(&mut self, op: &Pending, cta: usize, does: &str, remedy: &str) -> Exec<()> {
        if self.ctas[cta].exited {
            let text = format!("a copy {does} the shared memory of block {cta} after it has exited; {remedy} first");
            return self.fail(FindingKind::ExitInFlight, op.w, 1, op.pc, text);
        }
        Ok(())
    }

    /// `complete_tx` at the barrier of a load.
    fn arrived(&mut self, op: &Pending, barrier: Spot, bytes: u32) -> Exec<()> {
        let stamp = op.write_stamp.unwrap_or(op.stamp);
        self.complete_bytes(
            Who { w: op.w, mask: op.stamp.mask, pc: op.pc },
            barrier,
            bytes,
            Some((stamp.base, stamp.tick)),
            op.due,
        )
    }

    /// A copy from shared memory whose block has exited.
    fn unread(&mut self, op: &Pending, cta: usize) -> Exec<()> {
        self.exited(op, cta, "reads", "wait until it has read (cp.async.bulk.wait_group.read, or its barrier)")
    }

    fn read_source(&mut self, op: &Pending) -> Exec<Vec<u8>> {
        match &op.work {
            Work::TileStore { map, coords, from, .. } => {
                let map = self.map(*map)?;
                self.unread(op, from.0)?;
                self.read_tile(op, &map, coords, *from)
            }
            Work::Store { from, bytes, .. } | Work::Across { from, bytes, .. } => {
                self.unread(op, from.0)?;
                let mut data = vec![0; *bytes as usize];
                self.load(&op.stamp, &op.view, Place::Shared(from.0, from.1), &mut data)?;
                Ok(data)
            }
            _ => Err(Stop),
        }
    }

    fn tensor_address(&self, map: &TensorMapDesc) -> u64 {
        self.global.base.address(map.buffer) + map.offset
    }

    fn load_tile(
        &mut self,
        op: &Pending,
        map: &TensorMapDesc,
        coords: &[i64],
        rows: std::ops::Range<u32>,
        to: Spot,
    ) -> Exec<()> {
        let (cta, to) = to;
        let base = self.tensor_address(map);
        let row_bytes = map.row_bytes();
        if map.dense() && !rows.is_empty() {
            self.check_shared_write(
                &op.stamp,
                &op.view,
                cta,
                to + rows.start * row_bytes,
                rows.len() as u32 * row_bytes,
                Deed::Writes,
            )?;
        }
        let mut buffer = vec![0u8; row_bytes as usize];
        for r in rows {
            self.read_row(op, map, base, coords, r, &mut buffer)?;
            for unit in 0..row_bytes / 16 {
                let at = map.unit(to, r, unit);
                if !map.dense() {
                    self.check_shared_write(&op.stamp, &op.view, cta, at, 16, Deed::Writes)?;
                }
                let from = (unit * 16) as usize;
                self.ctas[cta].shared[at as usize..at as usize + 16].copy_from_slice(&buffer[from..from + 16]);
            }
        }
        Ok(())
    }

    fn outside(&mut self, op: &Pending, addr: u64, len: usize) -> Exec<()> {
        let who = Who { w: op.w, mask: 1, pc: op.pc };
        self.global_out(who, 1, addr, len as u64)
    }

    fn read_row(
        &mut self,
        op: &Pending,
        map: &TensorMapDesc,
        base: u64,
        coords: &[i64],
        r: u32,
        out: &mut [u8],
    ) -> Exec<()> {
        let row = map.row(coords, r);
        let e = map.element.bytes() as usize;
        if row.inside.len() as u32 != map.extent(0) {
            map.fill(out);
        }
        if row.inside.is_empty() {
            return Ok(());
        }
        let (from, to) = (row.inside.start as usize * e, row.inside.end as usize * e);
        let addr = base + row.start;
        self.check_global(&op.stamp, &op.view, addr, to - from, Deed::Reads)?;
        if !self.global.read(addr, &mut out[from..to], op.pc) {
            return self.outside(op, addr, to - from);
        }
        if map.element == TensorElement::Tf32 {
            let words = out[from..to].as_chunks_mut::<4>().0.iter_mut();
            words.for_each(|word| *word = nearest_tf32(u32::from_le_bytes(*word)).to_le_bytes());
        }
        Ok(())
    }

    /// The box as it is in shared memory, row after row without swizzle. Only what will be written is read.
    fn read_tile(&mut self, op: &Pending, map: &TensorMapDesc, coords: &[i64], from: Spot) -> Exec<Vec<u8>> {
        let (cta, from) = from;
        let row_bytes = map.row_bytes();
        let mut out = vec![0u8; (map.row_count() * row_bytes) as usize];
        for r in 0..map.row_count() {
            let bytes = map.stored(&map.row(coords, r));
            let whole = map.dense() && bytes == (0..row_bytes);
            if whole {
                self.check_shared_read(&op.stamp, &op.view, cta, from + r * row_bytes, row_bytes)?;
            }
            for unit in bytes.start / 16..bytes.end.div_ceil(16) {
                let at = map.unit(from, r, unit);
                let (first, last) = (bytes.start.saturating_sub(unit * 16), (bytes.end - unit * 16).min(16));
                if !whole {
                    self.check_shared_read(&op.stamp, &op.view, cta, at + first, last - first)?;
                }
                let to = (r * row_bytes + unit * 16) as usize;
                out[to..to + 16].copy_from_slice(&self.ctas[cta].shared[at as usize..at as usize + 16]);
            }
        }
        Ok(out)
    }

    fn store_tile(&mut self, op: &Pending, map: &TensorMapDesc, coords: &[i64], f: Option<AtomFn>) -> Exec<()> {
        let base = self.tensor_address(map);
        let row_bytes = map.row_bytes() as usize;
        let stamp = op.write_stamp.unwrap_or(op.stamp);
        let data = op.data.clone().unwrap_or_default();
        for (r, bytes) in data.chunks(row_bytes).enumerate() {
            let row = map.row(coords, r as u32);
            let stored = map.stored(&row);
            if stored.is_empty() {
                continue;
            }
            let addr = base + row.start;
            let mut piece = bytes[stored.start as usize..stored.end as usize].to_vec();
            if !self.global.contains(addr, piece.len()) {
                return self.outside(op, addr, piece.len());
            }
            if let Some(f) = f {
                let Some(ty) = reduced(map.element, f) else {
                    let text = format!("a reduction by {f:?} of elements {:?} does not exist", map.element);
                    return self.fail(FindingKind::TensorCopy, op.w, 1, op.pc, text);
                };
                self.reduce(op, addr, &mut piece, (f, ty))?;
                continue;
            }
            self.store(&stamp, &op.view, Place::Global(addr), &piece)?;
        }
        Ok(())
    }

    /// A reduction: atomic per element, so it never races with its like.
    fn reduce(&mut self, op: &Pending, addr: u64, data: &mut [u8], (f, ty): (AtomFn, Ty)) -> Exec<()> {
        let stamp = op.write_stamp.unwrap_or(op.stamp);
        self.check_dependency(&stamp, &op.view, addr, data.len(), true)?;
        self.check_padding(&stamp, addr, data.len())?;
        let mut old = vec![0; data.len()];
        if !self.global.read_atomic(addr, &mut old, op.pc) {
            return Err(Stop);
        }
        reduce_elements(f, ty, &old, data);
        if self.global.write_atomic(addr, data, &stamp) { Ok(()) } else { Err(Stop) }
    }
}

/// The type in which a tensor's elements are combined; None where a function is not for them (PTX ISA, `cp.reduce.async.bulk.tensor`).
fn reduced(element: TensorElement, f: AtomFn) -> Option<Ty> {
    use AtomFn::{Add, And, Dec, Inc, Max, Min, Or, Xor};
    match (element, f) {
        (TensorElement::F16, Add | Min | Max) => Some(Ty::F16),
        (TensorElement::Bf16, Add | Min | Max) => Some(Ty::Bf16),
        (TensorElement::F32 | TensorElement::Tf32, Add) => Some(Ty::F32),
        (TensorElement::F64, Add) => Some(Ty::F64),
        (TensorElement::B32, Add | Min | Max | Inc | Dec | And | Or | Xor) => Some(Ty::U32),
        (TensorElement::S32, Add | Min | Max | And | Or | Xor) => Some(Ty::S32),
        (TensorElement::B64, Add | Min | Max | And | Or | Xor) => Some(Ty::U64),
        // An H200 refuses the others, and takes those of B64.
        (TensorElement::S64, Min | Max) => Some(Ty::S64),
        _ => None,
    }
}
