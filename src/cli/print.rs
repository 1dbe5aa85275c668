//! How answers look to people.

use crate::server::views::table::{Cell, Mood, age, clean, span, table};
use crate::server::views::{
    CallShown, ContainerShown, EventShown, Explanation, PluginRow, PodRow, ProbeShown, REFUSED,
};

/// JSON with line breaks; what is not JSON, as it is.
pub(super) fn indented(body: &[u8]) -> String {
    let value = serde_json::from_slice::<serde_json::Value>(body);
    let text = value.and_then(|value| serde_json::to_string_pretty(&value));
    text.map_or_else(|_| String::from_utf8_lossy(body).into_owned(), |text| text + "\n")
}

pub(super) fn age_of(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), age)
}

pub(super) fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

/// The mood of a pod in a list.
fn mood(row: &PodRow) -> Mood {
    let bad = row.phase == "Failed"
        || row.phase == REFUSED
        || row.phase == "Unknown"
        || row.reason.contains("BackOff")
        || row.reason.contains("Err");
    let done = row.phase == "Succeeded" || (row.phase == "Running" && row.ready_containers == row.containers);
    match () {
        () if bad => Mood::Bad,
        () if done && row.waiting.is_empty() => Mood::Good,
        () => Mood::Pending,
    }
}

/// The titles of `podwright ps`.
pub(super) fn pod_titles(wide: bool) -> Vec<&'static str> {
    let mut head = vec!["NAMESPACE", "NAME", "PHASE", "READY", "RESTARTS", "AGE", "IP"];
    if wide {
        head.extend(["NODE", "SOURCE", "UID"]);
    }
    head.push("WAITING FOR");
    head
}

/// A pod in `podwright ps`.
pub(super) fn pod_cells(row: &PodRow, wide: bool) -> Vec<Cell> {
    let phase = if row.reason.is_empty() { row.phase.clone() } else { format!("{} ({})", row.phase, row.reason) };
    let mut cells: Vec<Cell> = vec![
        row.namespace.as_str().into(),
        row.name.as_str().into(),
        Cell::new(phase, mood(row)),
        format!("{}/{}", row.ready_containers, row.containers).into(),
        row.restarts.to_string().into(),
        age_of(row.age_seconds).into(),
        or_dash(&row.ip).into(),
    ];
    if wide {
        cells.extend([&row.node, &row.source, &row.uid].map(|text| Cell::from(or_dash(text))));
    }
    // An agent of an older build tells the whole sentences alone.
    let told = if row.waiting_for.is_empty() { &row.waiting } else { &row.waiting_for };
    let waiting = match told.split_first() {
        None => String::new(),
        Some((first, rest)) if !wide && !rest.is_empty() => format!("{first} (+{})", rest.len()),
        Some(_) => told.join("; "),
    };
    cells.push(waiting.into());
    cells
}

/// The line of a node without pods.
pub(super) const NO_PODS: &str = "no pods on this node";

/// `podwright ps`.
pub(super) fn pods(rows: &[PodRow], wide: bool, colours: bool) -> String {
    if rows.is_empty() {
        return format!("{NO_PODS}\n");
    }
    table(&pod_titles(wide), &rows.iter().map(|row| pod_cells(row, wide)).collect::<Vec<_>>(), colours)
}

