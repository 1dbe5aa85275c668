//! A program that gives credentials (`client.authentication.k8s.io`): runs it, reads what it prints. Owned by the
//! credentials; keeps how to run it. Its output is secret and appears in no text.

use std::process::Stdio;
use std::time::Duration;

use http::header::HeaderValue;
use kube::config::{Cluster, ExecAuthCluster, ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use super::file::{data, text};
use crate::logic::model::time::Moment;
use crate::platform::cluster::key_pair::Pair;
use crate::platform::files::small_file::read;
use crate::platform::host::program::Program;

/// Versions of the protocol that are spoken.
const VERSIONS: [&str; 2] = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];
/// The extension of a cluster that its programs are told, as their configuration.
const CONFIG_EXTENSION: &str = "client.authentication.k8s.io/exec";
/// How long the program may take. Upstream waits for ever, and with it every call.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The most bytes that it may print.
const OUTPUT_BYTES_MAX: u64 = 1024 * 1024;

/// How to run the program.
#[derive(Clone)]
pub struct ExecPlugin {
    exec: ExecConfig,
    /// Its input, as JSON.
    info: Value,
}

/// The output of a program.
#[derive(Clone, Default)]
pub(in crate::platform::cluster::kube_api) struct ExecCredential {
    pub token: Option<String>,
    pub certificate: Option<Pair>,
    /// Until when it may be used; `None` for as long as the server takes it.
    pub expires: Option<Moment>,
}

