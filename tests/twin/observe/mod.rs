//! Facts: all that an outsider can see of a scenario on one node, as one JSON value in a form that can be compared.

mod cri;
mod events;
pub mod files;
pub mod node;
mod refused;
mod status;

use serde_json::{Map, Value, json};

use crate::normalise::Names;
use crate::steps::Play;

/// The facts of a scenario that was played; names of the node and of the moment are taken out.
pub fn facts(play: &Play) -> Value {
    let seen = play.watch.seen();
    let calls = play.node.record.calls();
    let events = play.api.get(&format!("/api/v1/namespaces/{}/events", play.namespace)).unwrap_or_default();
    let mut pods = Map::new();
    for pod in play.scenario.all_names() {
        let name = play.api_name(&pod);
        let until = play.seen_until.get(&pod).copied().unwrap_or(seen.len());
        let facts = json!({
            "cri": cri::of_pod(&calls, &play.namespace, &name),
            "status": status::of_pod(&seen[..until], &name),
            "events": events::of_pod(&events, &name),
            "files": play.files.get(&pod).cloned().unwrap_or_default(),
            "gone (seconds)": play.end_time(&pod),
        });
        pods.insert(pod, facts);
    }
    let names = Names::new(&play.node.env, &play.node.side.node_name(), &play.namespace);
    let refused = refused::of_node(&play.meeting.audit_log(), &play.node.side.node_name(), &play.namespace);
    names.normalise(&json!({ "steps": play.outcomes, "pods": pods, "refused": refused }))
}

/// A sequence in which a part that repeats at once is there once, and the end of that part has a mark.
///
/// How often a container crashes within a scenario is a matter of time; in which order things happen is not.
fn folded(mut sequence: Vec<String>) -> Vec<String> {
    let mut length = 1;
    while length <= sequence.len() / 2 {
        let mut at = 0;
        let mut changed = false;
        while at + 2 * length <= sequence.len() {
            let bare = |place: usize| sequence[place].trim_end_matches('+');
            if (0..length).all(|place| bare(at + place) == bare(at + length + place)) {
                sequence.drain(at + length..at + 2 * length);
                let end = &mut sequence[at + length - 1];
                if !end.ends_with('+') {
                    end.push('+');
                }
                changed = true;
            } else {
                at += 1;
            }
        }
        // A shorter part may repeat now.
        length = if changed { 1 } else { length + 1 };
    }
    sequence
}

#[cfg(test)]
mod tests {
    use super::folded;

    fn fold(text: &str) -> String {
        folded(text.split(' ').map(str::to_owned).collect()).join(" ")
    }

    #[test]
    fn repeated_parts_are_folded() {
        assert_eq!(fold("a b c"), "a b c");
        assert_eq!(fold("a b a b a b c"), "a b+ c");
        assert_eq!(fold("a a b"), "a+ b");
        assert_eq!(fold("a b a"), "a b a");
    }
}
