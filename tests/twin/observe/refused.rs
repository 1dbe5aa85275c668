//! The requests of an agent that the API server refused, as its audit log tells them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::{Map, Value};

/// The refused requests about a namespace: by verb and resource the codes.
///
/// How often an agent tries again is a matter of time.
pub fn of_node(audit_log: &Path, node: &str, namespace: &str) -> Value {
    let Ok(file) = File::open(audit_log) else { return Value::Null };
    let user = format!("system:node:{node}");
    let mut found = BTreeMap::new();
    // Another namespace's name may begin with this one.
    let quoted = format!("\"{namespace}\"");
    for line in BufReader::new(file).lines().map_while(Result::ok).filter(|line| line.contains(&quoted)) {
        let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
        if event["user"]["username"] == user.as_str()
            && let Some((request, code)) = refusal(&event)
        {
            found.insert(format!("{request} {code}"), Value::Bool(true));
        }
    }
    found.into_iter().collect::<Map<_, _>>().into()
}

/// The request and the code of a change that the API server did not take.
///
/// Reads and tokens are left out: a node may have them some time after its pod was made. So are changes of what has just gone.
fn refusal(event: &Value) -> Option<(String, u64)> {
    const READS: [&str; 3] = ["get", "list", "watch"];
    const GONE: u64 = 404;
    // The agent left before the answer.
    const NOBODY_WAITS: u64 = 504;
    let is_refusal = |code: &u64| *code >= 400 && ![GONE, NOBODY_WAITS].contains(code);
    let code = event["responseStatus"]["code"].as_u64().filter(is_refusal)?;
    let is_read = event["verb"].as_str().is_none_or(|verb| READS.contains(&verb));
    if is_read || event["objectRef"]["subresource"] == "token" {
        return None;
    }
    let text = |field: &str| event["objectRef"][field].as_str().unwrap_or_default().to_owned();
    let below = event["objectRef"]["subresource"].as_str().map(|name| format!(".{name}")).unwrap_or_default();
    Some((format!("{} {}{below} {}", event["verb"].as_str()?, text("resource"), text("name")), code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_verb_object_and_code() {
        let event = |verb: &str, code: u64| {
            serde_json::json!({
                "verb": verb,
                "objectRef": { "resource": "pods", "subresource": "status", "name": "a" },
                "responseStatus": { "code": code },
            })
        };
        assert_eq!(refusal(&event("patch", 409)), Some(("patch pods.status a".to_owned(), 409)));
        for (verb, code) in [("patch", 200), ("patch", 404), ("watch", 403)] {
            assert_eq!(refusal(&event(verb, code)), None);
        }
    }
}