/// `podwright plugins`.
pub(super) fn plugins(rows: &[PluginRow], wide: bool, colours: bool) -> String {
    if rows.is_empty() {
        return "no plugins on this node\n".to_owned();
    }
    let mut head = vec!["TYPE", "NAME", "STATE", "SINCE", "VERSIONS", "ENDPOINT", "DEVICES", "CALLS"];
    if wide {
        head.push("SOCKET");
    }
    head.push("LAST ERROR");
    let call = |call: &CallShown| format!("{} {} ({})", call.method, call.about, age_of(call.age_seconds));
    let cells = |row: &PluginRow| {
        let mood = match row.state.as_str() {
            "registered" => Mood::Good,
            "failed" | "stopped" | "forgotten" => Mood::Bad,
            _ => Mood::Pending,
        };
        let calls: Vec<String> = row.calls.iter().map(call).collect();
        let calls = match calls.split_first() {
            Some((first, rest)) if !wide && !rest.is_empty() => format!("{first} (+{})", rest.len()),
            _ => calls.join("; "),
        };
        let mut cells: Vec<Cell> = vec![
            or_dash(&row.kind).into(),
            or_dash(&row.name).into(),
            Cell::new(row.state.clone(), mood),
            age_of(row.age_seconds).into(),
            or_dash(&row.versions.join(",")).into(),
            or_dash(&row.endpoint).into(),
            row.devices.map_or("-".to_owned(), |shown| format!("{}/{}", shown.healthy, shown.all)).into(),
            or_dash(&calls).into(),
        ];
        if wide {
            cells.push(row.socket.as_str().into());
        }
        cells.push(or_dash(&row.last_error).into());
        cells
    };
    table(&head, &rows.iter().map(cells).collect::<Vec<_>>(), colours)
}

/// `podwright explain`.
pub(super) fn explanations(found: &[Explanation], colours: bool) -> String {
    found.iter().map(|one| explanation(one, colours)).collect::<Vec<_>>().join("\n")
}

fn explanation(one: &Explanation, colours: bool) -> String {
    let pod = &one.pod;
    let reason = if pod.reason.is_empty() { String::new() } else { format!(" ({})", pod.reason) };
    let phase = mood(pod).paint(&clean(&format!("{}{reason}", pod.phase)), colours);
    let mut out = format!("Pod       {}/{}   uid {}\n", clean(&pod.namespace), clean(&pod.name), clean(&pod.uid));
    out.push_str(&format!(
        "Phase     {phase}, {}/{} ready, {} restarts",
        pod.ready_containers, pod.containers, pod.restarts
    ));
    out.push_str(&format!(", age {}, ip {}", age_of(pod.age_seconds), clean(&or_dash(&pod.ip))));
    out.push_str(&format!(", source {}\n", clean(&or_dash(&pod.source))));
    if !one.message.is_empty() {
        out.push_str(&format!("Message   {}\n", clean(&one.message)));
    }
    for problem in &one.node_problems {
        out.push_str(&format!("Node      {}\n", Mood::Bad.paint(&clean(problem), colours)));
    }
    out.push_str(&why(one, colours));
    out.push_str(&conditions(one, colours));
    out.push_str(&containers(&one.containers, colours));
    out.push_str(&hardware(&one.hardware));
    out.push_str(&probes(&one.probes, colours));
    out.push_str(&worker(one));
    out.push_str(&events(&one.events, colours));
    out
}

fn why(one: &Explanation, colours: bool) -> String {
    let mut out = String::new();
    if one.healthy {
        return out;
    }
    out.push_str("\nWhy it is not as it should be, newest first:\n");
    for (number, reason) in one.why.iter().enumerate() {
        let reason = clean(reason);
        let reason = if number == 0 { Mood::Pending.paint(&reason, colours) } else { reason };
        out.push_str(&format!("  {}. {reason}\n", number + 1));
    }
    if one.why.is_empty() {
        out.push_str("  nothing is known yet\n");
    }
    for back_off in &one.back_offs {
        let due =
            if back_off.in_seconds > 0.0 { format!("in {}", age(back_off.in_seconds)) } else { "now due".to_owned() };
        out.push_str(&format!(
            "  {} is started again at {}, {due}\n",
            clean(&back_off.container),
            clean(&back_off.until)
        ));
    }
    out
}

fn conditions(one: &Explanation, colours: bool) -> String {
    if one.conditions.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<Cell>> = one
        .conditions
        .iter()
        .map(|condition| {
            let mood = if condition.status == "True" { Mood::Good } else { Mood::Bad };
            vec![
                condition.kind.as_str().into(),
                Cell::new(condition.status.as_str(), mood),
                age_of(condition.age_seconds).into(),
                or_dash(&condition.reason).into(),
                condition.message.as_str().into(),
            ]
        })
        .collect();
    format!("\n{}", table(&["CONDITION", "STATUS", "AGE", "REASON", "MESSAGE"], &rows, colours))
}

