//! The parts of the page beside the timeline: its head, the longest chain, the actors, all turns. Pure.

use std::collections::BTreeSet;

use super::chain::{Part, Spent, Story, parts};
use super::data::{Actor, Actors, Pod, Turn};
use super::markup::Markup;
use super::timeline::short;
use crate::server::views::table::span;

/// The page's title.
pub(super) fn title(story: &Story, pod: Option<&Pod>) -> String {
    match pod {
        Some(pod) if story.is_ready => format!("Start of {}", pod.name),
        Some(pod) => format!("Turns of {}", pod.name),
        None => "Last turns of this node".to_owned(),
    }
}

/// The title, and what the page shows of it in numbers.
pub(super) fn head(page: &mut Markup, story: &Story, pod: Option<&Pod>) {
    page.raw("<header>").element("h1", &[], &title(story, pod));
    let actors: BTreeSet<&str> = story.turns.iter().map(|turn| turn.actor.as_str()).collect();
    let began = story.turns.first().map_or("-", |turn| turn.began.split('.').next().unwrap_or_default());
    let began = began.trim_end_matches('Z').replace('T', " ");
    let left_out = match story.left_out {
        0 => String::new(),
        count => format!(", {count} before and after left out"),
    };
    let sub = format!("{} turns of {} actors from {began} UTC on{left_out}", story.turns.len(), actors.len());
    page.element("p", &[("class", "sub")], &sub);
    if let (Some(_), false) = (pod, story.is_ready) {
        page.raw(
            "<p class=\"note\">The trace does not hold how this pod became Ready: it is not Ready, or that was too long \
             ago.</p>",
        );
    }
    let parts = parts(story);
    let sum = |on: Spent| parts.iter().filter(|part| part.on == on).map(|part| part.seconds).sum::<f64>();
    let all = parts.iter().map(|part| part.seconds).sum::<f64>();
    page.raw("<dl class=\"cards\">");
    let first = if story.is_ready { "Appearance to Ready" } else { "Longest chain" };
    for (class, name, value) in [
        ("card all", first, all),
        ("card operation", "Operations", sum(Spent::Operation)),
        ("card mailbox", "Mailboxes", sum(Spent::Mailbox)),
        ("card handler", "Handlers", sum(Spent::Turn)),
    ] {
        page.open("div", &[("class", class)]).element("dt", &[], name).element("dd", &[], &short(value)).close("div");
    }
    page.raw("</dl></header>");
}

/// The longest chain: its time as a bar, and its turns with their times.
pub(super) fn chain(page: &mut Markup, story: &Story) {
    page.raw("<section aria-labelledby=\"chain-title\"><h2 id=\"chain-title\">The longest chain of causes</h2>");
    let (begins, ends) = match story.is_ready {
        true => ("the pod's appearance", "the status in which it is Ready"),
        false => ("its first cause", "its last effect"),
    };
    page.element(
        "p",
        &[("class", "lead")],
        &format!("From {begins} to {ends}; each turn was caused by the one above it."),
    );
    share(page, &parts(story));
    page.raw(
        "<div class=\"wide\"><table class=\"chain\" id=\"chain\"><thead><tr><th class=\"number\">At</th><th>Actor</th>\
         <th>Message</th><th>Came by</th><th class=\"number\">Operation</th><th class=\"number\">In mailbox</th>\
         <th class=\"number\">In handler</th></tr></thead><tbody>",
    );
    let links: Vec<&Turn> = story.chain.iter().map(|place| &story.turns[*place]).collect();
    let start = links.first().map_or(0.0, |turn| turn.sent());
    for (place, turn) in links.iter().enumerate() {
        let before = place.checked_sub(1).map(|before| links[before]);
        let operation = before.filter(|_| turn.ends_operation()).map(|cause| (turn.sent() - cause.end()).max(0.0));
        page.open("tr", &[("data-turn", &turn.id.to_string())]);
        page.element("td", &[("class", "number")], &format!("+{}", short(turn.at() - start)));
        page.element("td", &[], &turn.actor);
        page.open("td", &[]).element("a", &[("href", &format!("#turn-{}", turn.id))], &turn.message).close("td");
        let origin = if turn.cause.origin == "turn" { "message" } else { &turn.cause.origin };
        page.element("td", &[], origin);
        page.element("td", &[("class", "number")], &operation.map_or_else(String::new, short));
        page.element("td", &[("class", "number")], &short(turn.waited_seconds));
        page.element("td", &[("class", "number")], &short(turn.took_seconds)).close("tr");
    }
    page.raw("</tbody></table></div></section>");
}

/// The parts of the chain's time, as wide as they are long.
fn share(page: &mut Markup, parts: &[Part]) {
    let all: f64 = parts.iter().map(|part| part.seconds).sum();
    if all <= 0.0 {
        return;
    }
    page.raw("<svg class=\"share\" id=\"share\" width=\"100%\" height=\"34\" role=\"img\" aria-label=\"The chain's time in parts\">");
    let mut at = 0.0;
    for part in parts {
        let width = part.seconds / all * 100.0;
        let class = match part.on {
            Spent::Turn => "part handler",
            Spent::Operation => "part operation",
            Spent::Mailbox => "part mailbox",
        };
        let (x, w) = (format!("{at:.3}%"), format!("{width:.3}%"));
        page.open("g", &[("class", class), ("data-turn", &part.turn.to_string())]);
        page.empty("rect", &[("x", &x), ("y", "0"), ("width", &w), ("height", "34")]);
        if width > 0.62 * part.name.chars().count() as f64 {
            page.element("text", &[("x", &format!("{:.3}%", at + 0.6)), ("y", "21")], &part.name);
        }
        page.element("title", &[], &format!("{}, {}", part.name, short(part.seconds))).close("g");
        at += width;
    }
    page.close("svg");
    page.raw(
        "<p class=\"legend\"><span class=\"key operation\">operation</span><span class=\"key mailbox\">in a mailbox</span>\
         <span class=\"key handler\">in a handler</span></p>",
    );
}

