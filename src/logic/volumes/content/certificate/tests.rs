//! Cases and a property of a certificate's life.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn at(seconds: u64) -> Moment {
    Moment::EPOCH.plus(Duration::from_secs(1_800_000_000 + seconds))
}

fn asked(request: &str) -> Asked {
    Asked::new("key".into(), request.to_owned(), at(0), 0.0)
}

/// A request of which the API tells this condition; due after an hour, over after two.
fn request(condition: &str) -> PodCertificateRequest {
    let conditions: Vec<Value> = match condition {
        "" => vec![],
        kind => vec![json!({
            "type": kind, "status": "True", "reason": "Because", "message": "so",
            "lastTransitionTime": "2027-01-15T08:00:00Z",
        })],
    };
    let chain = "noise\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\nnoise\n";
    let time = |seconds: i64| jiff::Timestamp::from_second(1_800_000_000 + seconds).unwrap().to_string();
    serde_json::from_value(json!({
        "metadata": { "namespace": "ns", "name": "req-1" },
        "spec": {
            "nodeName": "n", "nodeUID": "n", "podName": "p", "podUID": "p", "serviceAccountName": "s",
            "serviceAccountUID": "s", "signerName": "x/y", "stubPKCS10Request": "",
        },
        "status": {
            "conditions": conditions, "certificateChain": chain, "notBefore": time(0), "beginRefreshAt": time(3600),
            "notAfter": time(7200),
        },
    }))
    .unwrap()
}

fn issued() -> CertificateState {
    let (state, events) = note_looked(note_asked(None, asked("req-1")), Some(&request("Issued")), at(1), 0.0);
    assert!(events.is_empty());
    state.unwrap()
}

#[test]
fn a_certificate_is_asked_for_once_and_looked_for_until_it_is_there() {
    assert_eq!(next_step(None, at(0)), Step::Ask);
    let state = note_asked(None, asked("req-1"));
    assert_eq!(next_step(Some(&state), at(0)), Step::Look("req-1".into()));
    assert_eq!(bundle(Some(&state)), Err("credential bundle is not issued yet".into()));
    let (pending, _) = note_looked(state.clone(), Some(&request("")), at(1), 0.0);
    assert!(pending == Some(state.clone()), "still to be answered");
    let (early, _) = note_looked(state.clone(), None, at(600), 0.0);
    assert!(early == Some(state.clone()), "it may not have been heard of yet");
    let (late, _) = note_looked(state, None, at(601), 0.0);
    assert!(late.is_none(), "it was deleted: all begins anew");
    let issued = issued();
    let chain = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(bundle(Some(&issued)), Ok(("key".into(), chain.into())));
}

#[test]
fn a_refusal_is_for_good_and_told() {
    for (kind, verb, past) in [("Denied", "was denied", "denied"), ("Failed", "failed", "failed")] {
        let (state, events) = note_looked(note_asked(None, asked("req-1")), Some(&request(kind)), at(1), 0.0);
        let told = format!("PodCertificateRequest ns/req-1 {verb}, reason=\"Because\", message=\"so\"");
        let events: Vec<_> = events.iter().map(|(reason, text)| (reason.as_str(), text.as_str())).collect();
        assert_eq!(events, [(kind, told.as_str())]);
        let why = format!("PodCertificateRequest was permanently {past}: reason=\"Because\" message=\"so\"");
        assert_eq!(bundle(state.as_ref()), Err(why));
        assert_eq!(next_step(state.as_ref(), at(1_000_000)), Step::Rest);
    }
}

/// VOL-28.
#[test]
fn the_old_one_is_used_until_the_next_is_there_and_its_delay_is_told_once() {
    let mut state = issued();
    assert_eq!(next_step(Some(&state), at(3599)), Step::Rest);
    assert_eq!(next_step(Some(&state), at(3600)), Step::Ask);
    state = note_asked(Some(state), Asked::new("next".into(), "req-2".into(), at(3600), 0.0));
    assert_eq!(next_step(Some(&state), at(3601)), Step::Look("req-2".into()));
    assert_eq!(&*bundle(Some(&state)).unwrap().0, "key");
    assert_eq!(overdue(&mut state, at(4200)), []);
    assert_eq!(overdue(&mut state, at(4201))[0].0, EventReason::CertificateOverdueForRefresh);
    assert_eq!(overdue(&mut state, at(4202)), []);
    assert_eq!(overdue(&mut state, at(7201)), [(EventReason::CertificateExpired, "PodCertificate expired".to_owned())]);
    let (gone, _) = note_looked(state.clone(), None, at(4201), 0.0);
    assert_eq!(next_step(gone.as_ref(), at(4201)), Step::Ask, "the request for the next one was deleted");
    let (next, _) = note_looked(state, Some(&request("Issued")), at(7300), 0.5);
    assert_eq!(&*bundle(next.as_ref()).unwrap().0, "next");
}

proptest! {
    #[test]
    fn a_certificate_that_was_there_stays_until_another_is_or_is_refused(
        looks in proptest::collection::vec((0_usize..4, 0_u64..20_000), 0..40),
    ) {
        let (mut state, mut now) = (Some(issued()), 0);
        for (kind, later) in looks {
            now += later;
            state = match next_step(state.as_ref(), at(now)) {
                Step::Ask => Some(note_asked(state, Asked::new("k".into(), "r".into(), at(now), 0.0))),
                Step::Look(_) => {
                    let found = [None, Some(request("")), Some(request("Issued")), Some(request("Failed"))];
                    note_looked(state.unwrap(), found[kind].as_ref(), at(now), 0.3).0
                }
                Step::Rest => state,
            };
            let refused = matches!(state, Some(CertificateState::Refused(_)));
            prop_assert!(refused || bundle(state.as_ref()).is_ok());
        }
    }
}
