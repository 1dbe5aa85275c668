//! `podwright images`: the runtime's images, who uses them, and the pulls that containers wait for.

use crate::cli::client::Client;
use crate::cli::output::Output;
use crate::cli::print::or_dash;
use crate::cli::{Answered, WELL};
use crate::logic::images::image_garbage::shown_bytes;
use crate::server::views::node_views::{ImageRow, ImagesShown, PullRow};
use crate::server::views::table::{Cell, Mood, age, table};

/// Characters of an ID, as runtimes' own tools show them.
const ID_CHARACTERS: usize = 13;

/// Runs the command.
pub(in crate::cli) fn run(client: &Client, output: &Output, colours: bool) -> Answered {
    let body = client.get("/images")?;
    if let Some(text) = output.document(&body) {
        return Ok((text?, WELL));
    }
    let shown: ImagesShown = client.decode("/images", &body)?;
    Ok((text(&shown, *output == Output::Wide, colours), WELL))
}

fn text(shown: &ImagesShown, wide: bool, colours: bool) -> String {
    let images = match shown.images.is_empty() {
        true => "no images on this node\n".to_owned(),
        false => {
            let head = ["IMAGE", "ID", "SIZE", "LAST USED", "KEPT", "USED BY"];
            table(&head, &shown.images.iter().map(|one| image(one, wide)).collect::<Vec<_>>(), colours)
        }
    };
    if shown.pulls.is_empty() {
        return images;
    }
    let head = ["WAITED FOR", "POD", "CONTAINER", "STAGE", "SINCE"];
    format!("{images}\n{}", table(&head, &shown.pulls.iter().map(pull).collect::<Vec<_>>(), colours))
}

fn image(one: &ImageRow, wide: bool) -> Vec<Cell> {
    let last_used = match (one.in_use, one.unused_seconds) {
        (true, _) => Cell::new("in use", Mood::Good),
        (false, Some(unused)) => format!("{} ago", age(unused)).into(),
        (false, None) => "-".into(),
    };
    let id = one.id.rsplit(':').next().unwrap_or_default();
    let id = if wide { one.id.clone() } else { id.chars().take(ID_CHARACTERS).collect() };
    vec![
        shortened(&one.names, wide, "<none>").into(),
        id.into(),
        shown_bytes(one.bytes).into(),
        last_used,
        or_dash(&one.kept).into(),
        shortened(&one.pods, wide, "-").into(),
    ]
}

fn pull(one: &PullRow) -> Vec<Cell> {
    let stage = match (one.stage.as_str(), one.ahead) {
        ("inspected", _) => "the runtime is asked for it".to_owned(),
        ("credentials", _) => "credentials are looked for".to_owned(),
        ("queued", ahead) => format!("in the queue, {ahead} before it"),
        ("pulled", _) => "being pulled".to_owned(),
        (other, _) => other.to_owned(),
    };
    let container = if one.container.is_empty() { "a volume" } else { &one.container };
    vec![
        one.image.as_str().into(),
        one.pod.as_str().into(),
        container.into(),
        Cell::new(stage, Mood::Pending),
        age(one.seconds).into(),
    ]
}

/// The first, and how many more there are.
fn shortened(all: &[String], wide: bool, none: &str) -> String {
    match all.split_first() {
        None => none.to_owned(),
        Some((first, rest)) if !wide && !rest.is_empty() => format!("{first} (+{})", rest.len()),
        Some(_) => all.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PAIN-22, PAIN-37.
    #[test]
    fn images_and_pulls_are_listed() {
        let of = |names: &[&str], in_use, unused_seconds, kept: &str, pods: &[&str]| ImageRow {
            id: "sha256:0123456789abcdef0123".into(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            bytes: 3 << 20,
            in_use,
            unused_seconds,
            kept: kept.into(),
            pods: pods.iter().map(|name| (*name).to_owned()).collect(),
        };
        let pull = PullRow {
            image: "app:2".into(),
            pod: "shop/web".into(),
            container: "a".into(),
            stage: "queued".into(),
            ahead: 3,
            seconds: 61.0,
        };
        let images = vec![
            of(&["app:1", "app@sha256:1"], true, Some(0.0), "", &["shop/db", "shop/web"]),
            of(&[], false, Some(7200.0), "exempt", &[]),
            of(&["old:1"], false, None, "", &[]),
        ];
        let shown = ImagesShown { images, pulls: vec![pull] };
        let expected = "\
IMAGE        ID              SIZE      LAST USED   KEPT     USED BY
app:1 (+1)   0123456789abc   3.0 MiB   in use      -        shop/db (+1)
<none>       0123456789abc   3.0 MiB   120m ago    exempt   -
old:1        0123456789abc   3.0 MiB   -           -        -

WAITED FOR   POD        CONTAINER   STAGE                       SINCE
app:2        shop/web   a           in the queue, 3 before it   61s
";
        assert_eq!(text(&shown, false, false), expected);
        assert!(text(&shown, true, false).contains("app:1, app@sha256:1   sha256:0123456789abcdef0123"));
        assert_eq!(text(&ImagesShown::default(), false, false), "no images on this node\n");
    }
}
