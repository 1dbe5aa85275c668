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
use crate::platform::cluster::key_pair::{Pair, PairError};
use crate::platform::files::small_file::read;
use crate::platform::host::program::Program;

/// Versions of the protocol that are spoken.
const VERSIONS: [&str; 2] = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];
/// The extension of a cluster that its programs get, as their configuration.
const CONFIG_EXTENSION: &str = "client.authentication.k8s.io/exec";
/// How long the program may take. Upstream waits for ever, and with it every call.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The most bytes that it may print.
const OUTPUT_BYTES_MAX: u64 = 1024 * 1024;

/// Why a program gave no credentials; in upstream's words where it has some. The output is secret and in no text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecError {
    /// The configuration asks for a version that is not spoken.
    #[error("exec plugin: invalid apiVersion {0:?}")]
    Version(String),
    /// The configuration asks for a terminal.
    #[error("exec plugin cannot support interactive mode: standard input is not a terminal")]
    Interactive,
    /// It did not end in time.
    #[error("exec: executable {0} did not end within 60 s")]
    Late(String),
    /// It is not there; with the configuration's hint.
    #[error("exec: executable {name} not found{hint}")]
    NotFound {
        /// The program.
        name: String,
        /// Empty, or an empty line and the hint.
        hint: String,
    },
    /// It failed; with the configuration's hint.
    #[error("exec: executable {name} failed with exit code {code}{hint}")]
    Failed {
        /// The program.
        name: String,
        /// Its exit code.
        code: i32,
        /// Empty, or an empty line and the hint.
        hint: String,
    },
    /// It could not be run, or a signal ended it.
    #[error("exec: {0}")]
    Run(String),
    /// Its output cannot be used.
    #[error("decoding stdout: {0}")]
    Output(String),
    /// Its output is of another version.
    #[error("exec plugin is configured to use API version {wanted}, plugin returned version {printed}")]
    OtherVersion {
        /// The configured one.
        wanted: String,
        /// The program's.
        printed: String,
    },
    /// Its output has no status.
    #[error("exec plugin didn't return a status field")]
    NoStatus,
    /// Its output has no credentials.
    #[error("exec plugin didn't return a token or cert/key pair")]
    Nothing,
    /// Its output has half of a pair.
    #[error("exec plugin returned only certificate or key, not both")]
    HalfPair,
    /// Its certificate and key are no pair.
    #[error("failed parsing client key/certificate: {0}")]
    Pair(PairError),
}

impl ExecError {
    fn output(problem: &str) -> Self {
        Self::Output(problem.to_owned())
    }
}

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
    pub(in crate::platform::cluster::kube_api) fn new(exec: ExecConfig, cluster: &Cluster) -> Result<Self, ExecError> {
        if !VERSIONS.contains(&text(&exec.api_version)) {
            return Err(ExecError::Version(text(&exec.api_version).to_owned()));
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
    /// See [`ExecError`].
    pub(in crate::platform::cluster::kube_api) async fn run(self) -> Result<ExecCredential, ExecError> {
        if self.exec.interactive_mode == Some(ExecInteractiveMode::Always) {
            return Err(ExecError::Interactive);
        }
        let output = tokio::time::timeout(TIMEOUT, self.output()).await;
        let output = output.map_err(|_| ExecError::Late(text(&self.exec.command).to_owned()))??;
        self.read(&output)
    }

    async fn output(&self) -> Result<Vec<u8>, ExecError> {
        let name = text(&self.exec.command);
        let mut command = Command::new(name);
        command.args(self.exec.args.iter().flatten());
        let variables = self.exec.env.iter().flatten();
        command.envs(variables.filter_map(|variable| Some((variable.get("name")?, variable.get("value")?))));
        command.env("KUBERNETES_EXEC_INFO", self.info.to_string());
        // Its complaints go where the agent's own log goes.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = Program::start_plugin(&mut command).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => ExecError::NotFound { name: name.to_owned(), hint: self.hint() },
            _ => ExecError::Run(error.to_string()),
        })?;
        let mut output = vec![];
        let stdout = child.stdout.take().expect("it is piped");
        let read = stdout.take(OUTPUT_BYTES_MAX + 1).read_to_end(&mut output).await;
        read.map_err(|error| ExecError::Output(error.to_string()))?;
        if output.len() as u64 > OUTPUT_BYTES_MAX {
            return Err(ExecError::output("larger than 1 MiB"));
        }
        let status = child.wait().await.map_err(|error| ExecError::Run(error.to_string()))?;
        match status.code() {
            Some(0) => Ok(output),
            Some(code) => Err(ExecError::Failed { name: name.to_owned(), code, hint: self.hint() }),
            None => Err(ExecError::Run(status.to_string())),
        }
    }

    fn hint(&self) -> String {
        let hint = text(&self.exec.install_hint);
        if hint.is_empty() { String::new() } else { format!("\n\n{hint}") }
    }

    fn read(&self, output: &[u8]) -> Result<ExecCredential, ExecError> {
        let other = || ExecError::output("it is no ExecCredential");
        let printed: Printed = serde_json::from_slice(output).map_err(|_| other())?;
        if printed.kind != "ExecCredential" {
            return Err(other());
        }
        let version = text(&self.exec.api_version);
        if printed.api_version != version {
            return Err(ExecError::OtherVersion { wanted: version.to_owned(), printed: printed.api_version });
        }
        let status = printed.status.ok_or(ExecError::NoStatus)?;
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let token = given(status.token);
        let certificate = match (given(status.client_certificate_data), given(status.client_key_data)) {
            (Some(chain), Some(key)) => Some(Pair::parse(chain.as_bytes(), key.as_bytes()).map_err(ExecError::Pair)?),
            (None, None) if token.is_none() => return Err(ExecError::Nothing),
            (None, None) => None,
            _ => return Err(ExecError::HalfPair),
        };
        let expires = match status.expiration_timestamp {
            None => None,
            Some(text) => {
                let wrong = |_| ExecError::output("expirationTimestamp is no time");
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
