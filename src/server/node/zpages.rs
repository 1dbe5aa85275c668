//! `/flagz` and `/statusz`: with which flags the agent runs, and which agent it is; as text, or structured for whoever
//! names the kind that is wanted (SRV-28, KEP-4827, KEP-4828).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::routing::get;
use serde_json::{Map, Value, json};

use crate::logic::serving::server_access::PATHS;
use crate::server::reply::{self, Reply};
use crate::server::sources::{Shared, only_get};

const COMPONENT: &str = "kubelet";
const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
                       guarantees and is for debugging purposes only.";

/// In which form an answer is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Text,
    Json(Version),
    Yaml(Version),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
enum Version {
    V1Alpha1,
    V1Beta1,
}

pub(in crate::server) fn routes() -> Router<Shared> {
    Router::new().route("/flagz", only_get(get(flagz))).route("/statusz", only_get(get(statusz)))
}

async fn flagz(State(shared): State<Shared>, headers: HeaderMap) -> Reply {
    let flags: &BTreeMap<String, String> = &shared.pages.flags;
    let text = || flags.iter().fold(head("flagz"), |text, (name, value)| text + name + "=" + value + "\n");
    answer("Flagz", &headers, text, || Map::from_iter([("flags".to_owned(), json!(flags))]))
}

async fn statusz(State(shared): State<Shared>, headers: HeaderMap) -> Reply {
    let (started, clock) = (shared.facts.agent_started, shared.trace.clock());
    let up = clock.now().since(started).as_secs();
    let (folders, version) = (folders(), shared.pages.version.as_str());
    let text = || {
        let mut text = head("statusz");
        let started = started.to_timestamp().strftime("%a %b %e %H:%M:%S UTC %Y");
        let up = format!("{} hr {:02} min {:02} sec", up / 3600, up / 60 % 60, up % 60);
        // There is no Go in it; the line is there for those who look for it.
        let _ = write!(text, "\nStarted: {started}\nUp: {up}\nGo version: none\nBinary version: {version}\n");
        let _ = write!(text, "Emulation version: {}\nPaths: {}\n", emulated(version), folders.join(" "));
        text
    };
    answer("Statusz", &headers, text, || {
        let fields = json!({
            "startTime": started.to_timestamp().to_string(),
            "uptimeSeconds": up,
            "goVersion": "none",
            "binaryVersion": version.trim_start_matches('v'),
            "emulationVersion": emulated(version),
            "paths": folders,
        });
        fields.as_object().cloned().unwrap_or_default()
    })
}

/// The version whose behaviour this is: major and minor.
fn emulated(version: &str) -> String {
    version.trim_start_matches('v').split('.').take(2).collect::<Vec<_>>().join(".")
}

/// The first segments of all paths that are served, once each.
fn folders() -> Vec<String> {
    let first = |path: &str| path.split('/').nth(1).map(|segment| format!("/{segment}"));
    let mut folders: Vec<String> = PATHS.iter().filter_map(|(path, _)| first(path)).collect();
    folders.sort_unstable();
    folders.dedup();
    folders
}

fn head(page: &str) -> String {
    format!("\n{COMPONENT} {page}\n{WARNING}\n")
}

fn answer(
    kind: &str,
    headers: &HeaderMap,
    text: impl FnOnce() -> String,
    fields: impl FnOnce() -> Map<String, Value>,
) -> Reply {
    let Some(form) = form(kind, headers) else { return not_acceptable() };
    let version = match form {
        Form::Text => return reply::text(StatusCode::OK, text()),
        Form::Json(version) | Form::Yaml(version) => version,
    };
    let name: &str = version.into();
    let mut object = Map::from_iter([
        ("kind".to_owned(), json!(kind)),
        ("apiVersion".to_owned(), json!(format!("config.k8s.io/{name}"))),
        ("metadata".to_owned(), json!({ "name": COMPONENT })),
    ]);
    object.extend(fields());
    let mut answer = match form {
        Form::Yaml(_) => match serde_saphyr::to_string(&object) {
            Ok(text) => reply::with_type(StatusCode::OK, "application/yaml", text.into()),
            Err(error) => reply::text(StatusCode::INTERNAL_SERVER_ERROR, format!("Internal Error: {error}\n")),
        },
        _ => reply::json(&object),
    };
    if version == Version::V1Alpha1 {
        let page = kind.to_lowercase();
        let text = format!("299 - \"This version of the {page} endpoint is deprecated. Please use a newer version.\"");
        if let Ok(text) = HeaderValue::from_str(&text) {
            answer.headers_mut().insert(header::WARNING, text);
        }
    }
    answer
}

