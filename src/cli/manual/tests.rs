//! Tests of completions and manual pages.

use std::io::Write;
use std::process::{Command, Stdio};

use super::super::SUBCOMMANDS;
use super::*;

const SHELLS: [Completed; 3] = [Completed::Bash, Completed::Zsh, Completed::Fish];

/// The text of a page without roff's escapes.
fn plain(page: &[u8]) -> String {
    let text = std::str::from_utf8(page).expect("text");
    [("\\fB", ""), ("\\fI", ""), ("\\fR", ""), ("\\-", "-"), ("\\(aq", "'"), ("\\&", "")]
        .iter()
        .fold(text.to_owned(), |text, (escape, meaning)| text.replace(escape, meaning))
}

fn page(name: &str) -> String {
    let found = pages::all().into_iter().find(|(file, _)| file == name);
    plain(&found.unwrap_or_else(|| panic!("no page {name}")).1)
}

#[test]
fn completions_name_every_command_and_flag() {
    for shell in SHELLS {
        let text = completions(shell);
        for name in SUBCOMMANDS {
            assert!(text.contains(name), "{shell:?}: {name}");
        }
        for flag in FLAGS {
            assert!(text.contains(flag.name), "{shell:?}: --{}", flag.name);
        }
        assert!(text.contains("chrome"), "{shell:?}: an option of a command");
    }
}

/// A shell that is here takes its completion without a word.
#[test]
fn shells_can_read_their_completions() {
    for (shell, program) in SHELLS.into_iter().zip(["bash", "zsh", "fish"]) {
        let started = Command::new(program).arg("-n").stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let Ok(mut child) = started else {
            crate::testing::skips::needs(program);
            continue;
        };
        let text = completions(shell);
        child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("taken");
        let ended = child.wait_with_output().expect("ended");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && said.is_empty(), "{program}: {said}");
    }
}

/// The words that a shell offers in the place of the last one; `None` without the shell.
fn offered(shell: Completed, line: &str) -> Option<Vec<String>> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("completion");
    std::fs::write(&file, completions(shell)).expect("written");
    let (program, script) = match shell {
        Completed::Bash => (
            "bash",
            "source \"$0\"; COMP_WORDS=($1); [[ $1 != *' ' ]] || COMP_WORDS+=(''); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); \
             _podwright podwright \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD - 1]}\"; \
             printf '%s\\n' \"${COMPREPLY[@]}\"",
        ),
        Completed::Fish => ("fish", "source $argv[1]; complete -C $argv[2]"),
        Completed::Zsh => unreachable!("it completes on a terminal alone"),
    };
    // An empty folder: no words but the program's, and nobody's own settings.
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).expect("made");
    let mut command = Command::new(program);
    command.current_dir(&empty).env("HOME", &empty).args(["-c", script]).arg(&file).arg(line);
    let Ok(ended) = command.output() else {
        crate::testing::skips::needs(program);
        return None;
    };
    assert!(ended.stderr.is_empty(), "{program}: {}", String::from_utf8_lossy(&ended.stderr));
    let text = String::from_utf8(ended.stdout).expect("text");
    Some(text.lines().filter_map(|line| line.split('\t').next()).map(str::to_owned).collect())
}

#[test]
fn shells_offer_commands_flags_and_values_and_nothing_that_is_refused() {
    for shell in [Completed::Bash, Completed::Fish] {
        let cases: [(&str, &[&str]); 4] = [
            ("podwright tr", &["trace"]),
            ("podwright --max-p", &["--max-pods"]),
            ("podwright trace --chr", &["--chrome"]),
            ("podwright help", &[]),
        ];
        for (line, expected) in cases {
            let Some(words) = offered(shell, line) else { continue };
            let words: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
            assert_eq!(words, expected, "{shell:?}: {line}");
        }
        let Some(words) = offered(shell, "podwright completions ") else { continue };
        for name in ["bash", "zsh", "fish"] {
            assert!(words.iter().any(|word| word == name), "{shell:?}: {words:?}");
        }
    }
}

