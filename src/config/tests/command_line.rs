//! The command line: pflag's habits, and what flags do to the configuration.

use super::super::flags::table::FLAGS;
use super::super::flags::values::Syntax;
use super::super::{GoDuration, Startup, Taint};
use super::{Folder, failure, run, start};
use std::collections::BTreeMap;

/// CFG-27.
#[test]
fn values_follow_an_equals_sign_or_come_next() {
    for line in [
        &["--max-pods=5", "-v", "3"][..],
        &["--max-pods", "5", "-v=3"],
        &["--max_pods=5", "-v3"],
        &["--max-pods=9", "--v=3", "--max-pods", "0x5"],
        &["--max-pods", "0b101", "--v", "3"],
    ] {
        let config = run(line).config;
        assert_eq!((config.max_pods, config.logging.verbosity), (5, 3), "{line:?}");
    }
}

#[test]
fn a_bool_needs_an_equals_sign_for_its_value() {
    assert!(!run(&["--fail-swap-on=false"]).config.fail_swap_on);
    assert!(!run(&["--fail-swap-on=F"]).config.fail_swap_on);
    assert!(run(&["--protect-kernel-defaults"]).config.protect_kernel_defaults);
    assert_eq!(failure(&["--fail-swap-on", "false"]), "unknown command false");
}

/// CFG-18.
#[test]
fn what_cannot_be_read_is_told_in_the_words_of_pflag() {
    for (line, error) in [
        (&["--foo"][..], "unknown flag: --foo"),
        (&["--foo_bar=1"], "unknown flag: --foo_bar"),
        (&["--kube-config=x"], "unknown flag: --kube-config; did you mean --kubeconfig?"),
        (&["-x"], "unknown shorthand flag: 'x' in -x"),
        (&["--max-pods"], "flag needs an argument: --max-pods"),
        (&["-v"], "flag needs an argument: 'v' in -v"),
        (&["--=x"], "bad flag syntax: --=x"),
        (
            &["--max-pods=x"],
            "invalid argument \"x\" for \"--max-pods\" flag: strconv.ParseInt: parsing \"x\": invalid syntax",
        ),
        (
            &["--max-pods=4294967296"],
            "invalid argument \"4294967296\" for \"--max-pods\" flag: strconv.ParseInt: parsing \"4294967296\": value \
             out of range",
        ),
        (
            &["--fail-swap-on=maybe"],
            "invalid argument \"maybe\" for \"--fail-swap-on\" flag: strconv.ParseBool: parsing \"maybe\": invalid syntax",
        ),
        (&["-v", "x"], "invalid argument \"x\" for \"-v, --v\" flag: strconv.ParseUint: parsing \"x\": invalid syntax"),
        (
            &["--sync-frequency=5"],
            "invalid argument \"5\" for \"--sync-frequency\" flag: time: missing unit in duration \"5\"",
        ),
        (
            &["--feature-gates", "X"],
            "invalid argument \"X\" for \"--feature-gates\" flag: malformed pair, expect string=bool",
        ),
        (
            &["--feature-gates", "X=x"],
            "invalid argument \"X=x\" for \"--feature-gates\" flag: invalid value of X: x, err: strconv.ParseBool: \
             parsing \"x\": invalid syntax",
        ),
        (
            &["--eviction-hard", "memory.available=1"],
            "invalid argument \"memory.available=1\" for \"--eviction-hard\" flag: malformed pair, expect string<string",
        ),
        (
            &["--manifest-url-header", "hunter2"],
            "invalid argument \"<masked>\" for \"--manifest-url-header\" flag: malformed pair, expect string:string",
        ),
        (&["--address=x"], "invalid argument \"x\" for \"--address\" flag: \"x\" is not a valid IP address"),
        (
            &["--reserved-memory=0"],
            "invalid argument \"0\" for \"--reserved-memory\" flag: the reserved memory has incorrect format, expected \
             numaNodeID:type=quantity[,type=quantity...], got 0",
        ),
        (
            &["--reserved-memory=0:cpu=1"],
            "invalid argument \"0:cpu=1\" for \"--reserved-memory\" flag: memory type conversion error, unknown type: \
             \"cpu\"",
        ),
        (
            &["--register-with-taints=a"],
            "invalid argument \"a\" for \"--register-with-taints\" flag: invalid taint spec: a",
        ),
        (
            &["--register-with-taints=a:No"],
            "invalid argument \"a:No\" for \"--register-with-taints\" flag: invalid taint effect: No, unsupported taint \
             effect",
        ),
        (&["--vmodule=a"], "invalid argument \"a\" for \"--vmodule\" flag: \"a\" does not have the pattern=N format"),
        (
            &["--cluster-dns=a\"b"],
            "invalid argument \"a\\\"b\" for \"--cluster-dns\" flag: parse error on line 1, column 2: bare \" in \
             non-quoted-field",
        ),
        (
            &["--version=v1.2.3"],
            "invalid argument \"v1.2.3\" for \"--version\" flag: version \"v1.2.3\" must match major/minor/patch of \
             default version \"v1.36.0\"",
        ),
    ] {
        assert_eq!(failure(line), format!("failed to parse kubelet flag: {error}"), "{line:?}");
    }
}

