//! From a time to a place on the page: even where something happens, with the longest pauses folded. Pure.

/// The most pauses that are folded.
const FOLDS_MAX: usize = 12;
/// A pause is folded while it is longer than this part of the time that is left.
const FOLDED_FROM: f64 = 0.3;
/// The width of a fold, in percent of the page's.
const FOLD_WIDTH: f64 = 2.5;
/// The free edge on each side, in percent.
const EDGE: f64 = 1.0;
/// The least distance between two marks of time, in percent.
const TICK_DISTANCE: f64 = 9.0;

/// A stretch of time without a pause, and its place.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stretch {
    from: f64,
    to: f64,
    left: f64,
    right: f64,
}

/// A pause that is folded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fold {
    /// Its edges in percent.
    pub(super) left: f64,
    pub(super) right: f64,
    /// The time that it hides.
    pub(super) seconds: f64,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Scale {
    stretches: Vec<Stretch>,
}

impl Scale {
    /// A scale for these spans of time, in any order.
    pub(super) fn new(spans: &[(f64, f64)]) -> Self {
        let busy = joined(spans);
        let (Some(first), Some(last)) = (busy.first(), busy.last()) else { return Self::default() };
        let folded = folded(&busy, last.1 - first.0);
        let mut times: Vec<(f64, f64)> = vec![];
        let mut open = *first;
        for (place, span) in busy.iter().enumerate().skip(1) {
            if folded.contains(&place) {
                times.push(open);
                open = *span;
            } else {
                open.1 = span.1;
            }
        }
        times.push(open);
        let shown: f64 = times.iter().map(|(from, to)| to - from).sum();
        let folds = f64::from(u32::try_from(times.len() - 1).unwrap_or(u32::MAX));
        let room = 100.0 - 2.0 * EDGE - folds * FOLD_WIDTH;
        let mut left = EDGE;
        let place = |(from, to): (f64, f64)| {
            // Turns that all took no time at all share the room.
            let part = if shown > 0.0 { (to - from) / shown } else { 1.0 / (folds + 1.0) };
            let stretch = Stretch { from, to, left, right: left + room * part };
            left = stretch.right + FOLD_WIDTH;
            stretch
        };
        Self { stretches: times.into_iter().map(place).collect() }
    }

    /// The place of a time, in percent; a time inside a fold is at its edge.
    pub(super) fn place(&self, time: f64) -> f64 {
        let after = self.stretches.partition_point(|stretch| stretch.from <= time);
        let Some(stretch) = after.checked_sub(1).and_then(|place| self.stretches.get(place)) else { return EDGE };
        if stretch.to <= stretch.from {
            return stretch.left;
        }
        let part = ((time - stretch.from) / (stretch.to - stretch.from)).min(1.0);
        stretch.left + (stretch.right - stretch.left) * part
    }

    /// The folded pauses.
    pub(super) fn folds(&self) -> Vec<Fold> {
        let pair =
            |pair: &[Stretch]| Fold { left: pair[0].right, right: pair[1].left, seconds: pair[1].from - pair[0].to };
        self.stretches.windows(2).map(pair).collect()
    }

    /// Round times after `start` and their places, never close to each other.
    pub(super) fn ticks(&self, start: f64) -> Vec<(f64, f64)> {
        let shown: f64 = self.stretches.iter().map(|stretch| stretch.to - stretch.from).sum();
        let step = round_step(shown / (100.0 / TICK_DISTANCE));
        let mut ticks: Vec<(f64, f64)> = vec![];
        for stretch in &self.stretches {
            let mut count = ((stretch.from - start) / step).ceil();
            while start + count * step <= stretch.to {
                let place = self.place(start + count * step);
                if ticks.last().is_none_or(|(_, last)| place - last >= TICK_DISTANCE * 0.75) {
                    ticks.push((count * step, place));
                }
                count += 1.0;
            }
        }
        ticks
    }
}

/// The spans in order, those that touch as one.
fn joined(spans: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut spans: Vec<(f64, f64)> = spans.iter().map(|(from, to)| (*from, to.max(*from))).collect();
    spans.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut joined: Vec<(f64, f64)> = vec![];
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.0 <= last.1 => last.1 = last.1.max(span.1),
            _ => joined.push(span),
        }
    }
    joined
}

/// The places in `busy` before which the pause is folded.
fn folded(busy: &[(f64, f64)], mut left: f64) -> Vec<usize> {
    let mut pauses: Vec<(f64, usize)> =
        (1..busy.len()).map(|place| (busy[place].0 - busy[place - 1].1, place)).collect();
    pauses.sort_by(|one, other| other.0.total_cmp(&one.0));
    let mut folded = vec![];
    for (pause, place) in pauses.into_iter().take(FOLDS_MAX) {
        if pause <= left * FOLDED_FROM {
            break;
        }
        left -= pause;
        folded.push(place);
    }
    folded
}

/// The least of 1, 2, 5 times a power of ten that is at least this long.
fn round_step(least: f64) -> f64 {
    let least = least.max(1e-6);
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|times| times * power).find(|step| *step >= least).unwrap_or(10.0 * power)
}