/// The tree of actors.
pub(super) fn actors(page: &mut Markup, actors: &Actors) {
    page.raw(
        "<section aria-labelledby=\"actors-title\"><h2 id=\"actors-title\">Actors</h2><div class=\"wide\">\
         <table class=\"actors\" id=\"actors\"><thead><tr><th>Actor</th><th>State</th><th>Mailbox</th>\
         <th class=\"number\">Turns</th><th class=\"number\">Longest wait</th><th class=\"number\">Longest turn</th>\
         <th class=\"number\">Restarts</th><th>Now</th></tr></thead><tbody>",
    );
    let names: BTreeSet<&str> = actors.actors.iter().map(|actor| actor.name.as_str()).collect();
    // A stack instead of recursion: the answer may hold any parents.
    let tops = actors.actors.iter().filter(|actor| !names.contains(actor.parent.as_str()));
    let mut open: Vec<(usize, &Actor)> = tops.map(|actor| (0, actor)).collect();
    open.reverse();
    let mut shown = BTreeSet::new();
    while let Some((level, actor)) = open.pop() {
        if !shown.insert(actor.name.as_str()) {
            continue;
        }
        row(page, actor, level);
        let children = actors.actors.iter().filter(|child| child.parent == actor.name);
        let children: Vec<_> = children.map(|child| (level + 1, child)).collect();
        open.extend(children.into_iter().rev());
    }
    page.raw("</tbody></table></div></section>");
}

fn row(page: &mut Markup, actor: &Actor, level: usize) {
    let level = ["level-0", "level-1", "level-2", "level-3"][level.min(3)];
    page.raw("<tr>").element("td", &[("class", level)], &actor.name);
    let state = match actor.state.as_str() {
        "down" | "stuck" | "late" => "state bad",
        "busy" | "working" => "state good",
        _ => "state",
    };
    page.open("td", &[]).element("span", &[("class", state)], &actor.state).close("td");
    let mailbox = &actor.mailbox;
    let refused = if mailbox.refused > 0 { format!(", {} refused", mailbox.refused) } else { String::new() };
    let (depth, capacity) = (mailbox.depth.to_string(), mailbox.capacity.max(1).to_string());
    page.open("td", &[("class", "mailbox")]).empty("meter", &[("value", &depth), ("max", &capacity)]);
    page.text(&format!(" {depth}/{}{refused}", mailbox.capacity)).close("td");
    page.element("td", &[("class", "number")], &actor.turns.to_string());
    page.element("td", &[("class", "number")], &short(actor.waited.max_seconds));
    page.element("td", &[("class", "number")], &short(actor.took.max_seconds));
    let restarts = if actor.restarts > 0 { "number bad" } else { "number" };
    page.element("td", &[("class", restarts)], &actor.restarts.to_string());
    let turn = actor.open_turn.iter().map(|turn| format!("{} for {}", turn.message, span(turn.took_seconds)));
    let work = actor.operations.iter().map(|it| format!("{} ({}) for {}", it.name, it.about, span(it.open_seconds)));
    let failed = actor.last_failure.iter().map(|why| format!("last failed: {why}"));
    let now: Vec<String> = turn.chain(work).chain(actor.note.clone()).chain(failed).collect();
    page.element("td", &[("class", "now")], &now.join("; ")).raw("</tr>");
}

/// Every turn as a row, which the timeline leads to.
pub(super) fn turns(page: &mut Markup, story: &Story) {
    page.raw("<section aria-labelledby=\"turns-title\"><details id=\"all-turns\"><summary><h2 id=\"turns-title\">");
    page.text(&format!("All {} turns", story.turns.len()));
    page.raw(
        "</h2></summary><div class=\"wide\"><table class=\"turns\"><thead><tr><th class=\"number\">Turn</th>\
         <th class=\"number\">At</th><th>Actor</th><th>Message</th><th>Came by</th><th class=\"number\">Cause</th>\
         <th class=\"number\">In mailbox</th><th class=\"number\">In handler</th><th>Ended</th></tr></thead><tbody>",
    );
    let start = story.chain.first().and_then(|place| story.turns.get(*place)).map_or(0.0, Turn::sent);
    let on_chain: BTreeSet<usize> = story.chain.iter().copied().collect();
    for (place, turn) in story.turns.iter().enumerate() {
        let class = if on_chain.contains(&place) { "chain" } else { "" };
        page.open("tr", &[("id", &format!("turn-{}", turn.id)), ("class", class)]);
        page.element("td", &[("class", "number")], &turn.id.to_string());
        page.element("td", &[("class", "number")], &format!("+{}", short(turn.at() - start)).replace("+-", "-"));
        page.element("td", &[], &turn.actor).element("td", &[], &turn.message).element("td", &[], &turn.cause.origin);
        page.open("td", &[("class", "number")]);
        if let Some(cause) = turn.cause.turn {
            page.element("a", &[("href", &format!("#turn-{cause}"))], &cause.to_string());
        }
        page.close("td");
        page.element("td", &[("class", "number")], &short(turn.waited_seconds));
        page.element("td", &[("class", "number")], &short(turn.took_seconds));
        page.element("td", &[], &turn.ending).close("tr");
    }
    page.raw("</tbody></table></div></details></section>");
}
