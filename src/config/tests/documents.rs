//! Faults in documents, in upstream's words.

use super::super::{FeatureGates, decode};
use super::{Folder, document, failure, run};

fn main_error(text: &str) -> String {
    decode::main_file(text.as_bytes(), &FeatureGates::default()).map(|_| ()).expect_err(text)
}

#[test]
fn a_wrong_type_is_named_with_its_field() {
    for (fields, error) in [
        ("maxPods: many", "cannot unmarshal string into Go struct field KubeletConfiguration.maxPods of type int32"),
        ("maxPods: 1.5", "cannot unmarshal number 1.5 into Go struct field KubeletConfiguration.maxPods of type int32"),
        (
            "maxPods: 4294967296",
            "cannot unmarshal number 4294967296 into Go struct field KubeletConfiguration.maxPods of type int32",
        ),
        (
            "failSwapOn: 'no'",
            "cannot unmarshal string into Go struct field KubeletConfiguration.failSwapOn of type bool",
        ),
        ("address: 1", "cannot unmarshal number into Go struct field KubeletConfiguration.address of type string"),
        (
            "clusterDNS: x",
            "cannot unmarshal string into Go struct field KubeletConfiguration.clusterDNS of type []string",
        ),
        (
            "clusterDNS: [1]",
            "cannot unmarshal number into Go struct field KubeletConfiguration.clusterDNS of type string",
        ),
        (
            "evictionHard: {memory.available: 100}",
            "cannot unmarshal number into Go struct field KubeletConfiguration.evictionHard of type string",
        ),
        (
            "syncFrequency: 5",
            "cannot unmarshal number into Go struct field KubeletConfiguration.syncFrequency of type string",
        ),
        (
            "authentication: {anonymous: {enabled: 1}}",
            "cannot unmarshal number into Go struct field KubeletAnonymousAuthentication.authentication.anonymous.enabled \
             of type bool",
        ),
        (
            "authentication: x",
            "cannot unmarshal string into Go struct field KubeletConfiguration.authentication of type \
             v1beta1.KubeletAuthentication",
        ),
        (
            "registerWithTaints: [x]",
            "cannot unmarshal string into Go struct field KubeletConfiguration.registerWithTaints of type v1.Taint",
        ),
        (
            "tlsCurvePreferences: ['a']",
            "cannot unmarshal string into Go struct field KubeletConfiguration.tlsCurvePreferences of type int32",
        ),
    ] {
        assert_eq!(main_error(&document(fields)), format!("failed to decode: json: {error}"), "{fields}");
    }
}