impl ExecCredential {
    /// Whether an `Authorization` header shows this token.
    pub(in crate::platform::cluster::kube_api) fn is_shown_by(&self, header: Option<&HeaderValue>) -> bool {
        let shown = header.and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        self.token.as_ref().is_some_and(|token| shown == Some(token.trim().as_bytes()))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Printed {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    status: Option<PrintedStatus>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PrintedStatus {
    expiration_timestamp: Option<String>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

impl ExecPlugin {
    /// Checks what can be checked before it is run.
    pub(in crate::platform::cluster::kube_api) fn new(exec: ExecConfig, cluster: &Cluster) -> Result<Self, String> {
        if !VERSIONS.contains(&text(&exec.api_version)) {
            return Err(format!("exec plugin: invalid apiVersion {:?}", text(&exec.api_version)));
        }
        let mut spec = json!({"interactive": false});
        if exec.provide_cluster_info {
            spec["cluster"] = serde_json::to_value(cluster_info(cluster)).expect("texts have a JSON");
        }
        let info = json!({"kind": "ExecCredential", "apiVersion": exec.api_version, "spec": spec});
        Ok(Self { exec, info })
    }

    /// Runs it once.
    ///
    /// # Errors
    /// In upstream's words where it has some.
    pub(in crate::platform::cluster::kube_api) async fn run(self) -> Result<ExecCredential, String> {
        if self.exec.interactive_mode == Some(ExecInteractiveMode::Always) {
            return Err("exec plugin cannot support interactive mode: standard input is not a terminal".to_owned());
        }
        let output = tokio::time::timeout(TIMEOUT, self.output()).await;
        let output =
            output.map_err(|_| format!("exec: executable {} did not end within 60 s", text(&self.exec.command)))??;
        self.read(&output)
    }

    async fn output(&self) -> Result<Vec<u8>, String> {
        let name = text(&self.exec.command);
        let mut command = Command::new(name);
        command.args(self.exec.args.iter().flatten());
        let variables = self.exec.env.iter().flatten();
        command.envs(variables.filter_map(|variable| Some((variable.get("name")?, variable.get("value")?))));
        command.env("KUBERNETES_EXEC_INFO", self.info.to_string());
        // Its complaints go where the agent's own log goes.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = Program::start(&mut command).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!("exec: executable {name} not found{}", self.hint()),
            _ => format!("exec: {error}"),
        })?;
        let mut output = vec![];
        let stdout = child.stdout.take().expect("it is piped");
        let read = stdout.take(OUTPUT_BYTES_MAX + 1).read_to_end(&mut output).await;
        read.map_err(|error| format!("decoding stdout: {error}"))?;
        if output.len() as u64 > OUTPUT_BYTES_MAX {
            return Err("decoding stdout: larger than 1 MiB".to_owned());
        }
        let status = child.wait().await.map_err(|error| format!("exec: {error}"))?;
        match status.code() {
            Some(0) => Ok(output),
            Some(code) => Err(format!("exec: executable {name} failed with exit code {code}{}", self.hint())),
            None => Err(format!("exec: {status}")),
        }
    }

    fn hint(&self) -> String {
        let hint = text(&self.exec.install_hint);
        if hint.is_empty() { String::new() } else { format!("\n\n{hint}") }
    }

    fn read(&self, output: &[u8]) -> Result<ExecCredential, String> {
        let wrong = |_| "decoding stdout: it is no ExecCredential".to_owned();
        let printed: Printed = serde_json::from_slice(output).map_err(wrong)?;
        if printed.kind != "ExecCredential" {
            return Err("decoding stdout: it is no ExecCredential".to_owned());
        }
        let version = text(&self.exec.api_version);
        if printed.api_version != version {
            return Err(format!(
                "exec plugin is configured to use API version {version}, plugin returned version {}",
                printed.api_version
            ));
        }
        let status = printed.status.ok_or_else(|| "exec plugin didn't return a status field".to_owned())?;
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let token = given(status.token);
        let certificate = match (given(status.client_certificate_data), given(status.client_key_data)) {
            (Some(chain), Some(key)) => {
                let wrong = |error| format!("failed parsing client key/certificate: {error}");
                Some(Pair::parse(chain.as_bytes(), key.as_bytes()).map_err(wrong)?)
            }
            (None, None) if token.is_none() => {
                return Err("exec plugin didn't return a token or cert/key pair".to_owned());
            }
            (None, None) => None,
            _ => return Err("exec plugin returned only certificate or key, not both".to_owned()),
        };
        let expires = match status.expiration_timestamp {
            None => None,
            Some(text) => {
                let wrong = |_| "decoding stdout: expirationTimestamp is no time".to_owned();
                Some(Moment::from_timestamp(text.parse().map_err(wrong)?))
            }
        };
        Ok(ExecCredential { token, certificate, expires })
    }
}

/// The facts of the cluster for a program, if it wants to know.
fn cluster_info(cluster: &Cluster) -> ExecAuthCluster {
    let authority = match &cluster.certificate_authority_data {
        Some(base64) => data(base64),
        None => read(std::path::Path::new(text(&cluster.certificate_authority))).unwrap_or_default(),
    };
    let extension = cluster.extensions.iter().flatten().find(|extension| extension.name == CONFIG_EXTENSION);
    ExecAuthCluster {
        server: Some(text(&cluster.server).to_owned()),
        insecure_skip_tls_verify: cluster.insecure_skip_tls_verify.filter(|skips| *skips),
        certificate_authority_data: Some(authority).filter(|bytes| !bytes.is_empty()),
        proxy_url: cluster.proxy_url.clone().filter(|url| !url.is_empty()),
        tls_server_name: cluster.tls_server_name.clone().filter(|name| !name.is_empty()),
        config: extension.map(|extension| extension.extension.clone()),
    }
}

#[cfg(test)]
mod cases {
    use serde_json::{Value, json};

    use super::{Cluster, ExecConfig, ExecPlugin};

    #[test]
    fn a_program_is_told_of_the_cluster_what_the_kubeconfig_has_for_it() {
        let told = |wants: bool, extensions: Value| {
            let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "provideClusterInfo": wants});
            let exec: ExecConfig = serde_json::from_value(exec).expect("a program");
            let cluster = json!({"server": "https://h", "tls-server-name": "kube", "extensions": extensions});
            let cluster: Cluster = serde_json::from_value(cluster).expect("a cluster");
            let Ok(plugin) = ExecPlugin::new(exec, &cluster) else { panic!("it is usable") };
            plugin.info["spec"]["cluster"].clone()
        };
        let config = json!({"audience": "a", "more": [1]});
        let extensions = json!([
            {"name": "other", "extension": {"audience": "b"}},
            {"name": "client.authentication.k8s.io/exec", "extension": config},
        ]);
        let expected = json!({"server": "https://h", "tls-server-name": "kube", "config": config});
        assert_eq!(told(true, extensions.clone()), expected);
        assert_eq!(told(true, Value::Null)["config"], Value::Null);
        assert_eq!(told(false, extensions), Value::Null);
    }
}