#[test]
fn there_is_a_page_for_the_program_and_for_each_command() {
    let names: Vec<String> = pages::all().into_iter().map(|(name, _)| name).collect();
    let expected: Vec<String> = SUBCOMMANDS.iter().map(|name| format!("podwright-{name}.8")).collect();
    assert_eq!(names[0], "podwright.8");
    assert_eq!(names[1..], expected);
}

#[test]
fn every_page_has_the_usual_sections_in_order() {
    let usual = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "FILES", "SEE ALSO"];
    for (name, page) in pages::all() {
        let text = plain(&page);
        let titles: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix(".SH ")).map(|title| title.trim_matches('"')).collect();
        let known: Vec<&str> = titles.iter().copied().filter(|title| usual.contains(title)).collect();
        assert_eq!(known, usual, "{name}: {titles:?}");
        assert_eq!(text.lines().filter(|line| line.starts_with(".TH ")).count(), 1, "{name}");
    }
}

#[test]
fn the_programs_page_has_every_flag_with_its_value_and_default() {
    let text = page("podwright.8");
    for flag in FLAGS {
        let value = flag.syntax.usage_name();
        let head = if value.is_empty() { format!("--{}", flag.name) } else { format!("--{} {value}", flag.name) };
        let is_head = |line: &str| line == head || line.ends_with(&format!(", {head}"));
        assert!(text.lines().any(is_head), "{head}");
    }
    assert!(text.contains("Where the agent keeps its files. Default: /var/lib/kubelet."), "{text}");
    for name in SUBCOMMANDS {
        assert!(text.contains(&format!("podwright-{name}(8)")), "{name}");
    }
}

#[test]
fn a_commands_page_has_its_options_and_statuses() {
    let text = page("podwright-explain.8");
    for words in ["podwright explain", "NAMESPACE/POD", "--socket", "The pod is not as it should be."] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(page("podwright-trace.8").contains("--chrome"));
}

/// A line that begins with a dot or an apostrophe is a request, and each is one of the few of man(7).
#[test]
fn pages_hold_no_requests_but_those_of_a_manual_page() {
    let known = ["TH", "SH", "SS", "TP", "PP", "RS", "RE", "IP", "br", "ie", "el", "ds", "nr", "if", "hy", "ad"];
    for (name, page) in pages::all() {
        let text = String::from_utf8(page).expect("text");
        for line in text.lines().filter(|line| line.starts_with(['.', '\''])) {
            let request = line[1..].split_whitespace().next().unwrap_or_default();
            assert!(known.contains(&request), "{name}: {line}");
        }
    }
}

/// A formatter that is here has nothing to say against a page.
#[test]
fn formatters_accept_the_pages() {
    for (program, arguments) in [("groff", &["-man", "-ww", "-z", "-Tutf8"][..]), ("mandoc", &["-Tlint", "-Wwarning"])]
    {
        for (name, page) in pages::all() {
            let started = Command::new(program)
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn();
            let Ok(mut child) = started else {
                crate::testing::skips::needs(program);
                break;
            };
            child.stdin.take().expect("piped").write_all(&page).expect("taken");
            let ended = child.wait_with_output().expect("ended");
            let said = [ended.stdout, ended.stderr].concat();
            // There is no date, so that builds are alike; and the library breaks lines twice.
            let accepted = ["cannot parse date", "skipping paragraph macro: br"];
            let said = String::from_utf8_lossy(&said);
            let is_new = |line: &&str| accepted.iter().all(|known| !line.contains(known));
            let complaints: Vec<&str> = said.lines().filter(is_new).collect();
            assert!(complaints.is_empty(), "{program} of {name}: {complaints:#?}");
        }
    }
}

#[test]
fn pages_are_written_into_a_directory_that_is_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("share/man8");
    let listed = write_pages(&directory).expect("written");
    assert_eq!(listed.lines().count(), SUBCOMMANDS.len() + 1);
    assert!(std::fs::read_to_string(directory.join("podwright-ps.8")).expect("there").contains(".TH podwright"));
    let file = directory.join("podwright.8");
    write_pages(&file).expect_err("a file is no directory");
}
