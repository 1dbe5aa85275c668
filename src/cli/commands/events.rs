//! `podwright events`: the last events of the node, as `kubectl get events` shows them.

use clap::Args;

use super::follow::{Shape, follow};
use crate::cli::client::{self, Client};
use crate::cli::output::Output;
use crate::cli::pod_name::PodName;
use crate::cli::print::or_dash;
use crate::cli::{Answered, WELL};
use crate::server::views::node_views::EventRow;
use crate::server::views::table::{Cell, Mood, age, table};

/// Which events.
#[derive(Debug, Args)]
pub(in crate::cli) struct EventsOptions {
    /// Only those of this pod.
    #[arg(long, value_name = "NAMESPACE/POD")]
    pod: Option<PodName>,
    /// Go on with each event as it comes.
    #[arg(short, long)]
    watch: bool,
}

const NONE: &str = "no events in the last hour";

/// Runs the command.
pub(in crate::cli) fn run(client: &Client, wanted: &EventsOptions, output: &Output, colours: bool) -> Answered {
    let pod =
        wanted.pod.as_ref().map(|pod| format!("pod={}", client::escape(&format!("{}/{}", pod.namespace, pod.name))));
    let watch = wanted.watch.then(|| "watch=true".to_owned());
    let query: Vec<String> = pod.into_iter().chain(watch).collect();
    let path = if query.is_empty() { "/events".to_owned() } else { format!("/events?{}", query.join("&")) };
    let columns = Wanted { namespace: wanted.pod.is_none(), wide: *output == Output::Wide };
    if wanted.watch {
        let row = |_, event: &EventRow| columns.cells(event);
        let shape = Shape { head: columns.head(), row: &row, none: NONE };
        return follow(client, &path, output, &shape, colours).map(|()| (String::new(), WELL));
    }
    let body = client.get(&path)?;
    if let Some(text) = output.document(&body) {
        return Ok((text?, WELL));
    }
    let rows: Vec<EventRow> = client.decode(&path, &body)?;
    Ok((columns.table(&rows, colours), WELL))
}

/// The columns that are wanted.
#[derive(Clone, Copy)]
struct Wanted {
    namespace: bool,
    wide: bool,
}

impl Wanted {
    fn head(self) -> Vec<&'static str> {
        let namespace = self.namespace.then_some("NAMESPACE");
        let more = if self.wide { &["SUBOBJECT", "FIRST SEEN", "COUNT"][..] } else { &[] };
        let head = namespace.into_iter().chain(["LAST SEEN", "TYPE", "REASON", "OBJECT"]);
        head.chain(more.iter().copied()).chain(["MESSAGE"]).collect()
    }

    fn cells(self, event: &EventRow) -> Vec<Cell> {
        let mood = if event.kind == "Warning" { Mood::Pending } else { Mood::Plain };
        let last = match event.count {
            0 | 1 => age(event.last_seconds),
            count => format!("{} (x{count} over {})", age(event.last_seconds), age(event.first_seconds)),
        };
        let mut cells: Vec<Cell> = vec![];
        if self.namespace {
            cells.push(or_dash(&event.namespace).into());
        }
        cells.extend([
            last.into(),
            Cell::new(event.kind.as_str(), mood),
            event.reason.as_str().into(),
            format!("{}/{}", event.object_kind.to_lowercase(), event.name).into(),
        ]);
        if self.wide {
            cells.push(or_dash(&event.field_path).into());
            cells.push(age(event.first_seconds).into());
            cells.push(event.count.to_string().into());
        }
        cells.push(event.message.as_str().into());
        cells
    }

    fn table(self, rows: &[EventRow], colours: bool) -> String {
        if rows.is_empty() {
            return format!("{NONE}\n");
        }
        table(&self.head(), &rows.iter().map(|row| self.cells(row)).collect::<Vec<_>>(), colours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, count: u32) -> EventRow {
        EventRow {
            kind: "Warning".into(),
            reason: "BackOff".into(),
            object_kind: "Pod".into(),
            namespace: "shop".into(),
            name: name.into(),
            field_path: "spec.containers{a}".into(),
            message: "Back-off\u{1b}[31m restarting".into(),
            count,
            first_seconds: 300.0,
            last_seconds: 61.4,
            ..EventRow::default()
        }
    }

    /// PAIN-37.
    #[test]
    fn events_are_listed_as_kubectl_lists_them() {
        let node = EventRow { object_kind: "Node".into(), name: "n1".into(), namespace: String::new(), ..event("", 1) };
        let rows = [event("web", 4), node];
        let all = Wanted { namespace: true, wide: false };
        let expected = "\
NAMESPACE   LAST SEEN          TYPE      REASON    OBJECT    MESSAGE
shop        61s (x4 over 5m)   Warning   BackOff   pod/web   Back-off\u{fffd}[31m restarting
-           61s                Warning   BackOff   node/n1   Back-off\u{fffd}[31m restarting
";
        assert_eq!(all.table(&rows, false), expected);
        let of_pod = Wanted { namespace: false, wide: true }.table(&rows[..1], false);
        let head =
            "LAST SEEN          TYPE      REASON    OBJECT    SUBOBJECT            FIRST SEEN   COUNT   MESSAGE\n";
        assert!(of_pod.starts_with(head), "{of_pod}");
        assert!(of_pod.contains("spec.containers{a}   5m           4       Back-off"), "{of_pod}");
        assert_eq!(all.table(&[], false), "no events in the last hour\n");
    }
}
