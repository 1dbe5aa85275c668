//! Out-of-memory kills of the machine in the kernel's log (RES-61). A group that reaches its own limit is no such kill: its
//! container's status says it.
//!
//! Owned by the operation that follows the log. As upstream's parser, a report is read from its first line on until a line
//! says who was killed.

use std::fmt;

/// The beginning of a report.
const BEGINS: &str = "invoked oom-killer:";
/// The group whose limit was reached, since Linux 5.0; a report of the machine has no such part.
const GROUP: &str = ",oom_memcg=";
/// The part after that.
const GROUP_END: &str = ",task_memcg=";
/// The part before that group in older kernels.
const LEGACY_GROUP: &str = " killed as a result of limit of ";
/// The process that was killed.
const KILLED: &str = "Killed process ";

/// A process that the kernel killed because the machine had no memory left. Its `Display` is the Event's sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemOomKill {
    /// The name and the number of the process, where the kernel says them.
    pub victim: Option<(String, u32)>,
}

impl fmt::Display for SystemOomKill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("System OOM encountered")?;
        match &self.victim {
            Some((name, pid)) => write!(f, ", victim process: {name}, pid: {pid}"),
            None => Ok(()),
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct OomReader {
    /// A report is under way; whether a group's limit is its cause.
    report: Option<bool>,
}

impl OomReader {
    /// Takes the next line of the log; gives the kill that it ends the report of.
    pub fn take(&mut self, line: &str) -> Option<SystemOomKill> {
        if line.contains(BEGINS) {
            self.report = Some(false);
            return None;
        }
        let is_of_group = self.report.as_mut()?;
        if let Some(group) = group_of(line) {
            *is_of_group = group != "/";
        }
        let is_of_machine = !*is_of_group;
        let (_, victim) = line.split_once(KILLED)?;
        self.report = None;
        is_of_machine.then(|| SystemOomKill { victim: victim_of(victim) })
    }
}

fn group_of(line: &str) -> Option<&str> {
    if let Some((_, group)) = line.split_once(LEGACY_GROUP) {
        return Some(group.trim_end());
    }
    let (_, rest) = line.split_once(GROUP)?;
    rest.rsplit_once(GROUP_END).map(|(group, _)| group)
}

/// Of `123 (name) total-vm:…`. The name may have parentheses, the figures after it have none.
fn victim_of(text: &str) -> Option<(String, u32)> {
    let (pid, rest) = text.split_once(" (")?;
    let (name, _) = rest.rsplit_once(')')?;
    let pid = pid.parse().ok().filter(|pid| *pid != 0)?;
    (!name.is_empty()).then(|| (name.to_owned(), pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lines: &[&str]) -> Vec<String> {
        let mut reader = OomReader::default();
        lines.iter().filter_map(|line| reader.take(line)).map(|kill| kill.to_string()).collect()
    }

    const BEGINNING: &str =
        "stress invoked oom-killer: gfp_mask=0x140dca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0";
    const FIGURES: &str = "total-vm:1234kB, anon-rss:1000kB, file-rss:0kB, UID:0 pgtables:44kB oom_score_adj:0";

    /// RES-61.
    #[test]
    fn res_61_a_kill_of_the_machine_names_its_victim() {
        let constraint = "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,\
                          task_memcg=/kubepods/podu/c1,task=stress,pid=4711,uid=0";
        let killed = format!("Out of memory: Killed process 4711 (stress) {FIGURES}");
        let lines = ["eth0: link up", BEGINNING, "Mem-Info:", constraint, &killed];
        assert_eq!(told(&lines), ["System OOM encountered, victim process: stress, pid: 4711"]);
        let odd = format!("Out of memory: Killed process 7 (a) (b)) {FIGURES}");
        assert_eq!(told(&[BEGINNING, &odd]), ["System OOM encountered, victim process: a) (b), pid: 7"]);
        assert_eq!(told(&[BEGINNING, "Out of memory: Killed process ?"]), ["System OOM encountered"]);
    }

    /// RES-61.
    #[test]
    fn res_61_a_group_at_its_own_limit_is_no_kill_of_the_machine() {
        let killed = format!("Memory cgroup out of memory: Killed process 4711 (stress) {FIGURES}");
        let of_group = |group: &str| {
            format!(
                "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=c1,mems_allowed=0,oom_memcg={group},\
                 task_memcg={group},task=stress,pid=4711,uid=0"
            )
        };
        assert_eq!(told(&[BEGINNING, &of_group("/kubepods/podu/c1"), &killed]), [""; 0]);
        assert_eq!(told(&[BEGINNING, &of_group("/"), &killed]).len(), 1);
        let legacy = "Task in /kubepods/podu/c1 killed as a result of limit of /kubepods/podu";
        assert_eq!(told(&[BEGINNING, legacy, &killed]), [""; 0]);
        assert_eq!(told(&[BEGINNING, "Task in /a killed as a result of limit of /", &killed]).len(), 1);
    }

    /// Lines that somebody else wrote are no report.
    #[test]
    fn a_line_without_a_report_is_nothing() {
        let killed = format!("Out of memory: Killed process 4711 (stress) {FIGURES}");
        assert_eq!(told(&[&killed, BEGINNING, &killed, &killed]).len(), 1);
    }
}
