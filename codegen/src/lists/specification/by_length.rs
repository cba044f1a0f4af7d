//! The work of an attention by its problems' numbers of keys, as the kernel lists it.

use crate::AttentionTiles;
use crate::lists::LengthLists;

/// What the steps of a launch are: those before each problem, and their shares.
struct Steps {
    /// Tiles of a problem.
    tiles: u32,
    before: Vec<u32>,
    /// CTAs that have a share.
    ctas: u32,
}

/// A step among the steps of all tiles: its tile, and how many of the tile come before it.
struct Place {
    tile: u32,
    before: u32,
}

impl Steps {
    fn total(&self) -> u32 {
        self.before.last().copied().unwrap_or(0)
    }

    /// The first step of a CTA's share.
    fn share(&self, cta: u32) -> u32 {
        (u64::from(self.total()) * u64::from(cta.min(self.ctas)) / u64::from(self.ctas)) as u32
    }

    /// The CTA whose share has a step.
    fn cta(&self, step: u32) -> u32 {
        (((u64::from(step) + 1) * u64::from(self.ctas) - 1) / u64::from(self.total())) as u32
    }

    fn of_tile(&self, tile: u32) -> (u32, u32) {
        let problem = (tile / self.tiles) as usize;
        let steps = (self.before[problem + 1] - self.before[problem]) / self.tiles;
        (self.before[problem] + tile % self.tiles * steps, steps)
    }

    fn place(&self, step: u32) -> Place {
        let problem = self.before[1..self.before.len() - 1].partition_point(|before| *before <= step);
        let steps = (self.before[problem + 1] - self.before[problem]) / self.tiles;
        let within = step - self.before[problem];
        Place { tile: problem as u32 * self.tiles + within / steps, before: within % steps }
    }
}

/// Which part of a tile's keys a work tile has: parts to add up, the first of their places, where its own sums go.
type Role = [u32; 4];

/// The number of each CTA's first work tile and that of all, and the work tiles: `lengths` are numbers of keys that were checked.
pub fn by_length(lists: &LengthLists, lengths: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let numbers = lists.tiles_numbers();
    let [_, tiles, .., keys_of_step, least, splits, ctas, _, _] = numbers;
    let mut before = vec![0];
    for length in lengths {
        before.push(before[before.len() - 1] + length.div_ceil(keys_of_step).max(1) * tiles);
    }
    let total = before[before.len() - 1];
    let shares = ctas.min((total / least).max(lengths.len() as u32 * tiles)).max(1);
    let steps = Steps { tiles, before, ctas: shares };
    let (mut heads, mut work) = (vec![0], vec![]);
    for cta in 0..ctas {
        let of_cta = of_cta(&steps, splits == 1, cta);
        heads.push(heads[heads.len() - 1] + of_cta.len() as u32);
        for (tile, from, count, role) in of_cta {
            work.extend(words(lists, lengths, tile, (from, count), role));
        }
    }
    (heads, work)
}

/// The tiles of a CTA in its order, each with the first of its steps, how many it has, and its role.
fn of_cta(steps: &Steps, splits: bool, cta: u32) -> Vec<(u32, u32, u32, Role)> {
    let (start, end) = (steps.share(cta), steps.share(cta + 1));
    let (first, last) = (steps.place(start), steps.place(end));
    // The end of the last share is the first step of a tile that does not exist.
    let beyond = last.tile + u32::from(last.before > 0);
    let mut list = vec![];
    for tile in first.tile + u32::from(!splits && first.before > 0)..beyond {
        let (begins, count) = steps.of_tile(tile);
        let (from, to) = if splits { (start.max(begins), end.min(begins + count)) } else { (begins, begins + count) };
        let (began, goes_on) = (begins < start && splits, begins + count > end && splits);
        let role = if began || goes_on { role(steps, cta, begins, count) } else { [0, 0, AttentionTiles::WHOLE, 0] };
        let order = if goes_on {
            0
        } else if began {
            2
        } else {
            1
        };
        list.push((order, (tile, from - begins, to - from, role)));
    }
    list.sort_by_key(|(order, _)| *order);
    list.into_iter().map(|(_, tile)| tile).collect()
}

/// The role of a CTA in a tile that several compute: the last one stores it. Of more than [`LengthLists::FLAT`] each last one of a
/// group adds up its group.
fn role(steps: &Steps, cta: u32, begins: u32, count: u32) -> Role {
    let (first, last) = (steps.cta(begins), steps.cta(begins + count - 1));
    let parts = last - first + 1;
    let mut group = parts.min(LengthLists::FLAT);
    while parts > LengthLists::FLAT && group * group < parts {
        group += 1;
    }
    let (groups, number) = (parts.div_ceil(group), last - cta);
    let (of_group, member) = (number / group, number % group);
    let leaders = first + group - 1;
    let members = leaders + groups - 1 + of_group.saturating_sub(1) * (group - 1);
    match (of_group, member) {
        (0, 0) => [group - 1 + groups - 1, first, AttentionTiles::WHOLE, 0],
        (0, _) => [0, 0, first + member - 1, 0],
        (_, 0) => [group.min(parts - number) - 1, members, leaders + of_group - 1, 0],
        _ => [0, 0, members + member - 1, 0],
    }
}

/// What a kernel reads of a work tile.
fn words(lists: &LengthLists, lengths: &[u32], tile: u32, (from, count): (u32, u32), role: Role) -> Vec<u32> {
    let [
        _,
        tiles,
        tile_rows,
        tile_queries,
        share,
        queries,
        of_key_head,
        tile_heads,
        consumers,
        ..,
        tile_bytes,
        part_bytes,
    ] = lists.tiles_numbers();
    let (problem, within) = (tile / tiles, tile % tiles);
    let (head, query) = (within / tile_rows, within % tile_rows * tile_queries);
    let computes = |consumer: u32| if query + consumer * share < queries { count } else { 0 };
    let mut words = vec![query, head * tile_heads, problem, head / of_key_head, from, count];
    words.extend((0..consumers).map(computes));
    words.push(lengths[problem as usize]);
    words.resize(part_bytes as usize / 4, 0);
    words.extend(&role[..(tile_bytes - part_bytes) as usize / 4]);
    words
}
