//! `/etc/projects` and `/etc/projid`: which project of a file system's quotas counts which directory (EVI-26; upstream's
//! `fsquota`). Lines of others stay as they are, comments too.

use std::collections::BTreeSet;

/// The first project that is given (upstream's `FirstQuota`): beyond those of administrators.
pub const PROJECT_MIN: u32 = 1_048_577;
/// The most projects in use, and in no file, that a search passes (upstream's).
const PASSED_MAX: usize = 128;

/// A line, and what it says where it is understood.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    text: String,
    said: Option<(u32, String)>,
}

/// Both files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Projects {
    /// `<project>:<directory>`.
    directories: Vec<Line>,
    /// `<name>:<project>`.
    names: Vec<Line>,
}

impl Projects {
    /// The files' content.
    pub fn parse(projects: &str, projid: &str) -> Self {
        let read = |text: &str, said: fn(&str) -> Option<(u32, String)>| {
            text.lines().map(|line| Line { text: line.to_owned(), said: said(line) }).collect()
        };
        Self { directories: read(projects, directory), names: read(projid, name) }
    }

    /// The content of `/etc/projects`, and of `/etc/projid`.
    pub fn print(&self) -> [String; 2] {
        [&self.directories, &self.names].map(|lines| lines.iter().map(|line| format!("{}\n", line.text)).collect())
    }

    /// The project of a directory.
    pub fn of(&self, directory: &str) -> Option<u32> {
        let mut said = self.directories.iter().filter_map(|line| line.said.as_ref());
        said.find(|(_, known)| known == directory).map(|(project, _)| *project)
    }

    /// The directories that have a project.
    pub fn directories(&self) -> impl Iterator<Item = &str> {
        self.directories.iter().filter_map(|line| line.said.as_ref().map(|(_, directory)| directory.as_str()))
    }

    /// Gives a directory its project: the one that it has, or the first that no file names and nobody uses. `None` where
    /// none is free, and for a directory that no line can name.
    ///
    /// # Errors
    /// Of `is_used`.
    pub fn give<E>(
        &mut self,
        directory: &str,
        mut is_used: impl FnMut(u32) -> Result<bool, E>,
    ) -> Result<Option<u32>, E> {
        if directory.contains('\n') {
            return Ok(None);
        }
        if let Some(project) = self.of(directory) {
            return Ok(Some(project));
        }
        let named: BTreeSet<u32> = self.directories.iter().chain(&self.names).filter_map(Line::project).collect();
        let unnamed = (PROJECT_MIN..=u32::MAX).filter(|project| !named.contains(project));
        for project in unnamed.take(PASSED_MAX) {
            if !is_used(project)? {
                self.directories
                    .push(Line { text: format!("{project}:{directory}"), said: Some((project, directory.to_owned())) });
                let name = format!("volume{project}");
                self.names.push(Line { text: format!("{name}:{project}"), said: Some((project, name)) });
                return Ok(Some(project));
            }
        }
        Ok(None)
    }

    /// Takes a directory's project back, and its name once no other directory has it. Says whether it had one.
    pub fn take(&mut self, directory: &str) -> bool {
        let Some(project) = self.of(directory) else { return false };
        self.directories.retain(|line| line.said.as_ref().is_none_or(|(_, known)| known != directory));
        if !self.directories.iter().any(|line| line.project() == Some(project)) {
            self.names.retain(|line| line.project() != Some(project));
        }
        true
    }
}

impl Line {
    fn project(&self) -> Option<u32> {
        self.said.as_ref().map(|(project, _)| *project)
    }
}

/// A number as both files have it: digits alone.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn directory(line: &str) -> Option<(u32, String)> {
    let (project, directory) = line.split_once(':')?;
    Some((number(project)?, directory.to_owned()))
}

fn name(line: &str) -> Option<(u32, String)> {
    let (name, project) = line.split_once(':')?;
    (!name.is_empty() && !name.starts_with('#')).then_some(())?;
    Some((number(project)?, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const PROJECTS: &str = "# of the administrator\n7:/srv/data\n1048577:/pods/one\nnot a line\n";
    const PROJID: &str = "# names\nsrv:7\nvolume1048577:1048577\n:9\n";

    fn unused(_: u32) -> Result<bool, Infallible> {
        Ok(false)
    }

    #[test]
    fn what_is_not_ours_stays_as_it_is() {
        let mut all = Projects::parse(PROJECTS, PROJID);
        assert_eq!(all.print(), [PROJECTS, PROJID]);
        assert_eq!(all.directories().collect::<Vec<_>>(), ["/srv/data", "/pods/one"]);
        assert_eq!((all.of("/srv/data"), all.of("/pods/two")), (Some(7), None));
        assert!(all.take("/pods/one") && !all.take("/pods/one"));
        let [projects, projid] = all.print();
        assert_eq!(projects, "# of the administrator\n7:/srv/data\nnot a line\n");
        assert_eq!(projid, "# names\nsrv:7\n:9\n");
    }

    #[test]
    fn a_directory_gets_the_first_project_that_is_free() {
        let mut all = Projects::parse(PROJECTS, "taken:1048578\n");
        let used = |project: u32| Ok::<_, Infallible>(project == 1_048_579);
        assert_eq!(all.give("/pods/two", used), Ok(Some(1_048_580)), "two are in files, and one is used");
        assert_eq!(all.give("/pods/two", used), Ok(Some(1_048_580)), "it keeps the one that it has");
        assert_eq!(all.give("/pods/three", unused), Ok(Some(1_048_579)));
        let [projects, projid] = all.print();
        assert!(projects.ends_with("1048580:/pods/two\n1048579:/pods/three\n"), "{projects}");
        assert_eq!(projid, "taken:1048578\nvolume1048580:1048580\nvolume1048579:1048579\n");
        assert_eq!(Projects::parse(&projects, &projid), all);
    }

    #[test]
    fn a_search_ends() {
        let mut all = Projects::default();
        let mut asked = 0;
        let given = all.give("/pods/one", |_| {
            asked += 1;
            Ok::<_, Infallible>(true)
        });
        assert_eq!((given, asked), (Ok(None), PASSED_MAX));
        assert_eq!(all.give("/pods/one", |_| Err("broken")), Err("broken"));
        assert_eq!(all, Projects::default(), "nothing was given");
    }

    #[test]
    fn a_directory_with_a_line_break_has_no_project() {
        let mut all = Projects::default();
        assert_eq!(all.give("/pods/one\n0:/", unused), Ok(None));
        assert_eq!(all.print(), ["", ""]);
    }

    #[test]
    fn a_project_of_several_directories_goes_with_the_last() {
        let mut all = Projects::parse("7:/a\n7:/b\n", "both:7\n");
        assert!(all.take("/a"));
        assert_eq!(all.print(), ["7:/b\n", "both:7\n"]);
        assert!(all.take("/b"));
        assert_eq!(all.print(), ["", ""]);
    }

    #[test]
    fn a_directory_may_have_any_name_but_a_number_is_one() {
        let all = Projects::parse("7:/a:b\n:/c\n+8:/d\n99999999999:/e\n", "a:+7\nb: 8\nc:9\n");
        assert_eq!(all.of("/a:b"), Some(7));
        assert_eq!([all.of("/c"), all.of("/d"), all.of("/e")], [None; 3]);
        assert_eq!(all.names.iter().filter_map(Line::project).collect::<Vec<_>>(), [9]);
    }
}