#[test]
fn a_wrong_duration_or_quantity_is_named() {
    for (fields, error) in [
        ("syncFrequency: soon", "time: invalid duration \"soon\""),
        ("syncFrequency: '5'", "time: missing unit in duration \"5\""),
        (
            "reservedMemory: [{numaNode: 0, limits: {memory: lots}}]",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ] {
        assert_eq!(main_error(&document(fields)), format!("failed to decode: {error}"), "{fields}");
    }
}

/// CFG-04.
#[test]
fn kind_and_version_are_needed() {
    for (text, error) in [
        ("maxPods: 5", "Object 'Kind' is missing in 'maxPods: 5'"),
        ("kind: KubeletConfiguration", "Object 'apiVersion' is missing in 'kind: KubeletConfiguration'"),
        (
            "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta2",
            "no kind \"KubeletConfiguration\" is registered for version \"kubelet.config.k8s.io/v1beta2\" in scheme \
             \"k8s.io/kubernetes/pkg/kubelet/apis/config/scheme/scheme.go:33\"",
        ),
        ("kind: Pod\napiVersion: v1", "no kind \"Pod\" is registered for version \"v1\" in scheme"),
        (
            "- a",
            "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct",
        ),
        ("a: [", "error converting YAML to JSON: yaml: line "),
    ] {
        let found = main_error(text);
        assert!(found.starts_with(&format!("failed to decode: {error}")), "{text}: {found}");
    }
}

#[test]
fn a_document_with_headers_is_not_shown() {
    let error = main_error("staticPodURLHeader: {Authorization: [hunter2]}");
    assert_eq!(error, "failed to decode: Object 'Kind' is missing in '<masked>'");
}

/// CFG-05.
#[test]
fn unknown_fields_and_repeated_keys_only_warn() {
    let folder = Folder::new();
    let fields =
        "maxPods: 5\nfoo: 1\nauthentication: {bar: 2}\nregisterWithTaints: [{key: a, effect: NoSchedule, x: 1}]\n";
    let path = folder.config("config.yaml", &format!("{fields}maxPods: 6\n"));
    let invocation = run(&["--config", &path]);
    assert_eq!(invocation.config.max_pods, 6);
    let warning = "Using lenient decoding as strict decoding failed err=\"strict decoding error: yaml: unmarshal \
                   errors:\n  line 7: key \"maxPods\" already set in map, unknown field \"authentication.bar\", unknown \
                   field \"foo\", unknown field \"registerWithTaints[0].x\"\"";
    assert_eq!(invocation.warnings, [warning]);
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let folder = Folder::new();
    let empty = folder.write("empty.yaml", "");
    let missing = folder.path("missing.yaml").to_string_lossy().into_owned();
    let here = folder.path("").to_string_lossy().trim_end_matches('/').to_owned();
    let prefix = |path: &str| {
        format!(
            "failed to load kubelet config file, path: {path}, error: failed to load Kubelet config file {path}, error "
        )
    };
    for (path, error) in [
        (&empty, format!("kubelet config file \"{empty}\" was empty")),
        (
            &missing,
            format!(
                "failed to read kubelet config file \"{missing}\", error: open {missing}: no such file or directory"
            ),
        ),
        (&here, format!("failed to read kubelet config file \"{here}\", error: read {here}: is a directory")),
    ] {
        assert_eq!(failure(&["--config", path]), format!("{}{error}", prefix(path)));
    }
}

/// CFG-14.
#[test]
fn relative_paths_of_the_main_file_start_at_its_folder() {
    let folder = Folder::new();
    let path = folder.config(
        "config.yaml",
        "staticPodPath: manifests\nauthentication: {x509: {clientCAFile: ../ca.crt}}\ntlsCertFile: ./a/../c.crt\n\
         tlsPrivateKeyFile: /k.key\nresolvConf: ''\nvolumePluginDir: plugins/\npodLogsDir: logs\n",
    );
    let config = run(&["--config", &path]).config;
    let below = |name: &str| folder.path(name).to_string_lossy().into_owned();
    assert_eq!(config.static_pod_path, below("manifests"));
    let parent = folder.path("").parent().expect("it has one").join("ca.crt").to_string_lossy().into_owned();
    assert_eq!(config.authentication.x509.client_ca_file, parent);
    assert_eq!(config.tls_cert_file, below("c.crt"));
    assert_eq!(config.tls_private_key_file, "/k.key");
    assert_eq!(config.resolv_conf, "");
    assert_eq!(config.volume_plugin_dir, below("plugins"));
    assert_eq!(config.pod_logs_dir, below("logs"));
}

/// CFG-04.
#[test]
fn wrong_drop_ins_are_fatal_with_their_path() {
    let kind = "kind: KubeletConfiguration\n";
    let version = "apiVersion: kubelet.config.k8s.io/v1beta1\n";
    for (text, error) in [
        (String::new(), "was empty"),
        (version.to_owned(), "Object 'Kind' is missing in 'apiVersion: kubelet.config.k8s.io/v1beta1\n'"),
        (kind.to_owned(), "Object 'apiVersion' is missing in 'kind: KubeletConfiguration\n'"),
        (format!("{version}kind: Pod\n"), "unknown apiVersion/kind: kubelet.config.k8s.io/v1beta1, Kind=Pod"),
        (
            format!("{version}{kind}maxPods: 1\nmaxPods: 2\n"),
            "strict decoding error: yaml: unmarshal errors:\n  line 4: key \"maxPods\" already set in map",
        ),
    ] {
        let folder = Folder::new();
        let file = folder.write("x.conf", &text);
        let directory = folder.path("").to_string_lossy().into_owned();
        let found = failure(&["--config-dir", &directory]);
        let prefix = format!(
            "failed to merge kubelet configs: failed to walk through kubelet dropin directory \"{directory}\": failed to \
             load kubelet dropin file, path: {file}, "
        );
        assert!(found.starts_with(&prefix) && found.contains(error), "{text:?}: {found}");
    }
}

#[test]
fn a_wrong_type_in_a_drop_in_is_told_after_the_merge() {
    let folder = Folder::new();
    folder.config("x.conf", "maxPods: many\n");
    let directory = folder.path("").to_string_lossy().into_owned();
    assert_eq!(
        failure(&["--config-dir", &directory]),
        "failed to merge kubelet configs: failed to unmarshal merged JSON into kubelet configuration: json: cannot \
         unmarshal string into Go struct field KubeletConfiguration.maxPods of type int32"
    );
}

#[test]
fn a_missing_drop_in_directory_is_fatal() {
    assert_eq!(
        failure(&["--config-dir", "/no/such/folder"]),
        "failed to merge kubelet configs: failed to walk through kubelet dropin directory \"/no/such/folder\": lstat \
         /no/such/folder: no such file or directory"
    );
}

/// CFG-02.
#[test]
fn drop_ins_alone_merge_on_the_old_defaults() {
    let folder = Folder::new();
    folder.config("00-k3s.conf", "authentication: {anonymous: {enabled: false}}\n");
    let directory = folder.path("").to_string_lossy().into_owned();
    let config = run(&["--config-dir", &directory]).config;
    assert!(!config.authentication.anonymous.enabled);
    assert_eq!((config.authorization.mode.as_str(), config.read_only_port), ("AlwaysAllow", 10_255));
    assert!(config.eviction_hard.is_empty());
}
