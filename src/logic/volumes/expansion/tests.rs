//! Each branch of the protocol, by claims in each of its states.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::logic::plugins::call_error::CallProblem;

const NOW: Moment = Moment(1_800_000_000_000_000_000);

/// A claim of 2Gi whose status has 1Gi.
fn claim(status: Value, annotations: Value, modes: &[&str]) -> PersistentVolumeClaim {
    let mut tree = json!({
        "metadata": { "name": "data", "uid": "claim-1", "resourceVersion": "7", "annotations": annotations },
        "spec": { "accessModes": modes, "resources": { "requests": { "storage": "2Gi" } } },
        "status": { "capacity": { "storage": "1Gi" } },
    });
    for (key, value) in status.as_object().unwrap() {
        tree["status"][key] = value.clone();
    }
    serde_json::from_value(tree).unwrap()
}

/// The same in a state of the protocol.
fn in_state(state: &str) -> PersistentVolumeClaim {
    let status =
        json!({ "allocatedResources": { "storage": "2Gi" }, "allocatedResourceStatuses": { "storage": state } });
    claim(status, json!({}), &["ReadWriteOnce"])
}

/// A claim whose volume was grown by another node, or by the controller.
fn told(annotations: Value, mode: &str) -> PersistentVolumeClaim {
    let status = json!({ "capacity": { "storage": "2Gi" }, "allocatedResources": { "storage": "2Gi" } });
    claim(status, annotations, &[mode])
}

fn volume(size: &str) -> PersistentVolume {
    serde_json::from_value(json!({ "spec": { "capacity": { "storage": size } } })).unwrap()
}

fn size(text: &str) -> Quantity {
    Quantity::parse(text).unwrap()
}

fn known(text: &str) -> KnownSize {
    KnownSize { claim: "claim-1".into(), size: size(text), in_use: false, refused: false }
}

fn expansion(claim: &PersistentVolumeClaim, known: &KnownSize) -> Expansion {
    match decide(claim, &volume("2Gi"), known, When::InUse, false) {
        Verdict::Expand(expansion) => expansion,
        other => panic!("{other:?}"),
    }
}

fn failed(code: Code) -> CallEnd {
    let problem = CallProblem::Status { code, message: "no".into() };
    CallEnd::Failed(CallError { method: "NodeExpandVolume", problem })
}

/// VOL-46.
#[test]
fn a_volume_is_grown_as_the_claims_status_allows() {
    use When::{AtMount, InUse};
    let grown = Verdict::Grown(size("2Gi"));
    let cases = [
        ("as large as told", in_state(PENDING), "1Gi", known("1Gi"), AtMount, Verdict::Rest),
        ("as large as known", in_state(PENDING), "2Gi", known("2Gi"), InUse, Verdict::Rest),
        ("nothing is known", in_state(PENDING), "2Gi", known("0"), InUse, Verdict::Rest),
        ("not in use", in_state(PENDING), "2Gi", KnownSize { in_use: true, ..known("1Gi") }, InUse, Verdict::Rest),
        ("given up", in_state(INFEASIBLE), "2Gi", known("1Gi"), InUse, Verdict::Rest),
        ("the controller's turn", in_state("ControllerResizeInProgress"), "2Gi", known("1Gi"), AtMount, Verdict::Rest),
        ("told by another", told(json!({}), "ReadWriteOnce"), "2Gi", known("1Gi"), InUse, grown.clone()),
        ("needs no node", told(json!({ NOT_REQUIRED: "true" }), "ReadWriteMany"), "2Gi", known("1Gi"), InUse, grown),
    ];
    for (what, claim, of_volume, known, when, verdict) in cases {
        assert_eq!(decide(&claim, &volume(of_volume), &known, when, false), verdict, "{what}");
    }
    let begin = json!({
        "metadata": { "resourceVersion": "7" },
        "status": { "allocatedResourceStatuses": { "storage": "NodeResizeInProgress" } },
    });
    let expand = |claim: &PersistentVolumeClaim| {
        let expansion = expansion(claim, &known("1Gi"));
        (expansion.size.to_string(), expansion.begin.is_some())
    };
    assert_eq!(expansion(&in_state(PENDING), &known("1Gi")).begin, Some(begin));
    assert_eq!(expand(&in_state(IN_PROGRESS)), ("2Gi".to_owned(), false), "begun already");
    assert_eq!(expand(&told(json!({}), "ReadWriteMany")), ("2Gi".to_owned(), false), "each node of a shared one");
    let older = claim(json!({}), json!({}), &["ReadWriteOnce"]);
    assert_eq!(expand(&older), ("2Gi".to_owned(), false), "a resizer of before the protocol");
    let less =
        json!({ "allocatedResources": { "storage": "1536Mi" }, "allocatedResourceStatuses": { "storage": PENDING } });
    assert_eq!(expand(&claim(less, json!({}), &[])), ("1536Mi".to_owned(), true), "what was allocated counts");
}

