//! The likely meaning of a mistyped flag or command. Pure; keeps nothing.

use super::table::FLAGS;

/// The names of the commands that look into the agent, and what each does, as `--help` lists them.
pub const COMMANDS: &[(&str, &str)] = &[
    ("ps", "Lists the pods of this node and what each waits for"),
    ("explain", "Says why a pod is not ready; status 3 when it is not"),
    ("actors", "Shows the agent's actors: mailboxes, turns, restarts, work under way"),
    ("trace", "Shows the agent's last turns and what caused each"),
    ("plugins", "Lists the plugins of this node: how far each is, and its open calls"),
    ("events", "Lists the last events of this node, also where no API server takes them"),
    ("images", "Lists the runtime's images, who uses them, and the pulls that containers wait for"),
    ("top", "Shows processor time and memory of the node, its pods and their containers"),
    ("logs", "Prints what a container wrote, rotated files included"),
    ("restart", "Stops containers of a pod and starts them again, whatever their restart policy"),
    ("reset-back-off", "Has containers of a pod started without the rest of their back-off"),
    ("exec", "Runs a command in a container"),
    ("debug-bundle", "Packs the agent's inside for a report, without secrets"),
    (
        "check-config",
        "Checks a configuration without an agent: every fault at once; status 1 when an agent would not start with it",
    ),
    ("completions", "Prints what completes this program's words in a shell"),
    ("man", "Writes the manual pages into a directory"),
];

/// A word with more mistakes is another word.
const MISTAKES_MAX: usize = 3;

/// Shorter beginnings of a name than this suggest nothing.
const BEGINNING_MIN: usize = 4;

/// A question to go behind pflag's text about an unknown flag; empty where no flag is near.
pub fn flag(mistyped: &str) -> String {
    let typed = mistyped.replace('_', "-");
    nearest(&typed, FLAGS.iter().map(|flag| flag.name))
        .map_or_else(String::new, |near| format!("; did you mean --{near}?"))
}

/// The same of an unknown command. One that is known came after flags, which are the agent's own.
pub fn command(mistyped: &str) -> String {
    if COMMANDS.iter().any(|(name, _)| *name == mistyped) {
        return format!("; a command comes before its flags: podwright {mistyped} ...");
    }
    let names = COMMANDS.iter().map(|(name, _)| *name);
    nearest(mistyped, names).map_or_else(String::new, |near| format!("; did you mean {near:?}?"))
}

/// The name with the fewest mistakes, at most one for every three letters and three in all; else the only one that begins
/// so.
fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let mistakes_max = (typed.chars().count() / 3).min(MISTAKES_MAX);
    let near = names.clone().map(|name| (distance(typed, name), name)).min()?;
    if near.0 <= mistakes_max {
        return Some(near.1);
    }
    let mut beginning = names.filter(|name| typed.len() >= BEGINNING_MIN && name.starts_with(typed));
    beginning.next().filter(|_| beginning.next().is_none())
}

/// How many letters are to be put in, left out, exchanged or swapped with their neighbour to make `one` the `other`.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let (mut before, mut last): (Vec<usize>, Vec<usize>) = (vec![], (0..=other.len()).collect());
    for (row, letter) in one.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, wanted) in other.iter().enumerate() {
            let exchanged = last[column] + usize::from(letter != wanted);
            let mut least = exchanged.min(last[column + 1] + 1).min(next[column] + 1);
            if row > 0 && column > 0 && *letter == other[column - 1] && one[row - 1] == *wanted {
                least = least.min(before[column - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut last, next);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_counted() {
        for (one, other, mistakes) in [
            ("", "", 0),
            ("", "ab", 2),
            ("ab", "", 2),
            ("kubeconfig", "kube-config", 1),
            ("abcd", "acbd", 1),
            ("abc", "xyz", 3),
        ] {
            assert_eq!(distance(one, other), mistakes, "{one} {other}");
        }
    }

    #[test]
    fn a_mistyped_flag_gets_a_suggestion_and_another_word_does_not() {
        for (typed, suggested) in [
            ("kube-config", "; did you mean --kubeconfig?"),
            ("max-pod", "; did you mean --max-pods?"),
            ("node_lables", "; did you mean --node-labels?"),
            ("root", "; did you mean --root-dir?"),
            ("foo", ""),
            ("x", ""),
            ("pods-per-ocre", "; did you mean --pods-per-core?"),
            ("network-plugin", ""),
            ("container-runtime", "; did you mean --container-runtime-endpoint?"),
        ] {
            assert_eq!(flag(typed), suggested, "{typed}");
        }
    }

    #[test]
    fn a_mistyped_command_gets_a_suggestion() {
        for (typed, suggested) in [
            ("explian", "; did you mean \"explain\"?"),
            ("log", "; did you mean \"logs\"?"),
            ("run", ""),
            ("ps", "; a command comes before its flags: podwright ps ..."),
        ] {
            assert_eq!(command(typed), suggested, "{typed}");
        }
    }
}
