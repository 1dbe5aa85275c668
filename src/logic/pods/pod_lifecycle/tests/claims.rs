//! Claims of resources: prepared before each sandbox, released before the pod counts as ended (RES-48).

use k8s_openapi::api::core::v1::PodResourceClaim;

use super::*;

const NOTHING: [&str; 0] = [];

/// The pod, with a claim.
fn with_claim(mut pod: Pod) -> Pod {
    let claim = PodResourceClaim {
        name: "gpu".to_owned(),
        resource_claim_name: Some("a-claim".to_owned()),
        ..PodResourceClaim::default()
    };
    pod.spec.as_mut().expect("has a spec").resource_claims = Some(vec![claim]);
    pod
}

fn failed(in_processing: bool, message: &str) -> ClaimFailure {
    ClaimFailure { in_processing, message: message.to_owned() }
}

/// RES-48.
#[test]
fn res_48_claims_are_prepared_before_the_sandbox() {
    let (mut script, actions) = Script::new(with_claim(a_pod("Never", &[], &["a"])));
    assert_eq!(actions, ["claims 0", "prepare anew", "image a"]);
    assert!(script.waits().contains(&"its ResourceClaims to be prepared".to_owned()), "{:?}", script.waits());
    let (called, refused) = ("DRA driver d, which has not answered NodePrepareResources", "no device");
    assert_eq!(script.ends(JobEnd::ClaimsPrepared(Err(failed(true, called)))), NOTHING);
    assert_eq!(script.passes(1), ["claims 0"], "it goes on, and is asked for again soon");
    assert_eq!(script.ends(JobEnd::ClaimsPrepared(Err(failed(false, refused)))), NOTHING);
    assert_eq!(script.problem().as_deref(), Some("waits for its ResourceClaims to be prepared: no device"));
    assert_eq!(script.passes(9), NOTHING);
    assert_eq!(script.passes(10), ["claims 0"], "with the pause that follows an error");
    assert_eq!(script.ends(JobEnd::ClaimsPrepared(Ok(()))), ["sandbox 0"]);
    assert_eq!(script.problem(), None);
}

/// RES-48.
#[test]
fn res_48_a_pod_has_not_ended_before_its_claims_are_released() {
    let (mut script, _) = Script::new(with_claim(a_pod("Never", &[], &["a"])));
    script.ends(JobEnd::ClaimsPrepared(Ok(())));
    assert_eq!(script.removed(None), ["cancel Prepare", "cancel SetUpSandbox", "cancel EnsureImage(\"a\")", "inspect"]);
    assert_eq!(script.sees(&[], &[]), ["release claims"]);
    assert_eq!(script.life.stage(), Stage::Terminating);
    assert_eq!(script.ends(JobEnd::ClaimsReleased(Err(failed(false, "busy")))), NOTHING);
    assert_eq!(script.problem().as_deref(), Some("ends, waits for its ResourceClaims to be released: busy"));
    assert_eq!(script.passes(20), ["release claims"]);
    assert_eq!(script.ends(JobEnd::ClaimsReleased(Ok(()))), ["clean"]);
    assert_eq!(script.life.stage(), Stage::Terminated);
    assert_eq!(script.ends(JobEnd::CleanedUp(Ok(()))), ["over", "remove [] and directory"]);
}
