//! Situations of upstream's tests: which devices a pod is given, and why it is refused.

use super::*;

/// RES-42, RES-45: upstream's texts, each in its situation.
#[test]
fn devices_are_refused_with_upstreams_texts() {
    let text = |why: &str| format!("UnexpectedAdmissionError: Allocate failed due to {why}, which is unexpected");
    let mut managers = with(PolicyKind::None, &gpus(&["g0", "g1", "g2!"]));
    assert_eq!(
        refused(admit(&mut managers, &user("a", 3))),
        text("requested number of devices unavailable for vendor.com/gpu. Requested: 3, Available: 2")
    );
    assert_eq!(given(&mut managers, &user("a", 2)), "g0,g1");
    assert_eq!(
        refused(admit(&mut managers, &user("a", 1))),
        text(r#"pod "a" container "main" changed request for resource "vendor.com/gpu" from 2 to 1"#)
    );
    assert_eq!(admit(&mut managers, &user("a", 2)), Placement::Given, "it has them already");
    managers.set_inventory(gpus(&["g0", "g1!", "g2"]));
    assert_eq!(
        refused(admit(&mut managers, &user("a", 2))),
        text("previously allocated devices are no longer healthy; cannot allocate unhealthy devices vendor.com/gpu")
    );
    managers.set_inventory(gpus(&["g0!", "g1!", "g2!"]));
    assert_eq!(
        refused(admit(&mut managers, &user("a", 2))),
        text("no healthy devices present; cannot allocate unhealthy devices vendor.com/gpu")
    );
    managers.set_inventory(forgotten());
    assert_eq!(
        refused(admit(&mut managers, &user("a", 2))),
        text("cannot allocate unregistered device vendor.com/gpu")
    );
    let refused = refused(admit(&mut managers, &user("b", 2)));
    assert_eq!(
        refused,
        text("cannot allocate unregistered device vendor.com/gpu"),
        "somebody has some: a plugin had it"
    );
    managers.keep_only(&BTreeSet::new());
    assert_eq!(admit(&mut managers, &user("b", 2)), Placement::Given, "no plugin has it or had it: others may give it");
}

/// The plugin was gone for long.
fn forgotten() -> Arc<Inventory> {
    let mut of = devices(&["g0!"]);
    of.session = Session::Forgotten;
    Arc::new([(GPU.to_owned(), of)].into())
}

/// RES-44: a pod that runs keeps its devices without a plugin; one that was stopped does not.
#[test]
fn a_running_pod_keeps_its_devices_without_a_plugin() {
    let mut managers = with(PolicyKind::None, &gpus(&["g0", "g1"]));
    given(&mut managers, &user("a", 1));
    let next = self::managers(PolicyKind::None).restored(&managers.files(), ToOwned::to_owned).expect("restored");
    let running = Inquiry { running: ["main".to_owned()].into(), ..Inquiry::default() };
    let mut again = next.clone();
    assert_eq!(again.admit(&user("a", 1), running), Placement::Given);
    assert!(again.has_state_of(&next));
    let text = refused(admit(&mut again, &user("a", 1)));
    assert!(text.contains("no healthy devices present; cannot allocate unhealthy devices vendor.com/gpu"), "{text}");
    assert!(again.has_state_of(&next), "a refusal takes nothing away");
    let late = Inquiry { may_wait: true, ..Inquiry::default() };
    assert_eq!(again.admit(&user("a", 1), late.clone()), Placement::Late(GPU.to_owned()));
    assert!(again.record(&uid_of(&user("a", 1))).is_some_and(|record| record.refusal.is_some()));
    let mut long = again.clone();
    long.set_inventory(forgotten());
    assert_eq!(long.admit(&user("b", 1), late.clone()), Placement::Late(GPU.to_owned()), "it is waited for still");
    again.set_inventory(Arc::default());
    assert_eq!(again.admit(&user("b", 1), late.clone()), Placement::Late(GPU.to_owned()), "nobody forgets it so soon");
    again.set_inventory(gpus(&["g0", "g1"]));
    assert_eq!(again.admit(&user("a", 1), late.clone()), Placement::Given, "the plugin came");
    assert_eq!(given(&mut again, &user("b", 1)), "g1", "the other one is taken");
    assert!(matches!(again.admit(&user("c", 1), late), Placement::Refused(_)), "no plugin is late, all are taken");
}

/// RES-44: whoever runs keeps what it has; a container beside it that does not run is to have its devices, or cannot start.
#[test]
fn a_container_that_does_not_run_needs_its_devices_beside_one_that_does() {
    let pod = named("a", testing::pod(vec![wants("main", 1), wants("other", 1)], vec![]));
    let running = Inquiry { running: ["main".to_owned()].into(), ..Inquiry::default() };
    let mut managers = with(PolicyKind::None, &gpus(&["g0", "g1"]));
    let Placement::Call { taken, .. } = managers.admit(&pod, running) else { panic!("the other one has none yet") };
    assert_eq!(taken, [(need("other"), vec!["g0".to_owned()])]);
    let pinning = managers.pinning_of(&pod);
    assert_eq!(pinning.of("main").lacks.as_deref(), Some(GPU));
    assert_eq!(pinning.of("other").lacks, None);
    let plain = named("b", testing::pod(vec![wants("main", 0)], vec![]));
    assert_eq!(managers.pinning_of(&plain).of("main").lacks, None, "it asks for none");
}

/// RES-42: init containers leave their devices to later containers, sidecars do not.
#[test]
fn devices_of_init_containers_are_reused_and_those_of_sidecars_are_not() {
    let inits = vec![wants("first", 2), testing::sidecar("side", "", &format!("{GPU}=1")), wants("last", 1)];
    let pod = named("a", testing::pod(vec![wants("main", 2), wants("other", 1)], inits));
    let mut managers = with(PolicyKind::None, &gpus(&["g0", "g1", "g2", "g3"]));
    let taken = called(admit(&mut managers, &pod));
    let of = |name: &str| taken[name].clone();
    assert_eq!((of("first"), of("side"), of("last")), ("g0,g1".into(), "g0".into(), "g1".into()));
    assert_eq!((of("main"), of("other")), ("g1,g2".into(), "g3".into()));
}

/// RES-42: the nodes of the hint first, then other nodes, then devices without topology.
#[test]
fn devices_near_the_chosen_nodes_come_first() {
    let inventory = gpus(&["a", "b@1", "c@0", "d@0", "e@1"]);
    let mut managers = with(PolicyKind::BestEffort, &inventory);
    assert_eq!(given(&mut managers, &user("one", 1)), "c", "one node is enough, and the lower one ranks first");
    assert_eq!(given(&mut managers, &user("two", 2)), "b,e", "only node 1 has two left");
    assert_eq!(given(&mut managers, &user("three", 2)), "a,d", "the aligned one, and one without a place");
    let mut whole = with(PolicyKind::Restricted, &gpus(&["a@0", "b@0+1", "c@1", "d@1"]));
    assert_eq!(given(&mut whole, &user("one", 3)), "b,c,d", "a device near both nodes is near either");
    let refused = refused(admit(&mut whole, &user("two", 2)));
    assert_eq!(refused, "TopologyAffinityError: Resources cannot be allocated with Topology locality");
}

/// RES-42: a plugin is asked what it prefers among those that may be taken, and of its answer counts what is free.
#[test]
fn a_plugin_is_asked_what_it_prefers() {
    let mut managers = with(PolicyKind::BestEffort, &choosy_gpus(&["a@0", "b@0", "c@0", "f@0", "d@1", "e@1", "g@1"]));
    let before = managers.files();
    let Placement::Ask(question) = admit(&mut managers, &user("one", 2)) else { panic!("the plugin has an opinion") };
    let names = |text: &str| text.split(',').filter(|id| !id.is_empty()).map(ToOwned::to_owned).collect::<Vec<_>>();
    let asked = Preference { resource: GPU.to_owned(), available: names("a,b,c,f"), required: vec![], count: 2 };
    assert_eq!((question.need.container.as_str(), &question.preference), ("main", &asked));
    assert_eq!(managers.files(), before, "nothing is taken yet");
    let opinion = |preference: Preference, ids: &str, asked| Opinion { preference, ids: names(ids), asked };
    let inquiry = |opinion| Inquiry { opinions: [(need("main"), opinion)].into(), ..Inquiry::default() };
    let answered = managers.admit(&user("one", 2), inquiry(opinion(asked.clone(), "d,c", 1)));
    assert_eq!(called(answered)["main"], "a,c", "what is not near counts for nothing");
    // The plugin was asked about devices that others have taken meanwhile: it is asked anew, but not for ever.
    let old = managers.admit(&user("two", 1), inquiry(opinion(asked.clone(), "c,e", 1)));
    let Placement::Ask(question) = old else { panic!("{old:?}") };
    assert_eq!(question.preference.available, names("b,f"));
    let last = managers.admit(&user("two", 1), inquiry(opinion(asked.clone(), "c,e", 3)));
    assert_eq!(called(last)["main"], "b");
    let many = managers.admit(&user("three", 5), inquiry(opinion(asked, "", 1)));
    assert!(matches!(many, Placement::Refused(_)), "four are left");
}

/// RES-42: devices that the pod has from its init containers must be among the preferred ones.
#[test]
fn reused_devices_are_required_of_a_preference() {
    let mut managers = with(PolicyKind::None, &choosy_gpus(&["a", "b", "c"]));
    let pod = named("a", testing::pod(vec![wants("main", 2)], vec![wants("init", 1)]));
    let Placement::Ask(first) = admit(&mut managers, &pod) else { panic!("asked for the init container") };
    let opinion = |question: Question, ids: &[&str]| {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        (question.need, Opinion { preference: question.preference, ids, asked: 1 })
    };
    let first = opinion(first, &["b"]);
    let Placement::Ask(second) =
        managers.admit(&pod, Inquiry { opinions: [first.clone()].into(), ..Inquiry::default() })
    else {
        panic!("asked for the container")
    };
    assert_eq!(
        (second.need.container.as_str(), second.preference.required.as_slice()),
        ("main", &["b".to_owned()][..])
    );
    assert_eq!(second.preference.available, ["a", "b", "c"]);
    let opinions = [first, opinion(second, &["b", "c"])].into();
    let taken = called(managers.admit(&pod, Inquiry { opinions, ..Inquiry::default() }));
    assert_eq!((taken["init"].as_str(), taken["main"].as_str()), ("b", "b,c"));
}

/// All that an admission gave is given back; what the pod had before stays.
#[test]
fn a_withdrawn_pod_has_what_it_had_before() {
    let mut managers = with(PolicyKind::None, &gpus(&["a", "b"]));
    let amounts = format!("cpu=2,memory=1Gi,{GPU}=1");
    let pod = named("one", testing::pod(vec![testing::container("main", &amounts, &amounts)], vec![]));
    let (uid, unused) = (uid_of(&pod), managers.files());
    let before = managers.holding(&uid);
    called(admit(&mut managers, &pod));
    assert_ne!(managers.files().cpus, unused.cpus, "it has CPUs of its own");
    assert_eq!(managers.allocations().of(&uid, "main").expect("CPUs").devices, [], "they are not given yet");
    managers.withdraw(&uid, &before, None);
    assert_eq!(managers.files(), unused);
    assert_eq!(given(&mut managers, &pod), "a");
    let devices = managers.allocations().of(&uid, "main").expect("owns some").devices.clone();
    assert_eq!((devices[0].id.as_str(), devices[0].node), ("a", None));
    let before = managers.holding(&uid);
    managers.withdraw(&uid, &before, None);
    assert_eq!(given(&mut managers, &user("two", 1)), "b");
}

/// RES-53: as upstream.
#[test]
fn res_53_a_device_has_one_entry_for_each_of_its_numa_nodes() {
    let managers = with(PolicyKind::None, &gpus(&["a@0", "b@0", "c@0+1", "d", "e!"]));
    let entries = managers.allocations().allocatable.devices;
    let shown: Vec<_> = entries.iter().map(|entry| (entry.id.as_str(), entry.node)).collect();
    assert_eq!(shown, [("d", None), ("a", Some(0)), ("b", Some(0)), ("c", Some(0)), ("c", Some(1))]);
}

/// RES-46.
#[test]
fn the_health_of_owned_devices_is_known() {
    let mut managers = with(PolicyKind::None, &gpus(&["a", "b"]));
    given(&mut managers, &user("one", 2));
    managers.set_inventory(gpus(&["a", "b!"]));
    let uid = uid_of(&user("one", 2));
    let health = managers.health_of_devices()[&uid]["main"][GPU].clone();
    assert_eq!(health, [("a".to_owned(), Health::Healthy), ("b".to_owned(), Health::Unhealthy)].into());
    managers.set_inventory(Arc::default());
    assert_eq!(managers.health_of_devices()[&uid]["main"][GPU]["b"], Health::Healthy, "as upstream");
}

/// RES-41: of two answers that differ the first counts, and the other is named.
#[test]
fn answers_of_several_plugins_are_one() {
    let mut managers = managers(PolicyKind::None);
    let mut inventory: Inventory = [(GPU.to_owned(), devices(&["a"])), ("z.io/nic".to_owned(), devices(&["n"]))].into();
    inventory.get_mut(GPU).expect("it").options.pre_start = true;
    managers.set_inventory(Arc::new(inventory));
    let amounts = format!("{GPU}=1,z.io/nic=1");
    let pod = named("one", testing::pod(vec![testing::container("main", "", &amounts)], vec![]));
    let Placement::Call { taken, .. } = admit(&mut managers, &pod) else { panic!("both are free") };
    let variable = |value: &str| [("SHARED".to_owned(), value.to_owned())].into();
    for ((need, _), value) in taken.iter().zip(["gpu", "nic"]) {
        let cdi_devices = vec!["v/both".to_owned(), format!("v/{value}")];
        let grant = DeviceGrant { envs: variable(value), cdi_devices, ..DeviceGrant::default() };
        managers.grant(&uid_of(&pod), need, grant);
    }
    let devices = managers.pinning_of(&pod).of("main").devices;
    assert_eq!(devices.grant.envs, variable("gpu"));
    assert_eq!(devices.grant.cdi_devices, ["v/both", "v/gpu", "v/nic"]);
    assert_eq!(devices.announced.iter().map(|one| one.resource.as_str()).collect::<Vec<_>>(), [GPU]);
    let conflicts: Vec<_> = managers.device_conflicts(&uid_of(&pod)).iter().map(ToString::to_string).collect();
    let expected = r#"plugins contradict each other in the variable "SHARED": "gpu" counts, "nic" does not"#;
    assert_eq!(conflicts, [expected]);
}
