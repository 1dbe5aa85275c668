//! How soon the API server saw what a node did, from the audit log of `scripts/cluster.sh`. `make bench-cluster` uses it.
//!
//! ```text
//! audit_figures FILE ready        milliseconds from a pod's creation to the status that says it is Ready; median, mean, worst;
//!                                 of these, what the server itself took to take that status, mean
//! audit_figures FILE gone TIME    milliseconds from the first deletion that people asked for after TIME (RFC 3339) to the
//!                                 node's last one
//! audit_figures FILE since TIME   the node's requests from TIME on: how many of each kind
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};

use jiff::Timestamp;
use serde_json::Value;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// One request, as the log has it.
struct Request {
    received: Timestamp,
    at: Timestamp,
    by_node: bool,
    verb: String,
    what: String,
    pod: String,
    says_ready: bool,
}

fn read(path: &str) -> Outcome<Vec<Request>> {
    let mut requests = vec![];
    for line in BufReader::new(File::open(path)?).lines() {
        let line: Value = serde_json::from_str(&line?)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let about = &line["objectRef"];
        let part = text(&about["subresource"]);
        let conditions = line["requestObject"]["status"]["conditions"].as_array().cloned().unwrap_or_default();
        requests.push(Request {
            received: text(&line["requestReceivedTimestamp"]).parse()?,
            at: text(&line["stageTimestamp"]).parse()?,
            by_node: text(&line["user"]["username"]).starts_with("system:node:"),
            verb: text(&line["verb"]),
            what: if part.is_empty() {
                text(&about["resource"])
            } else {
                format!("{}/{part}", text(&about["resource"]))
            },
            pod: text(&about["name"]),
            says_ready: conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"),
        });
    }
    Ok(requests)
}

fn millis(from: Timestamp, to: Timestamp) -> i64 {
    to.as_millisecond() - from.as_millisecond()
}

/// Pods made with `kubectl create` have their name in the log; those of `generateName` have not, and do not count.
fn ready(requests: &[Request]) -> Outcome<()> {
    let mut made = BTreeMap::new();
    let (mut figures, mut taking) = (vec![], 0);
    for request in requests {
        if !request.by_node && request.verb == "create" && request.what == "pods" {
            made.insert(&request.pod, request.at);
        } else if request.says_ready
            && let Some(since) = made.remove(&request.pod)
        {
            figures.push(millis(since, request.at));
            taking += request.at.as_microsecond() - request.received.as_microsecond();
        }
    }
    figures.sort_unstable();
    let last = figures.last().ok_or("no pod became ready")?;
    let pods = i64::try_from(figures.len())?;
    let (mean, taking) = (figures.iter().sum::<i64>() / pods, taking / pods / 1000);
    println!("median_ms={} mean_ms={mean} worst_ms={last} server_ms={taking} pods={pods}", figures[figures.len() / 2]);
    Ok(())
}

fn gone(requests: &[Request], time: Timestamp) -> Outcome<()> {
    let deletions = || {
        let ends = |one: &&Request| matches!(one.verb.as_str(), "delete" | "deletecollection") && one.what == "pods";
        requests.iter().filter(ends).filter(|one| one.at >= time)
    };
    let first = deletions().find(|one| !one.by_node).ok_or("nobody asked for a deletion")?;
    let last = deletions().rfind(|one| one.by_node).ok_or("the node deleted nothing")?;
    println!("gone_ms={}", millis(first.received, last.at));
    Ok(())
}

fn since(requests: &[Request], time: Timestamp) {
    let mut kinds = BTreeMap::new();
    for request in requests.iter().filter(|one| one.by_node && one.at >= time) {
        *kinds.entry(format!("{} {}", request.verb, request.what)).or_insert(0) += 1;
    }
    for (kind, count) in kinds {
        println!("{count} {kind}");
    }
}

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        [file, "ready"] => ready(&read(file)?),
        [file, "gone", time] => gone(&read(file)?, time.parse()?),
        [file, "since", time] => {
            since(&read(file)?, time.parse()?);
            Ok(())
        }
        _ => Err("usage: audit_figures FILE ready|gone|since ...; see the head of its source".into()),
    }
}
