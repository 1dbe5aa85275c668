//! Tables of faults with their reports, and that the review and the start agree.

use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;

use super::super::tests::properties::{object_of, with_type};
use super::super::tests::{Folder, args, start};
use super::*;
use crate::config::fields::CONFIGURATION;

const HOST: Host = Host { cgroup_v1: false };

/// The report's lines, without the folder's path, and without files of the machine that are not there.
fn lines(folder: &Folder, line: &[&str]) -> Vec<String> {
    let report = review(&args(line), HOST);
    let errors = report.errors.iter().map(|finding| format!("error: {finding}"));
    let warnings = report.warnings.iter().map(|finding| format!("warning: {finding}"));
    let path = format!("{}/", folder.path("").display().to_string().trim_end_matches('/'));
    errors.chain(warnings).map(|line| line.replace(&path, "")).collect()
}

fn of_file(fields: &str) -> Vec<String> {
    let folder = Folder::new();
    let file = folder.config("main", fields);
    lines(&folder, &["--config", &file])
}

#[test]
fn each_fault_of_a_file_has_its_line() {
    // Two lines for the version and kind come first.
    let cases: &[(&str, &[&str])] = &[
        ("maxPods: 5\n", &[]),
        (
            "maxPods: five\nport: true\nevictionHard: {memory.available: 1}\n",
            &[
                "error: main:5: json: cannot unmarshal number into Go struct field KubeletConfiguration.evictionHard of type \
                 string",
                "error: main:3: json: cannot unmarshal string into Go struct field KubeletConfiguration.maxPods of type int32",
                "error: main:4: json: cannot unmarshal bool into Go struct field KubeletConfiguration.port of type int32",
            ],
        ),
        (
            "maxPod: 5\nauthentication:\n  x509:\n    caFile: x\nport: 1\nport: 2\n",
            &[
                "warning: main:8: key \"port\" already set in map, the later one counts",
                "warning: main:6: unknown field \"authentication.x509.caFile\"",
                "warning: main:3: unknown field \"maxPod\"",
            ],
        ),
        ("maxPods: [\n", &["error: main:3: yaml: line 3: "]),
        (
            "imageGCHighThresholdPercent: 50\nimageGCLowThresholdPercent: 60\nmaxPods: -1\n",
            &[
                "error: main:3, main:4: invalid configuration: imageGCLowThresholdPercent (--image-gc-low-threshold) 60 must be \
                 less than imageGCHighThresholdPercent (--image-gc-high-threshold) 50",
                "error: main:5: invalid configuration: maxPods (--max-pods) -1 must not be a negative number",
            ],
        ),
        (
            "featureGates:\n  NodeSwap: false\n  Foo: true\n  AllowDNSOnlyNodeCSR: true\n",
            &[
                "error: main:5: unrecognized feature gate: Foo",
                "error: main:4: cannot set feature gate NodeSwap to false, feature is locked to true",
                "warning: main:6: Setting deprecated feature gate AllowDNSOnlyNodeCSR=true. It will be removed in a future release.",
                "warning: main:4: Setting GA feature gate NodeSwap=false. It will be removed in a future release.",
            ],
        ),
        (
            "evictionHard:\n  memory.available: 10x\n  nodefs.available: 5%\ntlsMinVersion: none\ncontentType: a/b\n",
            &[
                "error: main:4: ",
                "error: main:6: failed to construct kubelet dependencies: unknown tls version \"none\"",
                "warning: main:7: contentType is set, but the agent does not act on it",
            ],
        ),
        (
            "cgroupDriver: sytemd\nfeatureGates: {ClientsAllowCBOR: true}\nlogging: {flushFrequency: 1s}\n",
            &[
                "warning: main:3: cgroupDriver (--cgroup-driver) \"sytemd\" is neither cgroupfs nor systemd, and counts as cgroupfs",
                "warning: main:5: logging.flushFrequency is set, but the agent does not act on it",
                "warning: main:4: feature gate ClientsAllowCBOR=true is set, but the agent behaves as with ClientsAllowCBOR=false",
            ],
        ),
        (
            "logging:\n  vmodule:\n  - {filePattern: a, verbosity: 1}\n  - {filePattern: \"\", verbosity: 1}\n",
            &["error: main:6: logging.vmodule[1]: Required value: File pattern must not be empty"],
        ),
    ];
    for (fields, expected) in cases {
        let found = of_file(fields);
        assert_eq!(found.len(), expected.len(), "{fields}: {found:#?}");
        for (line, expected) in found.iter().zip(*expected) {
            assert!(line.starts_with(expected), "{fields}: {line:?} is not {expected:?}");
        }
    }
}

