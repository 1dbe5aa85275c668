//! Terms of node selectors: affinities of pods and claims of volumes ask for nodes by them.

use k8s_openapi::api::core::v1::{Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};

/// Whether the node has what one of the terms asks for.
pub fn matches_terms(selector: &NodeSelector, node: &Node) -> bool {
    selector.node_selector_terms.iter().any(|term| matches_term(term, node))
}

/// A term without any requirement matches nothing.
fn matches_term(term: &NodeSelectorTerm, node: &Node) -> bool {
    let (labels, fields) = (term.match_expressions.as_deref(), term.match_fields.as_deref());
    let (labels, fields) = (labels.unwrap_or_default(), fields.unwrap_or_default());
    let label = |key: &str| node.metadata.labels.as_ref().and_then(|all| all.get(key)).map(String::as_str);
    let field = |key: &str| (key == "metadata.name").then_some(node.metadata.name.as_deref()).flatten();
    !(labels.is_empty() && fields.is_empty())
        && labels.iter().all(|it| meets(it, label(&it.key)))
        && fields.iter().all(|it| meets(it, field(&it.key)))
}

fn meets(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_in = value.is_some_and(|value| values.iter().any(|one| one == value));
    let number = |text: &str| text.parse::<i64>().ok();
    let compared = || Some((number(value?)?, number(values.first()?)?));
    match requirement.operator.as_str() {
        "In" => is_in,
        "NotIn" => !is_in,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared().is_some_and(|(value, bound)| value > bound),
        "Lt" => compared().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}
