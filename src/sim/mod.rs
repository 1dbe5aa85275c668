//! The simulated node: the outside of the agent, played from one seed, with virtual time and without real I/O.
//!
//! The agent's own actors run unchanged (`actors::wiring::start`) against the same traits. [`simulate`] makes a [`World`]
//! on a thread and a tokio runtime of its own, whose clock is paused: it jumps to the next timer whenever nothing is to
//! be done, so virtual minutes cost real milliseconds. Everything that is drawn comes from the seed, everything that is
//! iterated has an order: one seed tells one story.

pub mod agent;
pub mod api_server;
pub mod clock;
pub mod containers;
pub mod faults;
pub mod invariants;
pub mod meter;
pub mod node;
pub mod pods;
pub mod scenarios;
pub mod story;
pub mod world;

use std::sync::Once;

pub use faults::Fault;
pub use faults::crashes::Crash;
pub use invariants::Violation;
pub use pods::SimPod;
pub use story::Line;
pub use world::{Options, World};

/// Threads of runs, by name: where a panic that was asked for needs no words.
const THREAD: &str = "simulated";
/// Stack of a run's thread, in bytes.
const STACK: usize = 4 << 20;

/// The result of a run.
#[derive(Debug)]
pub struct Run<T> {
    /// The result of the test's own code.
    pub value: T,
    /// The invariants that were broken.
    pub violations: Vec<Violation>,
    /// The story of the run.
    pub story: Vec<Line>,
}

/// Runs `act` in the world of this seed.
///
/// # Panics
/// When `act` panics.
pub fn run<T: Send + 'static, F: Future<Output = T>>(
    seed: u64,
    options: Options,
    act: impl FnOnce(World) -> F + Send + 'static,
) -> Run<T> {
    silence_wanted_panics();
    let body = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime without I/O needs nothing that could be missing");
        runtime.block_on(async move {
            let world = World::new(seed, &options);
            let value = act(world.clone()).await;
            world.node().end();
            Run { value, violations: world.violations(), story: world.story() }
        })
    };
    let thread = std::thread::Builder::new().name(THREAD.to_owned()).stack_size(STACK).spawn(body);
    match thread.expect("a thread can be had").join() {
        Ok(run) => run,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Runs `act` in the world of this seed, without faults but those that it asks for.
///
/// # Panics
/// When `act` panics, or an invariant was broken: with the story's end and the command that shows it again.
pub fn simulate<T: Send + 'static, F: Future<Output = T>>(
    seed: u64,
    act: impl FnOnce(World) -> F + Send + 'static,
) -> T {
    simulate_with(seed, Options::default(), act)
}

/// [`simulate`], with options.
///
/// # Panics
/// As [`simulate`].
pub fn simulate_with<T: Send + 'static, F: Future<Output = T>>(
    seed: u64,
    options: Options,
    act: impl FnOnce(World) -> F + Send + 'static,
) -> T {
    let run = run(seed, options, act);
    assert!(run.violations.is_empty(), "{}", describe(&run.violations, &run.story));
    run.value
}

/// The violations, and the last of the story up to the first of them.
pub fn describe(violations: &[Violation], story: &[Line]) -> String {
    const LINES: usize = 60;
    let first = violations.first().map_or(std::time::Duration::MAX, |violation| violation.at);
    let until = story.partition_point(|line| line.at <= first);
    let lines = &story[until.saturating_sub(LINES)..until];
    let text = |lines: &mut dyn Iterator<Item = String>| lines.collect::<Vec<_>>().join("\n");
    format!(
        "\n{}\n\n{}",
        text(&mut lines.iter().map(ToString::to_string)),
        text(&mut violations.iter().map(ToString::to_string))
    )
}

/// Actors that are made to panic do so by the thousand; only panics that nobody asked for are worth their words.
fn silence_wanted_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let wanted = panic.payload_as_str().is_some_and(|text| text.starts_with("made to fail"));
            if !(wanted && std::thread::current().name() == Some(THREAD)) {
                before(panic);
            }
        }));
    });
}
