//! The timeline: lanes with turns, operations and causes, as SVG. Pure.
//!
//! Places across are percentages, so that the page stretches the drawing without drawing it anew.

use std::collections::{BTreeMap, BTreeSet};

use super::chain::Story;
use super::data::{Actors, Pod, Turn};
use super::lanes::{self, Bar, Lane};
use super::markup::{Attribute, Markup};
use super::scale::Scale;
use crate::server::views::table::span;

/// Height of the marks of time above the lanes.
const HEAD: usize = 26;
/// Height of a lane's turns.
const TURNS: usize = 22;
/// Height of a row of operations.
const ROW: usize = 17;
/// Below each lane.
const GAP: usize = 6;
/// Letters of a lane's name.
const LABEL_MAX: usize = 34;
/// A bar narrower than this, in percent for each letter, has no name in it.
const LETTER_WIDTH: f64 = 0.62;

/// A lane and its place from the top.
struct Placed {
    lane: Lane,
    top: usize,
    height: usize,
}

/// Everything that a drawing is made of.
struct Drawing<'a> {
    story: &'a Story,
    lanes: Vec<Placed>,
    scale: Scale,
    height: usize,
}

/// Draws it into the page.
pub(super) fn draw(page: &mut Markup, story: &Story, actors: &Actors, pod: Option<&Pod>) {
    let mut height = HEAD;
    let mut placed = vec![];
    for lane in lanes::lanes(story, actors, pod) {
        let own = TURNS + lane.rows * ROW + GAP;
        placed.push(Placed { lane, top: height, height: own });
        height += own;
    }
    let scale = Scale::new(&spans(story, &placed));
    let drawing = Drawing { story, lanes: placed, scale, height };
    page.open("div", &[("class", "chart")]);
    drawing.labels(page);
    page.raw("<div class=\"scroll\" id=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Timeline\">");
    page.open("svg", &[("id", "lanes"), ("class", "drawing"), ("height", &height.to_string()), ("width", "100%")]);
    drawing.ground(page);
    drawing.bars(page);
    drawing.causes(page);
    drawing.turns(page);
    page.raw("</svg></div></div>");
}

/// The times at which something happens: turns with their time in the mailbox, and work. A wait alone is a pause.
fn spans(story: &Story, lanes: &[Placed]) -> Vec<(f64, f64)> {
    let turns = story.turns.iter().map(|turn| (turn.sent(), turn.end()));
    let first = story.turns.first().map_or(0.0, Turn::sent);
    let is_work = |bar: &&Bar| bar.on_chain || !(bar.is_wait || bar.is_open);
    let bars = lanes.iter().flat_map(|placed| &placed.lane.bars).filter(is_work);
    turns.chain(bars.map(|bar| (bar.from.max(first), bar.to))).collect()
}

/// A percentage, as SVG reads it.
fn percent(value: f64) -> String {
    format!("{value:.3}%")
}

/// A lane's name without the pod's UID, no longer than fits.
fn label(actor: &str) -> String {
    let parts: Vec<&str> = actor.split('/').collect();
    let short = match parts[..] {
        [_, namespace, name, _] => format!("{namespace}/{name}"),
        _ => actor.to_owned(),
    };
    match short.char_indices().nth(LABEL_MAX) {
        Some((end, _)) => format!("{}…", &short[..end]),
        None => short,
    }
}

