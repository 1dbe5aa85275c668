//! Claims of resources: prepared before a sandbox is made, released once nothing of the pod runs (RES-48).

use k8s_openapi::api::core::v1::Pod;

use crate::logic::plugins::claims::pod_claims::has_claims;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct PodClaims {
    /// The attempt of the sandbox that they are being prepared for.
    preparing: Option<u32>,
    /// The attempt of the sandbox that they were prepared for.
    prepared: Option<u32>,
    released: bool,
}

impl PodClaims {
    /// Whether they are to be prepared before the sandbox of this attempt is made.
    pub fn are_needed(&self, pod: &Pod, attempt: u32) -> bool {
        self.prepared != Some(attempt) && has_claims(pod)
    }

    /// They are being prepared for this sandbox.
    pub fn note_preparing(&mut self, attempt: u32) {
        self.preparing = Some(attempt);
    }

    /// They were prepared.
    pub fn note_prepared(&mut self) {
        self.prepared = self.preparing.take();
    }

    /// Whether they are to be released before the pod counts as ended.
    pub fn are_held(&self, pod: Option<&Pod>) -> bool {
        // Those of a pod that only the runtime knows are found by their keeper, which looks for them.
        !self.released && pod.is_some_and(has_claims)
    }

    /// They were released.
    pub fn note_released(&mut self) {
        self.released = true;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// RES-48.
    #[test]
    fn claims_are_prepared_for_each_sandbox_and_released_once() {
        let pod = |claims: serde_json::Value| -> Pod {
            serde_json::from_value(json!({ "spec": { "containers": [], "resourceClaims": claims } })).expect("a pod")
        };
        let (with, without) = (pod(json!([{ "name": "a", "resourceClaimName": "x" }])), pod(json!([])));
        let mut claims = PodClaims::default();
        assert!(!claims.are_needed(&without, 0) && !claims.are_held(Some(&without)) && !claims.are_held(None));
        assert!(claims.are_needed(&with, 0) && claims.are_held(Some(&with)));
        claims.note_preparing(0);
        assert!(claims.are_needed(&with, 0), "not yet");
        claims.note_prepared();
        assert!(!claims.are_needed(&with, 0) && claims.are_needed(&with, 1));
        claims.note_released();
        assert!(!claims.are_held(Some(&with)));
    }
}
