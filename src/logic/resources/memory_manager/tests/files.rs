//! The state file: upstream's vectors, files that it refuses, and every way to cut one (RES-34).

use super::*;

const PATH: &str = "/var/lib/kubelet/memory_manager_state";

fn error_of(gates: Gates, file: &str) -> String {
    let result = manager(&[4], gates).restore(file.as_bytes(), PATH);
    result.map_or_else(|error| error.to_string(), |()| String::new())
}

/// Upstream's words around an error of the file.
fn of_file(error: &str) -> String {
    format!(
        "could not restore state from checkpoint: {error}, please drain this node and delete the memory manager \
         checkpoint file \"/var/lib/kubelet/memory_manager_state\" before restarting Kubelet"
    )
}

/// The file of a manager that gave one pod memory.
fn a_file() -> (MemoryManager, String) {
    let mut manager = manager(&[4], NO_GATES);
    give(&mut manager, &guaranteed("p", &["app 1Gi"]), &any(false)).expect("has room");
    let file = manager.to_file();
    (manager, file)
}

/// RES-34. Upstream's vectors: the empty file of the policy `None`, and a file of its tests.
#[test]
fn checksums_are_upstreams() {
    let none = MemoryManager::new(MemoryPolicy::None, NO_GATES, &machine(&[4]), &Reserved::new());
    let empty = r#"{"policyName":"None","machineState":{},"checksum":4236770233}"#;
    assert_eq!(none.to_file(), empty);
    let mut again = none.clone();
    assert_eq!(again.restore(empty.as_bytes(), PATH), Ok(()));
    assert_eq!(again, none);

    // Its policy is no policy, so that it is read and then refused: the checksum was right.
    let of_tests = |checksum: u64| {
        format!(
            r#"{{"policyName":"static","machineState":{{"0":{{"numberOfAssignments":0,"memoryMap":{{"memory":{{"total":2048,
            "systemReserved":512,"allocatable":1536,"reserved":512,"free":1024}}}},"cells":[]}}}},
            "entries":{{"pod":{{"container1":[{{"numaAffinity":[0],"type":"memory","size":512}}]}}}},"checksum":{checksum}}}"#
        )
    };
    for gates in [NO_GATES, ALL_GATES] {
        let other = r#"[memorymanager] configured policy "Static" differs from state checkpoint policy "static""#;
        assert_eq!(error_of(gates, &of_tests(4_215_593_881)), of_file(other));
        assert_eq!(error_of(gates, &of_tests(101_010)), of_file("checkpoint is corrupted"));
    }
}