impl Drawing<'_> {
    fn labels(&self, page: &mut Markup) {
        page.open("svg", &[("class", "names"), ("height", &self.height.to_string()), ("aria-hidden", "true")]);
        for Placed { lane, top, .. } in &self.lanes {
            let class = if lane.actor.contains('/') { "name pod" } else { "name" };
            page.open("text", &[("class", class), ("x", "0"), ("y", &(top + 15).to_string())]);
            page.text(&label(&lane.actor)).element("title", &[], &lane.actor).close("text");
        }
        page.close("svg");
    }

    /// Stripes, marks of time and folds.
    fn ground(&self, page: &mut Markup) {
        for (place, Placed { top, height, .. }) in self.lanes.iter().enumerate() {
            let class = if place % 2 == 0 { "stripe even" } else { "stripe" };
            let (top, height) = (top.to_string(), height.to_string());
            page.empty("rect", &[("class", class), ("x", "0"), ("y", &top), ("width", "100%"), ("height", &height)]);
        }
        let bottom = self.height.to_string();
        let start = self.start();
        for (time, place) in self.scale.ticks(start) {
            let at = percent(place);
            let line = [("class", "tick"), ("x1", &*at), ("x2", &at), ("y1", "18"), ("y2", &bottom)];
            page.empty("line", &line);
            page.element("text", &[("class", "time"), ("x", &at), ("y", "13")], &format!("+{}", short(time)));
        }
        for fold in self.scale.folds() {
            let (left, width) = (percent(fold.left), percent(fold.right - fold.left));
            page.open("g", &[("class", "fold")]);
            page.empty("rect", &[("x", &left), ("y", "18"), ("width", &width), ("height", &bottom)]);
            page.element("title", &[], &format!("{} without a turn, folded", span(fold.seconds)));
            page.close("g");
        }
    }

    fn start(&self) -> f64 {
        self.story.chain.first().or(Some(&0)).and_then(|place| self.story.turns.get(*place)).map_or(0.0, Turn::sent)
    }

    fn bars(&self, page: &mut Markup) {
        for Placed { lane, top, .. } in &self.lanes {
            for bar in &lane.bars {
                let (left, right) = (self.scale.place(bar.from), self.scale.place(bar.to));
                let y = top + TURNS + bar.row * ROW;
                let mut class = String::from("bar");
                for (is_so, name) in [(bar.is_wait, " wait"), (bar.is_open, " open"), (bar.on_chain, " chain")] {
                    class.push_str(if is_so { name } else { "" });
                }
                page.open("g", &[("class", &class)]);
                let (x, width) = (percent(left), percent(right - left));
                let place = [("x", &*x), ("y", &y.to_string()), ("width", &width), ("height", "13"), ("rx", "3")];
                page.empty("rect", &place);
                if right - left > LETTER_WIDTH * bar.name.chars().count() as f64 {
                    let at = percent(left + 0.4);
                    page.element("text", &[("x", &at), ("y", &(y + 10).to_string())], &bar.name);
                }
                page.element("title", &[], &title(bar)).close("g");
            }
        }
    }

    /// A line from each cause to its effect on another lane; those of the chain above the others.
    fn causes(&self, page: &mut Markup) {
        let tops: BTreeMap<&str, usize> =
            self.lanes.iter().map(|placed| (placed.lane.actor.as_str(), placed.top)).collect();
        let by_id: BTreeMap<u64, &Turn> = self.story.turns.iter().map(|turn| (turn.id, turn)).collect();
        let links: BTreeSet<(usize, usize)> = self.story.chain.windows(2).map(|pair| (pair[0], pair[1])).collect();
        let on_chain = |turn: &Turn| links.iter().any(|(_, effect)| self.story.turns[*effect].id == turn.id);
        let effects: Vec<(bool, &Turn)> = self.story.turns.iter().map(|turn| (on_chain(turn), turn)).collect();
        for wanted in [false, true] {
            for (_, turn) in effects.iter().filter(|(on_chain, _)| *on_chain == wanted) {
                let Some(cause) = turn.cause.turn.and_then(|id| by_id.get(&id)) else { continue };
                let (Some(from), Some(to)) = (tops.get(&*cause.actor), tops.get(&*turn.actor)) else { continue };
                if from == to {
                    continue;
                }
                let class = if wanted { "cause chain" } else { "cause" };
                let (x1, x2) = (percent(self.scale.place(cause.at())), percent(self.scale.place(turn.sent())));
                let (y1, y2) = ((from + 11).to_string(), (to + 11).to_string());
                page.empty("line", &[("class", class), ("x1", &x1), ("y1", &y1), ("x2", &x2), ("y2", &y2)]);
            }
        }
    }

    fn turns(&self, page: &mut Markup) {
        let on_chain: BTreeSet<usize> = self.story.chain.iter().copied().collect();
        for Placed { lane, top, .. } in &self.lanes {
            for place in &lane.turns {
                self.turn(page, *place, *top, on_chain.contains(place));
            }
        }
    }

    fn turn(&self, page: &mut Markup, place: usize, top: usize, on_chain: bool) {
        let turn = &self.story.turns[place];
        let mut class = String::from("turn");
        for (is_so, name) in
            [(on_chain, " chain"), (turn.ending == "panicked", " panicked"), (turn.ending == "open", " open")]
        {
            class.push_str(if is_so { name } else { "" });
        }
        let (id, cause) = (turn.id.to_string(), turn.cause.turn.map_or_else(String::new, |cause| cause.to_string()));
        let row = format!("#turn-{id}");
        let attributes: [Attribute<'_>; 5] =
            [("class", &class), ("href", &row), ("data-turn", &id), ("data-cause", &cause), ("tabindex", "-1")];
        page.open("a", &attributes);
        let (left, right) = (self.scale.place(turn.at()), self.scale.place(turn.end()));
        let (x, y, width) = (percent(left), (top + 4).to_string(), percent((right - left).max(0.05)));
        page.empty("rect", &[("x", &x), ("y", &y), ("width", &width), ("height", "14"), ("rx", "2")]);
        let said = format!(
            "{} {}, +{}, took {}",
            turn.actor,
            turn.message,
            short(turn.at() - self.start()),
            span(turn.took_seconds)
        );
        page.element("title", &[], &said).close("a");
    }
}

/// A bar in words.
fn title(bar: &Bar) -> String {
    let about = if bar.about.is_empty() { String::new() } else { format!(" ({})", bar.about) };
    let so_far = if bar.is_open { " so far" } else { "" };
    format!("{}{about}, {}{so_far}", bar.name, span(bar.to - bar.from))
}

/// A time after the start, to three digits.
pub(super) fn short(seconds: f64) -> String {
    let sign = if seconds < 0.0 { "-" } else { "" };
    let seconds = seconds.abs();
    match seconds {
        none if none < 0.000_001 => "0".to_owned(),
        short if short < 0.001 => format!("{sign}{:.0} µs", short * 1e6),
        short if short < 0.01 => format!("{sign}{:.1} ms", short * 1e3),
        short if short < 1.0 => format!("{sign}{:.0} ms", short * 1e3),
        short if short < 120.0 => format!("{sign}{short:.2} s"),
        long => format!("{sign}{}", span(long)),
    }
}