#[test]
fn a_file_that_is_no_configuration_is_named() {
    for (text, expected) in [
        ("", "error: main: kubelet config file \"main\" was empty"),
        ("apiVersion: v1\nkind: Pod\n", "error: main:2: no kind \"Pod\" is registered for version \"v1\" in scheme "),
        ("- 1\n", "error: main: couldn't get version/kind; "),
    ] {
        let folder = Folder::new();
        let file = folder.write("main", text);
        let found = lines(&folder, &["--config", &file, "--port=-1", "--v=1"]);
        let errors: Vec<&String> = found.iter().filter(|line| line.starts_with("error")).collect();
        assert!(errors.len() == 1 && errors[0].starts_with(expected), "{text}: {found:#?}");
    }
}

#[test]
fn a_value_is_named_where_it_was_set_last() {
    let folder = Folder::new();
    let file = folder.config("main", "maxPods: -1\npodsPerCore: -1\nimageGCHighThresholdPercent: 101\n");
    folder.config("conf.d/10.conf", "maxPods: -2\nsyncFrequency: 1\nnoSuchField: 1\n");
    folder.config("conf.d/20.conf", "\n\nmaxPods: -3\nport: 1\nport: 2\n");
    folder.write("conf.d/notes.txt", "");
    let directory = folder.path("conf.d").display().to_string();
    let found = lines(&folder, &["--config", &file, "--config-dir", &directory, "--image-gc-high-threshold=102"]);
    let expected = [
        "error: conf.d/20.conf:7: key \"port\" already set in map",
        "error: conf.d/10.conf:4: json: cannot unmarshal number into Go struct field KubeletConfiguration.syncFrequency of type string",
        "error: --image-gc-high-threshold: invalid configuration: imageGCHighThresholdPercent (--image-gc-high-threshold) 102 must be between 0 and 100, inclusive",
        "error: conf.d/20.conf:5: invalid configuration: maxPods (--max-pods) -3 must not be a negative number",
        "error: main:4: invalid configuration: podsPerCore (--pods-per-core) -1 must not be a negative number",
        "warning: --image-gc-high-threshold: Flag --image-gc-high-threshold has been deprecated, ",
        "warning: conf.d/notes.txt: left out: its name does not end in .conf",
        "warning: conf.d/10.conf:5: unknown field \"noSuchField\", it is dropped",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (line, expected) in found.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line:?} is not {expected:?}");
    }
}

#[test]
fn every_fault_of_a_command_line_is_found() {
    let folder = Folder::new();
    let line = ["--prot", "1", "--max-pods=x", "--port", "0", "--node-labels=kubernetes.io/x=y", "--root-dir="];
    let found = lines(
        &folder,
        &[&line[..], &["--image-gc-exempt=*", "extra", "--lock-file=a", "--cloud-provider=aws"]].concat(),
    );
    let expected = [
        "error: --prot: unknown flag: --prot; did you mean --port?",
        "error: --max-pods: invalid argument \"x\" for \"--max-pods\" flag: ",
        "error: unknown command extra",
        "error: --node-labels: unknown 'kubernetes.io' or 'k8s.io' labels",
        "error: --image-gc-exempt: ",
        "error: --port: invalid configuration: port (--port) 0 must be between 1 and 65535, inclusive",
        "error: --root-dir: failed to run Kubelet: failed to create kubelet: invalid root directory \"\"",
        "error: --cloud-provider: failed to run Kubelet: failed to create kubelet: cloud provider \"aws\" was specified",
    ];
    let errors: Vec<&String> = found.iter().filter(|line| line.starts_with("error")).collect();
    assert_eq!(errors.len(), expected.len(), "{found:#?}");
    for (line, expected) in errors.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line:?} is not {expected:?}");
    }
}

