//! One seed's story, or many seeds until one fails.

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::ops::Range;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use clap::Parser;
use podwright::sim::faults::{parse_list, write_list};
use podwright::sim::scenarios::{cluster_scenario, plugin_scenario, scenario};
use podwright::sim::{Crash, Options, Run, describe, run};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

/// The growth of memory that is allowed while pods come and go, in percent.
const GROWTH_MAX: f64 = 10.0;

/// Runs the whole agent on a simulated node: same seed, same story.
#[derive(Clone, Debug, Parser)]
#[command(name = "simulate")]
struct Arguments {
    /// The seed of one story, which is printed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Many seeds, FROM..TO: says how many a second, and stops at the first that breaks an invariant
    #[arg(long, value_name = "FROM..TO", value_parser = range)]
    seeds: Option<Range<u64>>,
    /// How many pods
    #[arg(long, default_value_t = 8)]
    pods: usize,
    /// The faults: a list of names, all, none; -NAME takes one away
    #[arg(long, default_value = "all", allow_hyphen_values = true)]
    faults: String,
    /// How long pods are wanted, edited and deleted, in virtual seconds
    #[arg(long, default_value_t = 90)]
    duration: u64,
    /// One actor's message at which it fails, KIND:INDEX[:before|:after]
    #[arg(long)]
    crash: Option<Crash>,
    /// Small mailboxes of one kind of actor, KIND:MESSAGES
    #[arg(long, value_parser = mailbox)]
    mailbox: Option<(String, usize)>,
    /// The call to the outside at which the agent is killed, INDEX[:before|:after]
    #[arg(long, value_parser = kill)]
    kill: Option<(u64, bool)>,
    /// The short fixed scenario instead of the standard one
    #[arg(long)]
    short: bool,
    /// All pods at once instead of the standard scenario: started, deleted, nothing left
    #[arg(long, conflicts_with = "short")]
    crowd: bool,
    /// So many pods instead of a scenario, a hundred at a time, each another one: says what memory they leave behind, and
    /// fails when it grows
    #[arg(long, conflicts_with_all = ["short", "crowd", "cluster", "seeds"])]
    churn: Option<usize>,
    /// The node is part of a cluster: an API server, pods that it wants, and what goes wrong with it
    #[arg(long, conflicts_with = "crowd")]
    cluster: bool,
    /// The node of a cluster has drivers beside the agent: devices, and what goes wrong with them
    #[arg(long, conflicts_with_all = ["crowd", "cluster", "offline", "churn"])]
    plugins: bool,
    /// The agent of the cluster's node has `--offline-store`
    #[arg(long, requires = "cluster")]
    offline: bool,
    /// Periodic looks come once in ten hours, and the node has a minute to become right
    #[arg(long, conflicts_with = "churn")]
    strict: bool,
    /// Print what was broken only, not the story
    #[arg(long)]
    quiet: bool,
    /// The agent's log goes to the standard error stream, by a filter such as `debug`, with the virtual seconds since its start
    #[arg(long, value_name = "FILTER", conflicts_with = "seeds")]
    log: Option<EnvFilter>,
}

/// Tells log lines the virtual time since the first of them.
#[derive(Default)]
struct VirtualTime {
    began: OnceLock<tokio::time::Instant>,
}

impl FormatTime for VirtualTime {
    #[expect(clippy::disallowed_methods, reason = "the log is beside the simulator, and has no clock of it")]
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        // The first lines come before the runtime is there, or after it has gone.
        if tokio::runtime::Handle::try_current().is_err() {
            return Ok(());
        }
        let now = tokio::time::Instant::now();
        write!(writer, "{:>10.3}s", (now - *self.began.get_or_init(|| now)).as_secs_f64())
    }
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("expected FROM..TO")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}"));
    Ok(number(from)?..number(to)?)
}

fn mailbox(text: &str) -> Result<(String, usize), String> {
    let (kind, bound) = text.split_once(':').ok_or("expected KIND:MESSAGES")?;
    Ok((kind.to_owned(), bound.parse().map_err(|error| format!("{bound:?}: {error}"))?))
}

fn kill(text: &str) -> Result<(u64, bool), String> {
    let (index, after) = match text.split_once(':') {
        None | Some((_, "before")) => (text.trim_end_matches(":before"), false),
        Some((index, "after")) => (index, true),
        Some(_) => return Err("expected INDEX, INDEX:before or INDEX:after".to_owned()),
    };
    Ok((index.parse().map_err(|error| format!("{index:?}: {error}"))?, after))
}

impl Arguments {
    fn options(&self, seed: u64) -> Result<Options, String> {
        let faults = parse_list(&self.faults)?;
        let mut command = if self.short {
            format!("simulate --seed {seed} --short --faults {}", write_list(&faults))
        } else if self.crowd {
            format!("simulate --seed {seed} --pods {} --crowd --faults {}", self.pods, write_list(&faults))
        } else {
            let Self { pods, duration, .. } = self;
            format!("simulate --seed {seed} --pods {pods} --duration {duration} --faults {}", write_list(&faults))
        };
        if self.cluster {
            command.push_str(" --cluster");
        }
        if self.plugins {
            command.push_str(" --plugins");
        }
        if self.offline {
            command.push_str(" --offline");
        }
        if self.strict {
            command.push_str(" --strict");
        }
        if let Some(crash) = &self.crash {
            command.push_str(&format!(" --crash {crash}"));
        }
        if let Some((kind, bound)) = &self.mailbox {
            command.push_str(&format!(" --mailbox {kind}:{bound}"));
        }
        if let Some((index, after)) = self.kill {
            command.push_str(&format!(" --kill {index}:{}", if after { "after" } else { "before" }));
        }
        let (crash, mailbox) = (self.crash.clone(), self.mailbox.clone());
        let (cluster, plugins, offline) = (self.cluster || self.plugins, self.plugins, self.offline);
        Ok(Options {
            faults,
            cluster,
            plugins,
            offline,
            crash,
            mailbox,
            kill_at: self.kill,
            strict: self.strict,
            command,
            ..Options::default()
        })
    }