fn containers(all: &[ContainerShown], colours: bool) -> String {
    if all.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<Cell>> = all
        .iter()
        .map(|one| {
            let mood = match one.state.as_str() {
                "running" if one.ready => Mood::Good,
                "terminated" if one.exit_code == Some(0) => Mood::Plain,
                "terminated" => Mood::Bad,
                _ => Mood::Pending,
            };
            vec![
                one.name.as_str().into(),
                one.role.as_str().into(),
                Cell::new(one.state.as_str(), mood),
                age_of(one.age_seconds).into(),
                if one.ready { "yes" } else { "no" }.into(),
                one.restarts.to_string().into(),
                or_dash(&one.last).into(),
                one.detail.as_str().into(),
            ]
        })
        .collect();
    let head = ["CONTAINER", "ROLE", "STATE", "AGE", "READY", "RESTARTS", "LAST", "DETAIL"];
    format!("\n{}", table(&head, &rows, colours))
}

/// CPUs and memory of its own, and how they were chosen.
fn hardware(lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = lines.iter().map(|line| format!("  {}\n", clean(line))).collect();
    format!("\nHardware of its own:\n{}", lines.concat())
}

/// The cost of probes: rounds, and the time that they took.
fn probes(all: &[ProbeShown], colours: bool) -> String {
    if all.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<Cell>> = all
        .iter()
        .map(|one| {
            let each = if one.rounds == 0 { "-".to_owned() } else { span(one.spent_seconds / one.rounds as f64) };
            let timed_out = if one.timed_out == 0 { String::new() } else { format!(" ({} timed out)", one.timed_out) };
            let failed = Cell::new(
                format!("{}{timed_out}", one.failed),
                if one.failed == 0 { Mood::Plain } else { Mood::Pending },
            );
            let note = match (one.waits_for_turn, one.put_off_seconds) {
                (true, _) => "waits for commands of other containers".to_owned(),
                (false, Some(wait)) => format!("does not end in time, runs every {}", span(wait)),
                (false, None) => String::new(),
            };
            vec![
                one.container.as_str().into(),
                one.probe.as_str().into(),
                one.action.as_str().into(),
                span(one.period_seconds).into(),
                one.rounds.to_string().into(),
                failed,
                one.errored.to_string().into(),
                each.into(),
                span(one.spent_seconds).into(),
                note.into(),
            ]
        })
        .collect();
    let head = ["CONTAINER", "PROBE", "BY", "EVERY", "ROUNDS", "FAILED", "NOT MADE", "EACH", "IN ALL", "NOTE"];
    format!("\n{}", table(&head, &rows, colours))
}

fn worker(one: &Explanation) -> String {
    let Some(worker) = &one.worker else { return "\nWorker    none: nobody looks after this pod\n".to_owned() };
    let mut out = format!(
        "\nWorker    {}: {}, {} turns, {} restarts\n",
        clean(&worker.name),
        clean(&worker.state),
        worker.turns,
        worker.restarts
    );
    for operation in &worker.operations {
        let (name, about) = (clean(&operation.name), clean(&operation.about));
        out.push_str(&format!("  {name} ({about}) for {}\n", span(operation.open_seconds)));
    }
    if let Some(failure) = &worker.last_failure {
        out.push_str(&format!("  last failed: {}\n", clean(failure)));
    }
    out
}

fn events(all: &[EventShown], colours: bool) -> String {
    if all.is_empty() {
        return "\nno events\n".to_owned();
    }
    let rows: Vec<Vec<Cell>> = all
        .iter()
        .map(|event| {
            let mood = if event.kind == "Warning" { Mood::Pending } else { Mood::Plain };
            let last = match event.count {
                0 | 1 => age(event.last_seconds),
                count => format!("{} (x{count} over {})", age(event.last_seconds), age(event.first_seconds)),
            };
            vec![
                last.into(),
                Cell::new(event.kind.as_str(), mood),
                event.reason.as_str().into(),
                or_dash(&event.object).into(),
                event.message.as_str().into(),
            ]
        })
        .collect();
    format!("\n{}", table(&["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"], &rows, colours))
}

#[cfg(test)]
mod tests;
