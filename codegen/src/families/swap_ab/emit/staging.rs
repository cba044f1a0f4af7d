//! The layout of a thread's elements in the staging buffer, and the accesses that write and read them.
//!
//! A fragment of 64 dense columns by 8 rows of C is 4 accumulators a thread: dense column `16 * warp + 8 * h + lane / 4`,
//! row `2 * (lane % 4) + c`, accumulator `2 * h + c` (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16").

use serde::Serialize;

use super::super::plan::SwapAbPlan;
use crate::Layout;
use crate::hopper::permuted::swizzle;
use crate::hopper::store::{Variant, address, variants};

/// The context of the staging buffer.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Staging {
    elements: Elements,
    /// Bytes of a consumer's buffers, and of what one TMA box takes of one.
    bytes: u32,
    box_bytes: u32,
    swizzle_shift: u32,
    swizzle_mask: u32,
    variants: Vec<Variant>,
    /// Elements are written and read as matrices of 8 x 8; `transposed` turns these round.
    is_16_bit: bool,
    transposed: &'static str,
}

/// One instruction's part of the staging buffer.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Access {
    address: String,
    registers: Vec<String>,
}

/// What is contiguous in the staging buffer, and bits of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Elements {
    /// Dense columns.
    Columns16,
    /// Rows of C.
    Rows16,
    Columns32,
    Rows32,
}

/// Bytes from one staging buffer of a consumer to the next.
pub(super) fn buffer_bytes(plan: &SwapAbPlan) -> u32 {
    plan.store.bytes.next_multiple_of(1024)
}

impl Staging {
    pub(super) fn new(plan: &SwapAbPlan) -> Self {
        let elements = Elements::new(plan);
        let (swizzle_shift, swizzle_mask) = swizzle(plan.store.span);
        Self {
            elements,
            bytes: plan.memory.buffers * buffer_bytes(plan),
            box_bytes: plan.store.bytes / plan.store.stores,
            swizzle_shift,
            swizzle_mask,
            variants: elements.variants(plan.store.rows),
            is_16_bit: elements.is_16_bit(),
            transposed: if elements == Elements::Columns16 { ".trans" } else { "" },
        }
    }
}

impl Elements {
    pub(super) fn new(plan: &SwapAbPlan) -> Self {
        match (plan.spec.out.bytes(), plan.view.out) {
            (2, Layout::RowMajor) => Self::Columns16,
            (2, Layout::ColMajor) => Self::Rows16,
            (_, Layout::RowMajor) => Self::Columns32,
            (_, Layout::ColMajor) => Self::Rows32,
        }
    }

    pub(super) fn is_16_bit(self) -> bool {
        matches!(self, Self::Columns16 | Self::Rows16)
    }

    /// Eights of rows of C that one instruction writes, or that are written together.
    pub(super) fn eights(self) -> usize {
        if self.is_16_bit() { 2 } else { 1 }
    }

    /// Addresses beside the first, `rows` being those of C in a subtile. One is enough where the swizzle flips no bit
    /// that differs among a thread's addresses.
    fn variants(self, rows: u32) -> Vec<Variant> {
        let flips = match self {
            Self::Columns16 => vec![],
            Self::Rows16 => (0..rows.div_ceil(16)).map(|q| q * 32).collect(),
            Self::Columns32 => vec![0, 16, 32, 48],
            Self::Rows32 => (0..rows / 8).map(|q| q * 32).collect(),
        };
        variants(flips)
    }

    /// The accesses of part `at` of an epilogue subtile that is staged from byte `buffer` on, each to as many of
    /// `registers`.
    pub(super) fn accesses(self, span: u32, at: usize, buffer: u32, registers: &[String]) -> Vec<Access> {
        let addresses = self.addresses(span, at, buffer);
        let each = registers.len() / addresses.len();
        let access = |(address, registers): (String, &[String])| Access { address, registers: registers.to_vec() };
        addresses.into_iter().zip(registers.chunks(each)).map(access).collect()
    }

    /// In the order of a thread's registers.
    fn addresses(self, span: u32, at: usize, buffer: u32) -> Vec<String> {
        let number = at as u32;
        match self {
            Self::Columns16 => vec![behind(0, buffer + number * 16 * span)],
            Self::Rows16 => vec![behind(number, buffer)],
            // Two halves of 64 dense columns by two rows of C, each with a variant of its own.
            Self::Columns32 => (0..4).map(|i| behind(i, buffer + (8 * number + i % 2) * span)).collect(),
            Self::Rows32 => [0, 1].map(|half| behind(number, buffer + half * 8 * span)).to_vec(),
        }
    }
}

/// Some bytes behind an address variant.
fn behind(variant: u32, offset: u32) -> String {
    address(&format!("%r_st{variant}"), offset)
}
