//! Checks that upstream makes only while it starts to run, after validation. The agent refuses the first that fails.
//!
//! Pure; keeps nothing. Texts are those of `cmd/kubelet/app/server.go` and `pkg/kubelet/kubelet.go`.

use super::duration::GoDuration;
use super::flags::Flags;
use super::quantity_text::QuantityText;
use super::types::Config;
use crate::logic::resources::memory_manager::MemoryPolicy;
use std::collections::BTreeMap;

/// Cipher suites by Go's names that are sound; the last two are old names of others.
pub const CIPHER_SUITES: &[&str] = &[
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
];

/// Cipher suites by Go's names that are understood with a warning.
pub const INSECURE_CIPHER_SUITES: &[&str] = &[
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

/// The first thing that keeps this configuration from running, as the whole error text.
pub fn check(flags: &Flags, config: &Config) -> Result<(), String> {
    problems(flags, config).into_iter().next().map_or(Ok(()), Err)
}

/// Everything that keeps this configuration from running, in upstream's order, each as the whole error text.
pub fn problems(flags: &Flags, config: &Config) -> Vec<String> {
    let parts = [
        ("failed to construct kubelet dependencies", vec![check_ciphers(config), check_tls_version(config)]),
        ("failed to run Kubelet", running(flags, config)),
        ("failed to run Kubelet: failed to create kubelet", node(flags, config)),
    ];
    let errors = |(prefix, checks): (&'static str, Vec<Result<(), String>>)| {
        checks.into_iter().filter_map(Result::err).map(move |error| format!("{prefix}: {error}"))
    };
    parts.into_iter().flat_map(errors).collect()
}

fn running(flags: &Flags, config: &Config) -> Vec<Result<(), String>> {
    let burst = flags.cpu_burst_max_percent;
    vec![
        refuse_if(flags.exit_on_lock_contention && flags.lock_file.is_empty(), || {
            "cannot exit on lock file contention: no lock file specified".into()
        }),
        refuse_if(!flags.local_objects.is_empty() && !flags.kubeconfig.is_empty(), || {
            "--local-objects is for a node without an API server, and cannot be used with --kubeconfig: there, objects \
             come from the API server, and static pods may not reference them"
                .into()
        }),
        check_authorization(&config.authorization.mode),
        check_reserved("kube-reserved", &config.kube_reserved),
        check_reserved("system-reserved", &config.system_reserved),
        refuse_if(!(0..=100).contains(&burst), || {
            format!("--cpu-burst-max-percent {burst} must be between 0 and 100, inclusive")
        }),
        check_qos_reserved(&config.qos_reserved)
            .map_err(|error| format!("--qos-reserved value failed to parse: {error}")),
        refuse_if(!["none", "static"].contains(&config.cpu_manager_policy.as_str()), || {
            format!("unknown policy: {:?}", config.cpu_manager_policy)
        }),
        config.memory_manager_policy.parse::<MemoryPolicy>().map(|_| ()).map_err(|error| error.to_string()),
    ]
}

fn node(flags: &Flags, config: &Config) -> Vec<Result<(), String>> {
    let (plugins, wait) = (&flags.device_plugin_dir, flags.device_plugin_wait);
    let provider = &flags.cloud_provider;
    let strategy = &config.config_map_and_secret_change_detection_strategy;
    let size = &config.container_log_max_size;
    vec![
        refuse_if(flags.root_dir.is_empty(), || "invalid root directory \"\"".into()),
        refuse_if(!plugins.starts_with('/'), || format!("bad socketPath, must be an absolute path: {plugins}")),
        refuse_if(wait < GoDuration::ZERO, || format!("invalid --device-plugin-wait {wait}: it is negative")),
        refuse_if(config.sync_frequency <= GoDuration::ZERO, || {
            format!("invalid sync frequency {}", config.sync_frequency.0)
        }),
        refuse_if(!["", "external"].contains(&provider.as_str()), || {
            format!(
                "cloud provider {provider:?} was specified, but built-in cloud providers are disabled. Please set \
                 --cloud-provider=external and migrate to an external cloud provider"
            )
        }),
        refuse_if(!["Get", "Cache", "Watch"].contains(&strategy.as_str()), || {
            format!("unknown configmap and secret manager mode: {strategy}")
        }),
        QuantityText::parse(size).map(|_| ()).map_err(|error| {
            format!(
                "failed to initialize container log manager: failed to parse container log max size {size:?}: {error}"
            )
        }),
    ]
}

fn refuse_if(broken: bool, text: impl FnOnce() -> String) -> Result<(), String> {
    if broken { Err(text()) } else { Ok(()) }
}

fn check_authorization(mode: &str) -> Result<(), String> {
    match mode {
        "AlwaysAllow" | "Webhook" => Ok(()),
        "" => Err("no authorization mode specified".into()),
        mode => Err(format!("unknown authorization mode {mode}")),
    }
}

fn check_qos_reserved(reserved: &BTreeMap<String, String>) -> Result<(), String> {
    for (resource, share) in reserved {
        if resource != "memory" {
            return Err(format!("cannot reserve {resource:?} resource"));
        }
        let failed =
            |error: String| Err(format!("failed to parse percentage {share:?} for {resource:?} resource: {error}"));
        let Some(number) = share.strip_suffix('%') else {
            return failed(format!("percentage expected, got '{share}'"));
        };
        match number.parse::<i64>() {
            Err(_) => return failed(format!("invalid number in percentage '{share}'")),
            Ok(0..=100) => {}
            Ok(_) => return failed("percentage must be between 0 and 100".into()),
        }
    }
    Ok(())
}

fn check_ciphers(config: &Config) -> Result<(), String> {
    let known = |cipher: &str| CIPHER_SUITES.contains(&cipher) || INSECURE_CIPHER_SUITES.contains(&cipher);
    match config.tls_cipher_suites.iter().find(|cipher| !known(cipher)) {
        Some(cipher) => Err(format!("Cipher suite {cipher} not supported or doesn't exist")),
        None => Ok(()),
    }
}

fn check_tls_version(config: &Config) -> Result<(), String> {
    let version = config.tls_min_version.as_str();
    let known = ["", "VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"].contains(&version);
    refuse_if(!known, || format!("unknown tls version {version:?}"))
}

fn check_reserved(flag: &str, reserved: &BTreeMap<String, String>) -> Result<(), String> {
    let failed = |error: String| format!("--{flag} value failed to parse: {error}");
    for (resource, amount) in reserved {
        if !["cpu", "memory", "ephemeral-storage", "pid"].contains(&resource.as_str()) {
            return Err(failed(format!("cannot reserve {resource:?} resource")));
        }
        let parsed = QuantityText::parse(amount).map_err(|error| {
            failed(format!("failed to parse quantity {amount:?} for {resource:?} resource: {error}"))
        })?;
        if parsed.is_negative {
            return Err(failed(format!("resource quantity for {resource:?} cannot be negative: {amount}")));
        }
    }
    Ok(())
}

/// The settings that work but should be mentioned: for the log, once.
pub fn warnings(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    let (own, reserved) = (&config.kubelet_cgroups, &config.kube_reserved_cgroup);
    if !own.is_empty() && !reserved.is_empty() && !own.starts_with(reserved.as_str()) {
        warnings.push("unsupported configuration:KubeletCgroups is not within KubeReservedCgroup".into());
    }
    // Upstream takes every other word for cgroupfs without a word of its own.
    if !["cgroupfs", "systemd"].contains(&config.cgroup_driver.as_str()) {
        let driver = &config.cgroup_driver;
        warnings.push(format!(
            "cgroupDriver (--cgroup-driver) {driver:?} is neither cgroupfs nor systemd, and counts as cgroupfs"
        ));
    }
    for cipher in config.tls_cipher_suites.iter().filter(|name| INSECURE_CIPHER_SUITES.contains(&name.as_str())) {
        warnings.push(format!("Use of insecure cipher detected. cipher={cipher:?}"));
    }
    if config.tls_min_version == "VersionTLS13" && !config.tls_cipher_suites.is_empty() {
        warnings.push("Warning: TLS 1.3 cipher suites are not configurable, ignoring --tls-cipher-suites".into());
    }
    warnings
}
