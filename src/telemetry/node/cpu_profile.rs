//! Where the agent's processor time goes, in the form that `go tool pprof` reads (SRV-30).
//!
//! Stacks are sampled by the timer of the process's own processor time, so a thread that waits costs nothing and is not
//! seen. Names come from the executable's symbols: only builds with the feature `profiling` have this, and of those only
//! ones that keep symbols say anything.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use crate::logic::model::time::Moment;

/// Samples a second of processor time, as Go takes them.
const HERTZ: i32 = 100;
/// Processor time that one sample stands for.
const SAMPLE_NS: i64 = 1_000_000_000 / HERTZ as i64;

/// A function in a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Called {
    /// Its name, for people.
    name: String,
    /// The name that the linker knows.
    symbol: String,
    /// Its source; empty where nothing is known of it.
    file: String,
    /// The line that was being run.
    line: i64,
}

/// One place of a stack: the function there, after those that the compiler put in its place.
type Place = Vec<Called>;

/// The whole profile: how often each stack was seen, the innermost place first.
fn encoded(stacks: &[(Vec<Place>, i64)], began: Moment, took: Duration) -> io::Result<Vec<u8>> {
    let mut words = Words::default();
    let mut profile = message::Profile {
        sample_type: vec![words.value("samples", "count"), words.value("cpu", "nanoseconds")],
        period_type: Some(words.value("cpu", "nanoseconds")),
        period: SAMPLE_NS,
        time_nanos: began.0,
        duration_nanos: i64::try_from(took.as_nanos()).unwrap_or(i64::MAX),
        ..message::Profile::default()
    };
    let (mut functions, mut places) = (BTreeMap::new(), BTreeMap::new());
    for (stack, count) in stacks {
        let mut location_id = vec![];
        for place in stack {
            if let Some(id) = places.get(place) {
                location_id.push(*id);
                continue;
            }
            let line = place.iter().map(|called| message::Line {
                function_id: function(called, &mut functions, &mut words, &mut profile.function),
                line: called.line,
            });
            let line = line.collect();
            let id = profile.location.len() as u64 + 1;
            profile.location.push(message::Location { id, line });
            places.insert(place, id);
            location_id.push(id);
        }
        profile.sample.push(message::Sample { location_id, value: vec![*count, count.saturating_mul(SAMPLE_NS)] });
    }
    profile.string_table = words.list;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&profile.encode_to_vec())?;
    encoder.finish()
}

/// The function's number; it is listed when it is met first.
fn function<'a>(
    called: &'a Called,
    known: &mut BTreeMap<(&'a str, &'a str), u64>,
    words: &mut Words,
    listed: &mut Vec<message::Function>,
) -> u64 {
    let next = listed.len() as u64 + 1;
    let id = *known.entry((&called.symbol, &called.file)).or_insert(next);
    if id == next {
        let (name, system_name) = (words.number(&called.name), words.number(&called.symbol));
        listed.push(message::Function { id, name, system_name, filename: words.number(&called.file) });
    }
    id
}

/// The profile's texts, each once; the first is empty.
struct Words {
    list: Vec<String>,
    numbers: BTreeMap<String, i64>,
}

impl Default for Words {
    fn default() -> Self {
        Self { list: vec![String::new()], numbers: [(String::new(), 0)].into() }
    }
}

impl Words {
    fn number(&mut self, word: &str) -> i64 {
        if let Some(number) = self.numbers.get(word) {
            return *number;
        }
        let number = i64::try_from(self.list.len()).unwrap_or(0);
        self.list.push(word.to_owned());
        self.numbers.insert(word.to_owned(), number);
        number
    }

    fn value(&mut self, kind: &str, unit: &str) -> message::ValueType {
        message::ValueType { kind: self.number(kind), unit: self.number(unit) }
    }
}

/// Samples until it is dropped. One at a time is there in the whole process.
#[cfg(feature = "profiling")]
pub struct Sampler {
    guard: pprof::ProfilerGuard<'static>,
    began: Moment,
}