    fn run(&self, seed: u64) -> Result<Run<()>, String> {
        let (pods, time) = (self.pods.max(1), Duration::from_secs(self.duration));
        let (short, crowd, cluster, plugins) = (self.short, self.crowd, self.cluster, self.plugins);
        Ok(run(seed, self.options(seed)?, move |world| async move {
            if plugins {
                return match short {
                    true => plugin_scenario::short(world).await,
                    false => plugin_scenario::standard(world, pods, time).await,
                };
            }
            match (short, crowd, cluster) {
                (true, _, true) => cluster_scenario::short(world).await,
                (true, ..) => scenario::short(world).await,
                (_, true, _) => drop(scenario::crowd(world, pods).await),
                (.., true) => cluster_scenario::standard(world, pods, time).await,
                _ => scenario::standard(world, pods, time).await,
            }
        }))
    }
}

/// Prints a line. Once nobody reads any more (`| head`) nothing is left to be done, and nothing was found to be good.
fn say(line: impl Display) {
    if writeln!(io::stdout(), "{line}").is_err() {
        std::process::exit(1);
    }
}

fn one(arguments: &Arguments) -> Result<bool, String> {
    if let Some(filter) = &arguments.log {
        let log = tracing_subscriber::fmt().with_timer(VirtualTime::default()).with_ansi(false).with_writer(io::stderr);
        log.with_env_filter(filter.clone()).init();
    }
    let run = arguments.run(arguments.seed)?;
    if !arguments.quiet {
        for line in &run.story {
            say(line);
        }
    }
    for violation in &run.violations {
        say(violation);
    }
    let end = run.story.last().map_or(Duration::ZERO, |line| line.at);
    say(format_args!(
        "seed {}: {} lines, {:.0} virtual seconds, {} broken",
        arguments.seed,
        run.story.len(),
        end.as_secs_f64(),
        run.violations.len()
    ));
    Ok(run.violations.is_empty())
}

#[expect(clippy::disallowed_methods, reason = "the rate is one of real time")]
fn many(arguments: &Arguments, seeds: Range<u64>) -> Result<bool, String> {
    let began = Instant::now();
    let mut virtual_time = Duration::ZERO;
    let mut count: u32 = 0;
    for seed in seeds {
        let run = arguments.run(seed)?;
        virtual_time += run.story.last().map_or(Duration::ZERO, |line| line.at);
        count += 1;
        if !run.violations.is_empty() {
            say(describe(&run.violations, &run.story));
            return Ok(false);
        }
    }
    let real = began.elapsed().as_secs_f64();
    say(format_args!(
        "{count} seeds, none broken: {:.1} seeds a second, {:.0} virtual seconds in {real:.1} s",
        f64::from(count) / real.max(f64::MIN_POSITIVE),
        virtual_time.as_secs_f64()
    ));
    Ok(true)
}

/// Resident memory of this process, in KiB.
fn resident() -> Result<u64, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| format!("/proc/self/status: {error}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| "/proc/self/status does not tell of VmRSS".to_owned())
}

/// The growth beyond `from`, in percent of it.
fn growth(from: u64, to: u64) -> f64 {
    (to as f64 / from.max(1) as f64 - 1.0) * 100.0
}

/// Many pods, one after another. The cost of a full node, and of the memory of the last pods, is known after a fifth of
/// them; growth beyond that by the end is lost.
fn churn(arguments: &Arguments, pods: usize) -> Result<bool, String> {
    let (hundred, seed) = (scenario::CHURN_AT_A_TIME, arguments.seed);
    let (begin, every) = ((pods / 5).next_multiple_of(hundred), (pods / 20).next_multiple_of(hundred));
    let command = format!("simulate --seed {seed} --churn {pods} --faults none");
    let options = Options { command, ..Options::default() };
    let told = run(seed, options, move |world| async move {
        let seen = std::sync::Mutex::new(Vec::new());
        let look = |count: usize| {
            if !count.is_multiple_of(every) && count < pods {
                return;
            }
            let memory = resident();
            if let Ok(memory) = &memory {
                say(format_args!("{count:>6} pods: {memory} KiB resident"));
            }
            seen.lock().expect("nobody panics with it").push((count, memory));
        };
        scenario::churn(world, pods, look).await;
        seen.into_inner().expect("nobody panics with it")
    });
    for violation in &told.violations {
        say(violation);
    }
    let measured = told.value.into_iter().map(|(count, memory)| memory.map(|memory| (count, memory)));
    let measured: Vec<(usize, u64)> = measured.collect::<Result<_, String>>()?;
    let first = measured.iter().find(|(count, _)| *count >= begin).copied().ok_or("there is nothing to compare")?;
    let last = measured.last().copied().unwrap_or(first);
    let grown = growth(first.1, last.1);
    say(format_args!("from {} pods to {}: {grown:+.1} % of memory", first.0, last.0));
    if grown > GROWTH_MAX {
        say(format_args!("that is more than {GROWTH_MAX} %"));
    }
    Ok(told.violations.is_empty() && grown <= GROWTH_MAX)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match (arguments.seeds.clone(), arguments.churn) {
        (Some(seeds), _) => many(&arguments, seeds),
        (None, Some(pods)) => churn(&arguments, pods),
        (None, None) => one(&arguments),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("simulate: {problem}");
            ExitCode::from(2)
        }
    }
}
