//! Products that several GPUs have measured: the best kernels of each card, and what they take on the others.

use std::collections::HashMap;

use serde::Serialize;

use super::words;
use crate::groups::{Group, groups};
use crate::{DeviceKind, Record};

/// One product on several cards. A card is a GPU with its driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cards {
    /// The product in words.
    pub product: String,
    /// The cards, in the order in which they were first measured.
    pub cards: Vec<String>,
    /// The best kernel of each card, each kernel once.
    pub rows: Vec<CardRow>,
}

/// A kernel on every card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CardRow {
    /// The kernel.
    pub kernel: String,
    /// For each card microseconds and TFLOP/s, with a mark where it is the card's best; `-` where it was not timed.
    pub cells: Vec<String>,
}

/// The products that more than one card has measured. What a model predicts is never beside them.
pub fn side_by_side(records: &[Record]) -> Vec<Cards> {
    cards_of(&groups(records, &[]))
}

pub(super) fn cards_of(groups: &[Group<'_>]) -> Vec<Cards> {
    let (mut products, mut places) = (Vec::<Vec<&Group<'_>>>::new(), HashMap::new());
    for group in groups.iter().filter(|group| group.device.kind == DeviceKind::Gpu && group.winner().is_some()) {
        let place = *places.entry(&group.problem.workload).or_insert(products.len());
        match products.get_mut(place) {
            Some(members) => members.push(group),
            None => products.push(vec![group]),
        }
    }
    products.iter().filter(|members| members.len() > 1).map(|members| beside(members)).collect()
}

fn beside(members: &[&Group<'_>]) -> Cards {
    let mut kernels: Vec<&str> = vec![];
    for winner in members.iter().filter_map(|group| group.winner()) {
        if !kernels.contains(&winner.record.subject.as_str()) {
            kernels.push(&winner.record.subject);
        }
    }
    let cell = |group: &Group<'_>, kernel: &str| {
        let found =
            group.kernels.iter().find(|point| point.record.subject == kernel && point.record.verdict.has_time());
        let Some((record, timing)) = found.and_then(|point| Some((point.record, point.record.timing.as_ref()?))) else {
            return "-".to_owned();
        };
        let is_best = group.winner().is_some_and(|winner| winner.record.subject == kernel);
        let rate = record.tflops().map_or(String::new(), |rate| format!(", {} TFLOP/s", words::number(rate)));
        format!("{} us{rate}{}", words::number(timing.median_us), if is_best { " (best)" } else { "" })
    };
    let row = |kernel: &&str| CardRow {
        kernel: (*kernel).to_owned(),
        cells: members.iter().map(|group| cell(group, kernel)).collect(),
    };
    Cards {
        product: words::product_in_full(members[0].problem),
        cards: members.iter().map(|group| words::device(group.device)).collect(),
        rows: kernels.iter().map(row).collect(),
    }
}