#[cfg(feature = "profiling")]
impl Sampler {
    /// Begins, now.
    ///
    /// # Errors
    /// Why it cannot, in Go's words where another one is at work.
    pub fn begin(now: Moment) -> Result<Self, String> {
        // Stacks are not unwound from where the loader or the C library may hold locks.
        let builder = pprof::ProfilerGuardBuilder::default().frequency(HERTZ);
        let guard = builder.blocklist(&["libc", "libgcc", "pthread", "vdso"]).build();
        match guard {
            Ok(guard) => Ok(Self { guard, began: now }),
            Err(pprof::Error::Running) => Err("cpu profiling already in use".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The profile since then. Looks up names, which takes its time: not for a thread that runs actors.
    ///
    /// # Errors
    /// The samples cannot be had.
    pub fn end(self, now: Moment) -> Result<Vec<u8>, String> {
        let report = self.guard.report().build().map_err(|error| error.to_string())?;
        let mut stacks = BTreeMap::<Vec<Place>, i64>::new();
        for (frames, count) in &report.data {
            let stack = frames.frames.iter().map(|place| place.iter().map(called).collect()).collect();
            *stacks.entry(stack).or_default() += i64::try_from(*count).unwrap_or(0);
        }
        drop(self.guard);
        let stacks: Vec<_> = stacks.into_iter().collect();
        encoded(&stacks, self.began, now.since(self.began)).map_err(|error| error.to_string())
    }
}

#[cfg(feature = "profiling")]
fn called(symbol: &pprof::Symbol) -> Called {
    Called {
        name: symbol.name(),
        symbol: symbol.sys_name().into_owned(),
        // Without debug information this is a word that says so.
        file: symbol.filename.as_ref().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default(),
        line: symbol.lineno.map_or(0, i64::from),
    }
}

/// `perftools.profiles`, as far as it is used here.
mod message {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub sample: Vec<Sample>,
        #[prost(message, repeated, tag = "4")]
        pub location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub string_table: Vec<String>,
        #[prost(int64, tag = "9")]
        pub time_nanos: i64,
        #[prost(int64, tag = "10")]
        pub duration_nanos: i64,
        #[prost(message, optional, tag = "11")]
        pub period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub period: i64,
    }

    /// Both are numbers of texts.
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ValueType {
        #[prost(int64, tag = "1")]
        pub kind: i64,
        #[prost(int64, tag = "2")]
        pub unit: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub value: Vec<i64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Location {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(message, repeated, tag = "4")]
        pub line: Vec<Line>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Line {
        #[prost(uint64, tag = "1")]
        pub function_id: u64,
        #[prost(int64, tag = "2")]
        pub line: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Function {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(int64, tag = "2")]
        pub name: i64,
        #[prost(int64, tag = "3")]
        pub system_name: i64,
        #[prost(int64, tag = "4")]
        pub filename: i64,
    }
}

/// Held by each test that samples: a process has one sampler.
#[cfg(all(test, feature = "profiling"))]
pub(crate) static SAMPLED_BY_ONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn decoded(bytes: &[u8]) -> message::Profile {
        let mut plain = vec![];
        flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain).expect("gzip");
        message::Profile::decode(plain.as_slice()).expect("a profile")
    }

    /// The names of a sample's functions, the innermost first.
    fn names<'a>(profile: &'a message::Profile, sample: &message::Sample) -> Vec<&'a str> {
        let place = |id: &u64| &profile.location[usize::try_from(*id).expect("small") - 1];
        let lines = sample.location_id.iter().flat_map(|id| &place(id).line);
        let function = |line: &message::Line| &profile.function[usize::try_from(line.function_id).expect("small") - 1];
        lines.map(|line| profile.string_table[usize::try_from(function(line).name).expect("small")].as_str()).collect()
    }

    fn called(name: &str, line: i64) -> Called {
        Called { name: name.to_owned(), symbol: format!("_{name}"), file: "a.rs".to_owned(), line }
    }

    #[test]
    fn what_stacks_share_is_told_once() {
        let (main, inside) = (vec![called("main", 1)], vec![called("inlined", 7), called("outer", 9)]);
        let stacks = [(vec![inside.clone(), main.clone()], 3), (vec![main], 1)];
        let profile = decoded(&encoded(&stacks, Moment(5), Duration::from_secs(2)).expect("a vector takes all"));
        assert_eq!((profile.time_nanos, profile.duration_nanos, profile.period), (5, 2_000_000_000, 10_000_000));
        let word = |number: i64| profile.string_table[usize::try_from(number).expect("small")].as_str();
        let units: Vec<_> = profile.sample_type.iter().map(|kind| [kind.kind, kind.unit].map(word)).collect();
        assert_eq!(units, [["samples", "count"], ["cpu", "nanoseconds"]]);
        assert_eq!(profile.string_table[0], "", "as readers demand");
        assert_eq!((profile.location.len(), profile.function.len()), (2, 3));
        assert_eq!(names(&profile, &profile.sample[0]), ["inlined", "outer", "main"]);
        assert_eq!(names(&profile, &profile.sample[1]), ["main"]);
        assert_eq!(profile.sample[0].value, [3, 30_000_000]);
    }

    #[cfg(feature = "profiling")]
    #[test]
    fn a_busy_function_is_seen() {
        #[inline(never)]
        fn busy_in_a_test(until: Duration) -> u64 {
            let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
            let time = || nix::time::clock_gettime(clock).map(Duration::from).expect("Linux has this clock");
            let (began, mut sum) = (time(), 0_u64);
            while time() - began < until {
                sum = (0..100_000).fold(sum, |sum, number| std::hint::black_box(sum ^ number));
            }
            sum
        }
        let _one = SAMPLED_BY_ONE.blocking_lock();
        let sampler = Sampler::begin(Moment(0)).expect("nobody else samples");
        assert_eq!(Sampler::begin(Moment(0)).err().as_deref(), Some("cpu profiling already in use"));
        std::hint::black_box(busy_in_a_test(Duration::from_millis(500)));
        let profile = decoded(&sampler.end(Moment(1)).expect("samples"));
        let seen = profile
            .sample
            .iter()
            .filter(|sample| names(&profile, sample).iter().any(|name| name.contains("busy_in_a_test")));
        let count: i64 = seen.map(|sample| sample.value[0]).sum();
        assert!(count >= 5, "{count} samples of half a second");
    }
}
