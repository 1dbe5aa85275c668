//! The behaviour of a simulated container, as its `args` say: the agent carries them to the runtime like any others.
//!
//! `run`; `exit 1 after 2500ms`; `exit 1 after 2s below 3` (from attempt 3 on it runs); `cannot start`. Any may be
//! followed by `stops in 5s` (after the stop signal; default 50 ms) or `ignores stop`, by `with 0` (its exit code then;
//! default 143), and by what it takes each second: `writes 1000` (bytes to its log), `leaks 1000` (bytes of memory),
//! `fills 1000` (bytes of its writable layer), `litters 10` (files there), `forks 10` (processes).

use std::time::Duration;

/// How long a container takes to end once it was asked to.
const STOP_DEFAULT: Duration = Duration::from_millis(50);

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// Its life by itself.
    pub life: Life,
    /// How long it takes to end after the stop signal; `None` when it ignores it.
    pub stops_in: Option<Duration>,
    /// With which exit code it then ends.
    pub stop_code: i32,
    /// The bytes a second that it writes to its log.
    pub writes: u64,
    /// Memory that it takes and never gives back, in bytes a second.
    pub leaks: u64,
    /// Bytes that it writes to its writable layer, a second.
    pub fills: u64,
    /// Files that it makes there a second.
    pub litters: u64,
    /// Processes that it starts a second and that never end.
    pub forks: u64,
}

/// The life of a container by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Runs until stopped.
    Run,
    /// Ends.
    Exit {
        /// With this code.
        code: i32,
        /// So long after its start.
        after: Duration,
        /// Only in attempts below this one.
        below: u32,
    },
    /// The runtime cannot start it.
    CannotStart,
}

impl Behaviour {
    /// Reads `args`; what is not understood runs for ever, as a real server would.
    pub fn parse(args: &[String]) -> Self {
        let text = args.join(" ");
        let words: Vec<&str> = text.split_whitespace().collect();
        let life = match words.as_slice() {
            ["exit", code, "after", after, "below", below, ..] => Life::Exit {
                code: code.parse().unwrap_or(0),
                after: duration(after),
                below: below.parse().unwrap_or(0),
            },
            ["exit", code, "after", after, ..] => {
                Life::Exit { code: code.parse().unwrap_or(0), after: duration(after), below: u32::MAX }
            }
            ["cannot", "start", ..] => Life::CannotStart,
            _ => Life::Run,
        };
        let stops_in = match words.iter().position(|word| matches!(*word, "stops" | "ignores")) {
            Some(place) if words[place] == "ignores" => None,
            Some(place) => Some(words.get(place + 2).map_or(STOP_DEFAULT, |word| duration(word))),
            None => Some(STOP_DEFAULT),
        };
        let after = |name: &str| words.iter().position(|word| *word == name).and_then(|place| words.get(place + 1));
        let rate = |name: &str| after(name).and_then(|word| word.parse().ok()).unwrap_or(0);
        Self {
            life,
            stops_in,
            stop_code: after("with").and_then(|word| word.parse().ok()).unwrap_or(143),
            writes: rate("writes"),
            leaks: rate("leaks"),
            fills: rate("fills"),
            litters: rate("litters"),
            forks: rate("forks"),
        }
    }

    /// When it ends by itself in this attempt, and with which code.
    pub fn end(&self, attempt: u32) -> Option<(Duration, i32)> {
        match self.life {
            Life::Exit { code, after, below } if attempt < below => Some((after, code)),
            _ => None,
        }
    }
}

fn duration(word: &str) -> Duration {
    let number = |suffix: &str| word.strip_suffix(suffix).and_then(|number| number.parse::<u64>().ok());
    match (number("ms"), number("s")) {
        (Some(milliseconds), _) => Duration::from_millis(milliseconds),
        (None, Some(seconds)) => Duration::from_secs(seconds),
        (None, None) => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Behaviour {
        Behaviour::parse(&[text.to_owned()])
    }

    #[test]
    fn words_become_behaviour() {
        let exit = |code, after, below| Life::Exit { code, after: Duration::from_millis(after), below };
        let cases = [
            ("run", Life::Run, Some(STOP_DEFAULT)),
            ("run ignores stop", Life::Run, None),
            ("run stops in 5s", Life::Run, Some(Duration::from_secs(5))),
            ("exit 1 after 2500ms", exit(1, 2500, u32::MAX), Some(STOP_DEFAULT)),
            ("exit 0 after 2s below 3", exit(0, 2000, 3), Some(STOP_DEFAULT)),
            ("cannot start", Life::CannotStart, Some(STOP_DEFAULT)),
        ];
        for (text, life, stops_in) in cases {
            assert_eq!(parse(text), Behaviour { life, stops_in, ..parse("run") }, "{text}");
        }
        let plain = parse("run");
        assert_eq!((plain.stop_code, plain.writes, plain.leaks, plain.forks), (143, 0, 0, 0));
        let expected = Behaviour { stops_in: None, stop_code: 0, writes: 70, ..plain };
        assert_eq!(parse("run ignores stop with 0 writes 70"), expected);
        let hungry = Behaviour { leaks: 1, fills: 2, litters: 3, forks: 4, ..plain };
        assert_eq!(parse("run leaks 1 fills 2 litters 3 forks 4"), hungry);
        assert_eq!(parse("exit 1 after 2s below 3").end(2), Some((Duration::from_secs(2), 1)));
        assert_eq!(parse("exit 1 after 2s below 3").end(3), None);
    }
}