/// CFG-19.
#[test]
fn positional_arguments_are_refused() {
    assert_eq!(failure(&["run"]), "unknown command run");
    assert_eq!(failure(&["--v=2", "--", "--max-pods=1"]), "unknown command --max-pods=1");
    assert_eq!(failure(&["-"]), "unknown command -");
}

#[test]
fn repeated_flags_add_up_after_replacing_the_default() {
    let config = run(&[
        "--cluster-dns=10.0.0.1,10.0.0.2",
        "--cluster-dns=10.0.0.3",
        "--enforce-node-allocatable=none",
        "--eviction-hard=memory.available<100Mi,nodefs.available<10%",
        "--eviction-hard=nodefs.available<5%",
        "--kube-reserved=cpu=1",
        "--kube-reserved=memory=1Gi",
        "--manifest-url-header=a:1,b:2",
        "--manifest-url-header=a:3",
        "--cpu-manager-policy-options=full-pcpus-only=true",
        "--cpu-manager-policy-options=strict-cpu-reservation=false",
        "--cpu-manager-policy=static",
        "--feature-gates=MemoryQoS=true,EventedPLEG=true",
        "--feature-gates=EventedPLEG=false",
        "--reserved-memory=0:memory=1Gi,hugepages-1M=2Gi;1:memory=2Gi",
        "--reserved-memory=2:memory=3Gi",
    ])
    .config;
    let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    assert_eq!(config.cluster_dns, ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    assert_eq!(config.enforce_node_allocatable, ["none"]);
    assert_eq!(config.eviction_hard, map(&[("memory.available", "100Mi"), ("nodefs.available", "5%")]));
    assert_eq!(config.kube_reserved, map(&[("cpu", "1"), ("memory", "1Gi")]));
    assert_eq!(config.static_pod_url_header.0["a"], ["1", "3"]);
    let options = map(&[("full-pcpus-only", "true"), ("strict-cpu-reservation", "false")]);
    assert_eq!(config.cpu_manager_policy_options, options);
    assert_eq!(config.feature_gates, BTreeMap::from([("EventedPLEG".into(), false), ("MemoryQoS".into(), true)]));
    assert_eq!(config.reserved_memory.iter().map(|memory| memory.numa_node).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(config.reserved_memory[0].limits, map(&[("memory", "1Gi"), ("hugepages-1M", "2Gi")]));
}

/// RES-27.
#[test]
fn res_27_an_option_of_the_cpu_manager_is_not_split_at_commas() {
    let error = failure(&[
        "--cpu-manager-policy=static",
        "--kube-reserved=cpu=1",
        "--cpu-manager-policy-options=strict-cpu-reservation=true,x",
    ]);
    let text = "new static policy error: bad value for option \"strict-cpu-reservation\": strconv.ParseBool: parsing \
                \"true,x\": invalid syntax";
    assert!(error.contains(text), "{error}");
}

#[test]
fn taints_and_labels_are_read() {
    let invocation =
        run(&["--register-with-taints=a=b:NoSchedule,c:NoExecute", "--node-labels=a=b,c", "--node-labels=a=d"]);
    let taint = |key: &str, value: &str, effect: &str| Taint {
        key: key.into(),
        value: value.into(),
        effect: effect.into(),
        time_added: None,
    };
    assert_eq!(invocation.config.register_with_taints, [taint("a", "b", "NoSchedule"), taint("c", "", "NoExecute")]);
    assert_eq!(invocation.flags.node_labels, BTreeMap::from([("a".into(), "d".into()), ("c".into(), String::new())]));
}

/// CFG-06, CFG-07.
#[test]
fn flags_win_over_files_and_gates_merge() {
    let folder = Folder::new();
    let path = folder.config(
        "config.yaml",
        "maxPods: 60\nclusterDNS: [10.0.0.1]\nfeatureGates: {MemoryQoS: true, EventedPLEG: true}\n\
         logging: {vmodule: [{filePattern: a, verbosity: 1}]}\nhealthzBindAddress: 0.0.0.0\n",
    );
    let invocation = run(&["--max-pods=50", "--config", &path, "--feature-gates=EventedPLEG=false", "--vmodule=b=2"]);
    assert_eq!(invocation.config.max_pods, 50);
    assert_eq!(invocation.config.cluster_dns, ["10.0.0.1"], "a flag's default does not count");
    let gates = BTreeMap::from([("EventedPLEG".into(), false), ("MemoryQoS".into(), true)]);
    assert_eq!(invocation.config.feature_gates, gates);
    assert!(invocation.gates.enabled("MemoryQoS") && !invocation.gates.enabled("EventedPLEG"));
    let patterns = invocation.config.logging.vmodule.iter().map(|item| item.file_pattern.as_str());
    assert_eq!(patterns.collect::<Vec<_>>(), ["a", "b"], "these add up");
    let config = run(&["--config", &path, "--cluster-dns=", "--healthz-bind-address="]).config;
    assert!(config.cluster_dns.is_empty(), "an empty list is a list");
    assert_eq!(config.healthz_bind_address, "0.0.0.0", "an empty address is no change");
}

#[test]
fn flags_of_the_node_have_upstreams_defaults() {
    let flags = run(&[]).flags;
    assert_eq!((flags.root_dir.as_str(), flags.cert_dir.as_str()), ("/var/lib/kubelet", "/var/lib/kubelet/pki"));
    assert_eq!((flags.maximum_dead_containers, flags.maximum_dead_containers_per_container), (-1, 1));
    assert_eq!(flags.minimum_container_ttl, GoDuration::ZERO);
    assert_eq!(flags.checkpoints_max, 64, "our own: an archive is as large as the memory of a container");
    assert!(flags.kubeconfig.is_empty() && flags.node_labels.is_empty() && !flags.exit_on_lock_contention);
    let flags =
        run(&["--root-dir=/r", "--kubeconfig=/k", "--hostname-override=h", "--node-ip=::1", "--lock-file=/l"]).flags;
    let texts = [flags.root_dir, flags.kubeconfig, flags.hostname_override, flags.node_ip, flags.lock_file];
    assert_eq!(texts, ["/r", "/k", "h", "::1", "/l"]);
}

/// CFG-26.
#[test]
fn a_deprecated_flag_says_so_and_works() {
    let invocation =
        run(&["--max_pods=5", "--v=1", "--provider-id=p", "--containerd=/x", "--maximum-dead-containers=3"]);
    assert_eq!(
        invocation.notices,
        [
            "Flag --max-pods has been deprecated, This parameter should be set via the config file specified by the \
             Kubelet's --config flag. See https://kubernetes.io/docs/tasks/administer-cluster/kubelet-config-file/ for \
             more information.",
            "Flag --containerd has been deprecated, This is a cadvisor flag that was mistakenly registered with the \
             Kubelet. Due to legacy concerns, it will follow the standard CLI deprecation timeline before being removed.",
            "Flag --maximum-dead-containers has been deprecated, Use --eviction-hard or --eviction-soft instead. Will be \
             removed in a future version.",
        ]
    );
    assert_eq!((invocation.config.max_pods, invocation.flags.maximum_dead_containers), (5, 3));
    let error = start(&["--max-pods=5", "--foo"]).map(|_| ()).expect_err("--foo is unknown");
    assert_eq!(error.notices.len(), 1, "notices before the error are not lost");
}

/// CFG-24.
#[test]
fn version_and_help_print_and_exit() {
    let printed = |line: &[&str]| match start(line) {
        Ok(Startup::PrintAndExit { stdout, .. }) => stdout,
        other => panic!("{line:?} should print: {other:?}"),
    };
    assert_eq!(printed(&["--version"]), "Kubernetes v1.36.0\n");
    assert_eq!(printed(&["--max-pods=-1", "--version=true"]), "Kubernetes v1.36.0\n");
    assert!(printed(&["--version=raw"]).starts_with("version.Info{Major:\"1\", Minor:\"36\", "));
    // Beside it, for people: kubeadm takes no second line of standard output.
    for line in ["--version", "--version=raw"] {
        let Ok(Startup::PrintAndExit { stderr, .. }) = start(&[line]) else { panic!("{line} prints") };
        let own = env!("CARGO_PKG_VERSION");
        assert!(stderr.starts_with(&format!("podwright {own} (commit ")) && stderr.ends_with(")\n"), "{stderr}");
    }
    run(&["--version=false"]);
    run(&["--version=v1.36.0-custom"]);
    let usage = printed(&["-h", "--version"]);
    assert_eq!(usage, printed(&["--help"]));
    for flag in FLAGS {
        assert!(usage.contains(&format!("--{}", flag.name)), "{} is not in the usage", flag.name);
    }
    assert!(usage.contains("\n  podwright [flags]\n") && usage.contains("\n  explain "), "{usage}");
    assert_eq!(failure(&["--help", "run"]), "unknown command run");
    assert_eq!(failure(&["explian"]), "unknown command explian; did you mean \"explain\"?");
}

#[test]
fn every_flag_can_be_given() {
    for flag in FLAGS.iter().filter(|flag| !["config", "config-dir", "help", "version"].contains(&flag.name)) {
        let value = match flag.syntax {
            Syntax::Bool => "true",
            Syntax::Integer(_) | Syntax::Verbosity | Syntax::Quantity => "7",
            Syntax::Duration => "30s",
            Syntax::Map('<') => "memory.available<1Gi",
            Syntax::Map(_) | Syntax::SinglePair | Syntax::Labels => "memory=1",
            Syntax::BoolMap => "MemoryQoS=true",
            Syntax::HeaderMap => "a:b",
            Syntax::Address => "::1",
            Syntax::ReservedMemory => "0:memory=1Gi",
            Syntax::Taints => "a:NoSchedule",
            Syntax::VModule => "a=1",
            Syntax::Text | Syntax::TextList | Syntax::Version => "x",
        };
        let parsed = super::super::flags::parse::parse(&super::args(&[&format!("--{}={value}", flag.name)]));
        let parsed = parsed.unwrap_or_else(|error| panic!("--{}: {error:?}", flag.name));
        assert!(parsed.values.contains_key(flag.name), "--{}", flag.name);
        super::super::flags::apply(&super::decoded(""), &parsed);
    }
}
