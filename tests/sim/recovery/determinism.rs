//! One seed tells one story.

use std::process::Command;
use std::time::Duration;

use podwright::sim::faults::parse_list;
use podwright::sim::scenarios::scenario;
use podwright::sim::{Line, Options, run};

fn story(seed: u64) -> Vec<Line> {
    let options = Options { faults: parse_list("all").expect("a list"), ..Options::default() };
    run(seed, options, |world| scenario::standard(world, 8, Duration::from_secs(60))).story
}

/// PAIN-42.
#[test]
fn the_same_seed_tells_the_same_story() {
    for seed in 0..6 {
        let (first, second) = (story(seed), story(seed));
        let differs = first.iter().zip(&second).position(|(one, other)| one != other);
        assert_eq!(differs.map(|place| (&first[place], &second[place])), None, "seed {seed}");
        assert_eq!(first.len(), second.len(), "seed {seed}");
        assert!(first.len() > 50, "seed {seed} tells too little: {}", first.len());
    }
}

#[test]
fn other_seeds_tell_other_stories() {
    assert_ne!(story(1), story(2));
}

#[test]
fn the_program_tells_the_same_story_in_two_processes() {
    let tell = || {
        let mut program = Command::new(env!("CARGO_BIN_EXE_simulate"));
        let output = program.args(["--seed", "11", "--faults", "all", "--duration", "40"]).output();
        let output = output.expect("the program runs");
        (output.status.code(), String::from_utf8(output.stdout).expect("text"))
    };
    let (first, second) = (tell(), tell());
    assert_eq!(first, second);
    let of_faults = first.1.lines().filter(|line| line.contains("fault")).count();
    assert!(of_faults > 0 && first.1.lines().count() > 50, "{}", first.1);
}
