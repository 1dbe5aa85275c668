//! Which ranges of pods' addresses the runtime gets, and when (NODE-58).
//!
//! Pure; owned by `NodeStatus`. The runtime gets them once. Those that the runtime did not take go to it again with the next
//! update.

use k8s_openapi::api::core::v1::Node;

use super::node_status::pod_cidrs;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct PodRanges {
    /// Those of the configuration, which count as long as the Node names none; empty for none.
    configured: String,
    /// Those that the runtime knows.
    known: Option<String>,
    is_being_told: bool,
}

impl PodRanges {
    /// With those of the configuration.
    pub fn new(configured: &str) -> Self {
        Self { configured: configured.to_owned(), ..Self::default() }
    }

    /// The ranges that the runtime has yet to get; [`PodRanges::told`] has to follow.
    pub fn to_be_told(&mut self, node: Option<&Node>) -> Option<String> {
        let configured = Some(&self.configured).filter(|cidrs| !cidrs.is_empty());
        let cidrs = node.and_then(pod_cidrs).or_else(|| configured.cloned())?;
        if self.is_being_told || self.known.as_ref() == Some(&cidrs) {
            return None;
        }
        self.is_being_told = true;
        Some(cidrs)
    }

    /// The runtime got these, and took them or did not.
    pub fn told(&mut self, cidrs: String, are_taken: bool) {
        debug_assert!(self.is_being_told, "an answer comes to what was asked");
        self.is_being_told = false;
        if are_taken {
            self.known = Some(cidrs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(cidr: &str) -> Node {
        let mut node = Node::default();
        node.spec.get_or_insert_default().pod_cidrs = Some(vec![cidr.to_owned()]);
        node
    }

    /// NODE-58.
    #[test]
    fn ranges_are_told_until_the_runtime_takes_them() {
        let (mut ranges, one, other) = (PodRanges::new("10.9.0.0/16"), node("10.1.0.0/24"), node("10.2.0.0/24"));
        assert_eq!(ranges.to_be_told(None).as_deref(), Some("10.9.0.0/16"));
        assert_eq!(ranges.to_be_told(Some(&one)), None, "one call at a time");
        ranges.told("10.9.0.0/16".to_owned(), true);
        assert_eq!(ranges.to_be_told(None), None);
        assert_eq!(ranges.to_be_told(Some(&one)).as_deref(), Some("10.1.0.0/24"));
        ranges.told("10.1.0.0/24".to_owned(), false);
        assert_eq!(ranges.to_be_told(Some(&one)).as_deref(), Some("10.1.0.0/24"), "it was not taken");
        ranges.told("10.1.0.0/24".to_owned(), true);
        assert_eq!(ranges.to_be_told(Some(&one)), None);
        assert_eq!(ranges.to_be_told(Some(&other)).as_deref(), Some("10.2.0.0/24"));
    }

    #[test]
    fn nothing_is_told_where_nobody_names_a_range() {
        assert_eq!(PodRanges::new("").to_be_told(Some(&Node::default())), None);
    }
}