/// RES-34. The texts are those that upstream's manager gave for these files.
#[test]
fn a_file_that_does_not_fit_is_refused_with_upstreams_text() {
    let one_node = |entries: &str| {
        format!(
            r#"{{"policyName":"Static","machineState":{{"0":{{"numberOfAssignments":2,"memoryMap":{{"memory":{{"total":4294967296,
            "systemReserved":1073741824,"allocatable":3221225472,"reserved":1,"free":3221225471}}}},"cells":[0]}}}},
            "entries":{{"p":{{"c":[{entries}]}}}},"checksum":0}}"#
        )
    };
    let corrupt = r#"{"policyName":"Static","machineState":{},"checksum":1}"#;
    let other_policy = r#"{"policyName":"None","machineState":{},"checksum":4236770233}"#;
    let cases = [
        (String::new(), of_file("unexpected end of JSON input")),
        ("{".into(), of_file("unexpected end of JSON input")),
        ("x".into(), of_file("invalid character 'x' looking for beginning of value")),
        (corrupt.into(), of_file("checkpoint is corrupted")),
        (
            other_policy.into(),
            of_file(r#"[memorymanager] configured policy "Static" differs from state checkpoint policy "None""#),
        ),
        (
            r#"{"policyName":"Static","machineState":{},"entries":{"p":{"c":[]}},"checksum":0}"#.into(),
            "[memorymanager] machine state can not be empty when it has memory assignments".into(),
        ),
        (
            r#"{"policyName":"Static","machineState":{"7":{"cells":[7]}},"checksum":0}"#.into(),
            "[memorymanager] the expected machine state is different from the real one".into(),
        ),
        (
            one_node(r#"{"numaAffinity":[3],"type":"memory","size":1}"#),
            "[memorymanager] (pod: p, container: c) the memory assignment uses the NUMA that does not exist".into(),
        ),
        (
            one_node(r#"{"numaAffinity":[0],"type":"hugepages-2Mi","size":1}"#),
            "[memorymanager] (pod: p, container: c) the memory assignment uses memory resource that does not exist"
                .into(),
        ),
        (
            one_node(r#"{"numaAffinity":[0],"type":"memory","size":1}"#),
            "[memorymanager] the expected machine state is different from the real one".into(),
        ),
        (r#"{"policyName":"Static","machineState":{},"checksum":0}"#.into(), String::new()),
    ];
    for (file, error) in cases {
        for gates in [NO_GATES, ALL_GATES] {
            assert_eq!(error_of(gates, &file), error, "{file}");
        }
    }
    let of_another_shape = error_of(NO_GATES, r#"{"policyName":7}"#);
    assert!(of_another_shape.contains("checkpoint: json: cannot unmarshal "), "{of_another_shape}");
}

/// RES-34. Cut anywhere, or with any digit changed, a file is not believed.
#[test]
fn a_file_that_is_cut_or_changed_is_refused() {
    let (given, file) = a_file();
    let mut read = manager(&[4], NO_GATES);
    assert_eq!(read.restore(file.as_bytes(), PATH), Ok(()));
    assert_eq!(read.state(), given.state());
    for end in 0..file.len() {
        assert_eq!(error_of(NO_GATES, &file[..end]), of_file("unexpected end of JSON input"), "cut at {end}");
    }
    let digits = file.match_indices(|character: char| character.is_ascii_digit());
    for (place, digit) in digits {
        let other = if digit == "7" { "8" } else { "7" };
        let changed = format!("{}{other}{}", &file[..place], &file[place + 1..]);
        assert_ne!(error_of(NO_GATES, &changed), "", "{changed}");
    }
}

/// The memory of the machine, or what is kept of it, changed since the file was written.
#[test]
fn a_file_of_another_machine_or_configuration_is_refused() {
    let (_, file) = a_file();
    let more = Reserved::from([(0, BTreeMap::from([("memory".to_owned(), 2 * GIB)]))]);
    for mut other in [
        manager(&[8], NO_GATES),
        manager(&[4, 4], NO_GATES),
        MemoryManager::new(MemoryPolicy::Static, NO_GATES, &machine(&[4]), &more),
    ] {
        assert_eq!(other.restore(file.as_bytes(), PATH), Err(RestoreError::State(StateError::OtherMachine)));
    }
}

/// RES-34. With the gate on, a file of a version without pod-level entries is taken over; the reverse is refused, as upstream.
#[test]
fn a_file_of_the_older_format_is_taken_over_and_a_newer_one_is_not() {
    let (given, file) = a_file();
    let mut newer = manager(&[4], ALL_GATES);
    assert_eq!(newer.restore(file.as_bytes(), PATH), Ok(()));
    assert_eq!(newer.state(), given.state());
    let written = newer.to_file();
    assert_ne!(written, file);
    assert_eq!(manager(&[4], ALL_GATES).restore(written.as_bytes(), PATH), Ok(()));
    assert_eq!(error_of(NO_GATES, &written), of_file("checkpoint is corrupted"));
}

/// Go writes the numbers of nodes in the order of their texts, and hashes them in the order of their values.
#[test]
fn a_machine_of_many_nodes_is_written_as_upstream_does() {
    let mut many = manager(&[2; 12], NO_GATES);
    let file = many.to_file();
    let place = |node: u8| file.find(&format!("\"{node}\":{{\"numberOf")).expect("every node is written");
    assert!(place(1) < place(10) && place(10) < place(11) && place(11) < place(2), "{file}");
    assert_eq!(many.restore(file.as_bytes(), PATH), Ok(()));
}