/// VOL-46: a read-only pod hears of it when its volume is mounted.
#[test]
fn a_volume_that_is_not_written_to_is_not_grown() {
    let of = |when| decide(&in_state(PENDING), &volume("2Gi"), &known("1Gi"), when, true);
    assert_eq!((of(When::AtMount), of(When::InUse)), (Verdict::ReadOnly, Verdict::Rest));
    assert_eq!(
        read_only_message("pv"),
        "MountVolume.NodeExpandVolume failed for volume \"pv\" requested read-only file system"
    );
}

/// VOL-46: only a claim that may have grown is worth a second question to the API server.
#[test]
fn a_quiet_claim_is_told_from_one_that_may_have_grown() {
    let quiet = known("2Gi");
    let done = told(json!({}), "ReadWriteOnce");
    assert!(!quiet.may_have_grown(&done));
    assert!(known("1Gi").may_have_grown(&done), "another node told it");
    assert!(quiet.may_have_grown(&in_state(PENDING)), "a state");
    assert!(known("1Gi").may_have_grown(&claim(json!({}), json!({}), &[])), "its author wants more");
    assert!(!KnownSize { in_use: true, ..known("1Gi") }.may_have_grown(&done));
    assert!(!KnownSize { claim: "other".into(), ..known("1Gi") }.may_have_grown(&done), "of another claim");
    assert_eq!(KnownSize::of(&done), quiet);
}

/// VOL-46.
#[test]
fn a_grown_volume_leaves_nothing_of_the_expansion_in_the_status() {
    let mut pending = in_state(IN_PROGRESS);
    let conditions = json!([
        { "type": "FileSystemResizePending", "status": "True" },
        { "type": "NodeResizeError", "status": "True" },
        { "type": "ModifyingVolume", "status": "True" },
    ]);
    pending.status.as_mut().unwrap().conditions = serde_json::from_value(conditions).unwrap();
    let before = KnownSize { refused: true, ..known("1Gi") };
    let order = expansion(&pending, &before);
    let after = order.after(&CallEnd::Done, &pending, &before, NOW);
    let patch = json!({
        "metadata": { "resourceVersion": "7" },
        "status": {
            "capacity": { "storage": "2Gi" },
            "allocatedResourceStatuses": null,
            "conditions": [
                { "$patch": "delete", "type": "FileSystemResizePending" },
                { "$patch": "delete", "type": "NodeResizeError" },
            ],
        },
    });
    assert_eq!(after, After { has_grown: true, patch: Some(patch), known: known("2Gi"), problem: None });
    // Of other resources the states stay.
    let more = BTreeMap::from([("storage".to_owned(), IN_PROGRESS.to_owned()), ("other".to_owned(), "x".to_owned())]);
    pending.status.as_mut().unwrap().allocated_resource_statuses = Some(more);
    let patch = order.after(&CallEnd::Done, &pending, &before, NOW).patch.unwrap();
    assert_eq!(patch["status"]["allocatedResourceStatuses"], json!({ "storage": null }));
    // The status of a shared one has the size already; of an older resizer's claim it gets it.
    let shared = told(json!({}), "ReadWriteMany");
    let after = expansion(&shared, &known("1Gi")).after(&CallEnd::Done, &shared, &known("1Gi"), NOW);
    assert_eq!(after, After { has_grown: true, patch: None, known: known("2Gi"), problem: None });
    let older = claim(json!({}), json!({}), &[]);
    let after = expansion(&older, &known("1Gi")).after(&CallEnd::Done, &older, &known("1Gi"), NOW);
    assert_eq!(after.patch.unwrap()["status"], json!({ "capacity": { "storage": "2Gi" } }));
}

