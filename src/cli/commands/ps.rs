//! `podwright ps`: the pods and what each waits for; with `--watch` also each change.

use clap::Args;

use super::follow::{Shape, follow};
use crate::cli::client::Client;
use crate::cli::output::Output;
use crate::cli::print::{self, NO_PODS};
use crate::cli::{Answered, WELL};
use crate::server::views::PodRow;
use crate::server::views::changes::ChangeKind;
use crate::server::views::table::Cell;

/// The phase in the last line of a pod that is here no more: no phase of the API.
const GONE: &str = "Gone";

/// Whether to go on.
#[derive(Debug, Args)]
pub(in crate::cli) struct PsOptions {
    /// Go on with a line for each change.
    #[arg(short, long)]
    watch: bool,
}

/// Runs the command.
pub(in crate::cli) fn run(client: &Client, wanted: &PsOptions, output: &Output, colours: bool) -> Answered {
    let wide = *output == Output::Wide;
    if wanted.watch {
        let row = |kind, row: &PodRow| cells(kind, row, wide);
        let shape = Shape { head: print::pod_titles(wide), row: &row, none: NO_PODS };
        return follow(client, "/ps?watch=true", output, &shape, colours).map(|()| (String::new(), WELL));
    }
    let body = client.get("/ps")?;
    if let Some(text) = output.document(&body) {
        return Ok((text?, WELL));
    }
    let rows: Vec<PodRow> = client.decode("/ps", &body)?;
    Ok((print::pods(&rows, wide, colours), WELL))
}

fn cells(kind: ChangeKind, row: &PodRow, wide: bool) -> Vec<Cell> {
    if kind != ChangeKind::Deleted {
        return print::pod_cells(row, wide);
    }
    let (phase, waiting) = (GONE.to_owned(), vec![]);
    let (reason, waiting_for) = (String::new(), vec![]);
    print::pod_cells(&PodRow { phase, reason, waiting, waiting_for, ready_containers: 0, ..row.clone() }, wide)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PAIN-37.
    #[test]
    fn a_pod_that_is_gone_says_so_in_its_last_line() {
        let row = PodRow {
            name: "web".into(),
            phase: "Running".into(),
            reason: "Error".into(),
            ready_containers: 1,
            containers: 1,
            waiting_for: vec!["x".into()],
            ..PodRow::default()
        };
        let texts = |kind| cells(kind, &row, false).into_iter().map(|cell| cell.text).collect::<Vec<_>>();
        assert_eq!(texts(ChangeKind::Deleted)[2..4], ["Gone", "0/1"]);
        assert_eq!(texts(ChangeKind::Deleted).last().map(String::as_str), Some(""));
        assert_eq!(texts(ChangeKind::Modified)[2..4], ["Running (Error)", "1/1"]);
    }
}
