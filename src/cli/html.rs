//! `podwright trace --html`: one page that shows turns, work and causes, and needs nothing but a browser.
//!
//! The page carries its own style and script, asks nobody for anything, and forbids every other script by its content
//! security policy. All names and messages in it are escaped by type (`markup`). Without the script it can still be read.

mod chain;
mod data;
mod lanes;
mod markup;
mod scale;
mod sections;
mod timeline;

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::arguments::TraceOptions;
use super::client::{Client, Trouble, escape};
use crate::platform::network::tls::sha256_hex;
use chain::Story;
use data::{Actors, Pod, Trace};
use markup::Markup;

const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/script.js");

/// Asks the agent, and writes the page.
pub(super) fn write(client: &Client, wanted: &TraceOptions, file: &Path) -> Result<String, Trouble> {
    let mut path = "/debug/actors/trace?format=json".to_owned();
    for (name, value) in [("pod", &wanted.pod), ("actor", &wanted.actor), ("since", &wanted.since)] {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", escape(value)));
        }
    }
    let trace: Trace = client.decode(&path, &client.get(&path)?)?;
    let actors: Actors = client.decode("/debug/actors", &client.get("/debug/actors")?)?;
    let pod = match &wanted.pod {
        None => None,
        Some(name) => {
            let list: serde_json::Value = client.decode("/pods", &client.get("/pods")?)?;
            // A pod that is gone has turns still.
            Some(Pod::find(&list, name).unwrap_or_else(|| Pod { name: name.clone(), ..Pod::default() }))
        }
    };
    let page = page(trace, &actors, pod.as_ref());
    std::fs::write(file, &page).map_err(|error| Trouble::File { file: file.to_owned(), error })?;
    Ok(format!("{}: {} bytes, to be opened in a browser\n", file.display(), page.len()))
}

/// A page of these answers, for an archive.
pub(super) fn bundled(trace: serde_json::Value, actors: serde_json::Value) -> Result<String, String> {
    let trace: Trace = serde_json::from_value(trace).map_err(|error| error.to_string())?;
    let actors: Actors = serde_json::from_value(actors).map_err(|error| error.to_string())?;
    Ok(page(trace, &actors, None))
}

/// The page. Pure.
fn page(trace: Trace, actors: &Actors, pod: Option<&Pod>) -> String {
    let story = chain::story(trace.turns, pod);
    let mut page = Markup::default();
    page.raw("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    page.open("meta", &[("http-equiv", "Content-Security-Policy"), ("content", &policy())]);
    page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    page.raw("<meta name=\"color-scheme\" content=\"light dark\">");
    page.element("title", &[], &sections::title(&story, pod));
    page.raw("<style>").raw(STYLE).raw("</style></head><body>");
    sections::head(&mut page, &story, pod);
    page.raw("<main>");
    if story.turns.is_empty() {
        page.raw("<p class=\"note\">The trace holds no such turns.</p>");
    } else {
        sections::chain(&mut page, &story);
        timeline_section(&mut page, &story, actors, pod);
    }
    sections::actors(&mut page, actors);
    if !story.turns.is_empty() {
        sections::turns(&mut page, &story);
    }
    page.raw("</main><footer>");
    page.text(concat!("podwright ", env!("CARGO_PKG_VERSION"), ". Times are the agent's own."));
    page.raw("</footer><script>").raw(SCRIPT).raw("</script></body></html>\n");
    page.finish()
}

fn timeline_section(page: &mut Markup, story: &Story, actors: &Actors, pod: Option<&Pod>) {
    page.raw(
        "<section aria-labelledby=\"timeline-title\"><h2 id=\"timeline-title\">Timeline</h2>\
         <div class=\"tools\" id=\"tools\" hidden><button type=\"button\" data-zoom=\"0.5\" aria-label=\"Zoom out\">−</button>\
         <button type=\"button\" data-zoom=\"2\" aria-label=\"Zoom in\">+</button>\
         <button type=\"button\" data-zoom=\"0\">Whole</button>\
         <label><input type=\"checkbox\" id=\"causes\" checked> all causes</label>\
         <span class=\"keys\"><kbd>+</kbd> <kbd>−</kbd> <kbd>0</kbd> zoom, <kbd>←</kbd> <kbd>→</kbd> turn before and after, \
         <kbd>↑</kbd> cause, <kbd>↓</kbd> effect</span></div>",
    );
    timeline::draw(page, story, actors, pod);
    page.raw(
        "<p class=\"legend\"><span class=\"key turn\">turn</span><span class=\"key operation\">operation</span>\
         <span class=\"key wait\">timer or wait</span><span class=\"key open\">open work</span>\
         <span class=\"key chain\">longest chain</span></p>\
         <div class=\"picked\" id=\"picked\" role=\"status\" aria-live=\"polite\" hidden></div></section>",
    );
}

/// The only style and the only script are the program's own; nothing is loaded, sent or framed.
fn policy() -> String {
    let hash = |text: &str| {
        let hex = sha256_hex(text.as_bytes());
        let pairs = hex.as_bytes().chunks_exact(2).filter_map(|pair| std::str::from_utf8(pair).ok());
        let bytes: Vec<u8> = pairs.filter_map(|pair| u8::from_str_radix(pair, 16).ok()).collect();
        format!("'sha256-{}'", STANDARD.encode(bytes))
    };
    let (style, script) = (hash(STYLE), hash(SCRIPT));
    format!("default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'; form-action 'none'")
}

#[cfg(test)]
mod tests;