#[test]
fn files_that_are_missing_or_open_to_others_are_named() {
    let folder = Folder::new();
    let key = folder.write("key", "secret");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o640)).expect("set");
    let pods = folder.path("pods").display().to_string();
    let file = folder.config("main", &format!("tlsPrivateKeyFile: {key}\nstaticPodPath: {pods}\nresolvConf: \"\"\n"));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).expect("set");
    let kubeconfig = folder.path("kubeconfig").display().to_string();
    let found = lines(&folder, &["--config", &file, "--kubeconfig", &kubeconfig]);
    assert_eq!(
        found,
        [
            "warning: --config: main: mode 0666: others than its owner may write it",
            "warning: --kubeconfig: kubeconfig: No such file or directory (os error 2)",
            "warning: main:4: pods: No such file or directory (os error 2)",
            "warning: main:3: key: mode 0640: others than its owner may read or write it",
        ]
    );
    let bootstrap = folder.write("bootstrap", "");
    std::fs::set_permissions(&bootstrap, std::fs::Permissions::from_mode(0o600)).expect("set");
    let found = lines(&folder, &["--config", &file, "--kubeconfig", &kubeconfig, "--bootstrap-kubeconfig", &bootstrap]);
    assert!(found.iter().all(|line| !line.contains("kubeconfig")), "the agent makes that file: {found:#?}");
}

#[test]
fn secrets_of_headers_are_not_in_a_report() {
    let folder = Folder::new();
    let fields = "staticPodURLHeader: {Authorization: [\"marked-secret\"]}\nmaxPods: -1\n";
    let file = folder.config("main", fields);
    for line in [&["--config", &file][..], &["--manifest-url-header=marked-secret"]] {
        let found = lines(&folder, line);
        assert!(!found.is_empty() && !found.concat().contains("marked-secret"), "{found:#?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The agent starts with what the review accepts, and with nothing else; it names the review's first fault.
    #[test]
    fn the_review_and_the_start_agree(
        main in object_of(CONFIGURATION),
        patch in object_of(CONFIGURATION),
        kept in proptest::collection::vec(0..200_usize, 0..4),
        flag in prop_oneof![Just("--v=2"), Just("--port=0"), Just("--max-pods=9"), Just("--nonsense"), Just("--port=x")],
    ) {
        // Whole documents of random values are always wrong, so only a few fields of each are kept.
        let few = |document: &serde_json::Value| {
            let fields = document.as_object().expect("an object").iter().enumerate();
            let some = fields.filter(|(index, _)| kept.contains(index)).map(|(_, (key, value))| (key.clone(), value.clone()));
            with_type(serde_json::Value::Object(some.collect())).to_string()
        };
        let folder = Folder::new();
        let file = folder.write("main", &few(&main));
        folder.write("conf.d/1.conf", &few(&patch));
        let directory = folder.path("conf.d").display().to_string();
        let line = ["--config", &file, "--config-dir", &directory, flag];
        let (started, report) = (start(&line), review(&args(&line), HOST));
        prop_assert_eq!(started.is_ok(), report.errors.is_empty(), "{:?}: {:?}", started, report);
        if let Err(refused) = started {
            let named = report.errors.iter().any(|finding| refused.message.contains(&finding.message));
            prop_assert!(named, "{:?}: {:?}", refused.message, report);
        }
    }
}