/// VOL-46: what a failure means for the pod, for the claim's status, and for the next try.
#[test]
fn a_failure_is_told_by_what_the_driver_said() {
    let pending = in_state(IN_PROGRESS);
    let of = |end: &CallEnd, before: &KnownSize| {
        let after = expansion(&pending, before).after(end, &pending, before, NOW);
        assert!(!after.has_grown && after.known.size == size("1Gi"), "{end:?}");
        let status = after.patch.map(|patch| patch["status"].clone()).unwrap_or_default();
        let error = status["conditions"][0]["message"].as_str().map(str::to_owned);
        let state = status["allocatedResourceStatuses"]["storage"].as_str().map(str::to_owned);
        (state, error, after.known.refused, after.known.in_use, after.problem)
    };
    let rpc = |code: Code| format!("rpc error: code = {code} desc = no");
    for code in [Code::InvalidArgument, Code::OutOfRange, Code::NotFound] {
        let problem = format!("Expander.NodeExpand failed to expand the volume {}", rpc(code));
        let told = Some(format!("failed to expand pvc with {problem}"));
        assert_eq!(of(&failed(code), &known("1Gi")), (Some(INFEASIBLE.into()), told, true, false, Some(problem)));
    }
    let problem = |code| format!("Expander.NodeExpand failed to expand the volume : {}", rpc(code));
    let told = |code| Some(format!("failed to expand pvc with {}", problem(code)));
    let internal = (None, told(Code::Internal), true, false, Some(problem(Code::Internal)));
    assert_eq!(of(&failed(Code::Internal), &known("1Gi")), internal);
    let in_use = (None, told(Code::FailedPrecondition), true, true, None);
    assert_eq!(of(&failed(Code::FailedPrecondition), &known("1Gi")), in_use, "the mount goes on");
    let uncertain = (None, None, false, false, Some(problem(Code::Unavailable)));
    assert_eq!(of(&failed(Code::Unavailable), &known("1Gi")), uncertain);
    let away = CallEnd::NotAsked("driver name d not found".into());
    assert_eq!(of(&away, &known("1Gi")), (None, None, false, false, Some("driver name d not found".into())));
    let why = "expander.NodeExpand failed to get NodeExpandSecretRef: no";
    let no_secret = (None, Some(format!("failed to expand pvc with {why}")), true, false, Some(why.into()));
    assert_eq!(of(&CallEnd::NoSecret(why.into()), &known("1Gi")), no_secret);
    let unsupported = "NodeExpand is not supported by the CSI driver d";
    let refusal =
        (None, Some(format!("failed to expand pvc with {unsupported}")), true, false, Some(unsupported.into()));
    assert_eq!(of(&CallEnd::Unsupported("d".into()), &known("1Gi")), refusal, "the controller wants it of the node");
}

/// VOL-46: once the author of a claim that cannot be grown wants another size, the controller has to be let at it.
#[test]
fn a_refused_size_is_given_up_once_another_one_is_wanted() {
    let mut pending = in_state(IN_PROGRESS);
    let wants = json!({ "requests": { "storage": "1500Mi" } });
    pending.spec.as_mut().unwrap().resources = serde_json::from_value(wants).unwrap();
    let state = |before: &KnownSize| {
        let patch = expansion(&pending, before).after(&failed(Code::Internal), &pending, before, NOW).patch.unwrap();
        patch["status"]["allocatedResourceStatuses"]["storage"].clone()
    };
    assert_eq!(state(&known("1Gi")), Value::Null, "the first refusal");
    assert_eq!(state(&KnownSize { refused: true, ..known("1Gi") }), INFEASIBLE);
    // A condition that is there is not written again.
    let there = json!([{ "type": "NodeResizeError", "status": "True", "message": "before" }]);
    pending.status.as_mut().unwrap().conditions = serde_json::from_value(there).unwrap();
    let order = expansion(&pending, &known("1Gi"));
    assert_eq!(order.after(&failed(Code::Internal), &pending, &known("1Gi"), NOW).patch, None);
}

/// VOL-46: without the protocol a driver that cannot, or cannot now, keeps nobody from the volume.
#[test]
fn an_older_resizers_volume_goes_on_where_the_driver_cannot_grow_it() {
    let older = claim(json!({}), json!({}), &[]);
    let of = |end: &CallEnd| expansion(&older, &known("1Gi")).after(end, &older, &known("1Gi"), NOW);
    let silent = |known| After { has_grown: false, patch: None, known, problem: None };
    assert_eq!(of(&CallEnd::Unsupported("d".into())), silent(known("2Gi")));
    assert_eq!(of(&failed(Code::FailedPrecondition)), silent(KnownSize { in_use: true, ..known("2Gi") }));
    let after = of(&failed(Code::InvalidArgument));
    assert!(after.patch.is_none() && after.problem.is_some() && after.known == known("1Gi"));
    let shared = told(json!({}), "ReadWriteMany");
    let after = expansion(&shared, &known("1Gi")).after(&CallEnd::Unsupported("d".into()), &shared, &known("1Gi"), NOW);
    assert_eq!(after, silent(known("2Gi")), "another node grew it");
}