/// The first form in `Accept`, by weight, that there is; text where nothing is asked for.
fn form(kind: &str, headers: &HeaderMap) -> Option<Form> {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.trim().is_empty() {
        return Some(Form::Text);
    }
    let mut wanted: Vec<(f32, Form)> = accept.split(',').filter_map(|range| one_form(kind, range)).collect();
    wanted.retain(|(weight, _)| *weight > 0.0);
    wanted.sort_by(|one, other| other.0.total_cmp(&one.0));
    wanted.first().map(|(_, form)| *form)
}

fn one_form(kind: &str, range: &str) -> Option<(f32, Form)> {
    let mut parts = range.split(';').map(str::trim);
    let media = parts.next()?;
    let parameters: BTreeMap<&str, &str> = parts.filter_map(|part| part.split_once('=')).collect();
    let weight = parameters.get("q").map_or(Some(1.0), |text| text.parse().ok())?;
    let named = ["as", "v", "g"].map(|name| parameters.get(name).copied());
    let version = match named {
        [Some(named), Some("v1beta1"), Some("config.k8s.io")] if named == kind => Some(Version::V1Beta1),
        [Some(named), Some("v1alpha1"), Some("config.k8s.io")] if named == kind => Some(Version::V1Alpha1),
        _ => None,
    };
    let form = match (media, version) {
        ("text/plain" | "text/*" | "*/*", None) if named == [None; 3] => Form::Text,
        ("application/json" | "application/*" | "*/*", Some(version)) => Form::Json(version),
        ("application/yaml", Some(version)) => Form::Yaml(version),
        _ => return None,
    };
    Some((weight, form))
}

fn not_acceptable() -> Reply {
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "only the following media types are accepted: application/json, application/yaml, text/plain",
        "reason": "NotAcceptable",
        "code": 406,
    });
    reply::json_body(StatusCode::NOT_ACCEPTABLE, format!("{status}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SRV-28.
    #[test]
    fn the_form_is_the_one_that_is_asked_for() {
        let beta = "application/json;as=Flagz;v=v1beta1;g=config.k8s.io";
        let alpha = "application/yaml; as=Flagz; v=v1alpha1; g=config.k8s.io";
        for (accept, wanted) in [
            ("", Some(Form::Text)),
            ("*/*", Some(Form::Text)),
            ("text/plain", Some(Form::Text)),
            (beta, Some(Form::Json(Version::V1Beta1))),
            (alpha, Some(Form::Yaml(Version::V1Alpha1))),
            ("application/json", None),
            ("application/json;as=Statusz;v=v1beta1;g=config.k8s.io", None),
            ("image/png, text/plain;q=0.5", Some(Form::Text)),
            ("text/plain;q=0", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().expect("valid"));
            assert_eq!(form("Flagz", &headers), wanted, "{accept}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, format!("text/plain;q=0.1, {beta};q=0.9").parse().expect("valid"));
        assert_eq!(form("Flagz", &headers), Some(Form::Json(Version::V1Beta1)));
    }

    #[test]
    fn folders_are_told_once() {
        let folders = folders();
        assert!(folders.contains(&"/metrics".to_owned()) && folders.is_sorted());
        assert_eq!(folders.iter().filter(|folder| *folder == "/debug").count(), 1);
    }
}
