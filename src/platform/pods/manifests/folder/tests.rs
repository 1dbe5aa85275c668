//! Manifests in real folders.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use super::*;

/// How long a change may take to be seen; far more than it does.
const PATIENCE: Duration = Duration::from_secs(60);

fn folder_of(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    for (name, content) in files {
        fs::write(folder.path().join(name), content).expect("written");
    }
    folder
}

fn names(folder: &Folder) -> Vec<&str> {
    let names = folder.files.iter().map(|file| file.path.file_name().and_then(OsStr::to_str));
    names.map(|name| name.expect("text")).collect()
}

async fn scan_of(path: &Path) -> Folder {
    LinuxManifestFolder::new(path).scan().await.expect("read")
}

async fn watch_of(path: &Path) -> Changes {
    LinuxManifestFolder::new(path).watch().await.expect("watched")
}

async fn hint(changes: &mut Changes) -> Option<FolderChange> {
    tokio::time::timeout(PATIENCE, changes.next()).await.expect("seen in time")
}

#[tokio::test]
async fn regular_files_are_read_by_name() {
    let place = folder_of(&[("b.yaml", "b"), ("a.yaml", "a"), (".hidden", "x"), ("c", "c")]);
    fs::create_dir(place.path().join("below")).expect("made");
    fs::write(place.path().join("below/d.yaml"), "d").expect("written");
    symlink("a.yaml", place.path().join("link")).expect("linked");
    let fifo = place.path().join("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).expect("made");
    let folder = scan_of(place.path()).await;
    assert_eq!(names(&folder), ["a.yaml", "b.yaml", "c", "link"]);
    let contents: Vec<&[u8]> = folder.files.iter().map(|file| &**file.content.as_ref().expect("read")).collect();
    assert_eq!(contents, [b"a", b"b", b"c", b"a"]);
    assert!(!folder.missing);
}

#[test]
fn a_folder_with_too_many_names_is_not_read_in_part() {
    let folder = folder_of(&[("a.yaml", ""), ("b.yaml", ""), (".c", "")]);
    assert_eq!(bounded_names(folder.path(), 3).expect("read").len(), 3);
    let error = bounded_names(folder.path(), 2).expect_err("too many");
    assert_eq!(error.to_string(), "holds more than 2 names");
}

#[tokio::test]
async fn a_broken_file_leaves_the_others() {
    let place = folder_of(&[("a", "a"), ("z", "z")]);
    symlink("nowhere", place.path().join("dangling")).expect("linked");
    let large = fs::File::create(place.path().join("large")).expect("made");
    large.set_len(MANIFEST_BYTES_MAX as u64 + 1).expect("grown");
    let full = fs::File::create(place.path().join("largest")).expect("made");
    full.set_len(MANIFEST_BYTES_MAX as u64).expect("grown");
    let folder = scan_of(place.path()).await;
    let well: Vec<bool> = folder.files.iter().map(|file| file.content.is_ok()).collect();
    assert_eq!(
        (names(&folder), well),
        (vec!["a", "dangling", "large", "largest", "z"], vec![true, false, false, true, true])
    );
}

#[tokio::test]
async fn the_path_may_be_a_file_or_missing_and_nothing_else() {
    let place = folder_of(&[("pod.yaml", "pod")]);
    assert_eq!(names(&scan_of(&place.path().join("pod.yaml")).await), ["pod.yaml"]);
    assert_eq!(scan_of(&place.path().join("pod.yaml/")).await.files[0].path, place.path().join("pod.yaml"));
    let missing = scan_of(&place.path().join("missing")).await;
    assert!(missing.missing && missing.files.is_empty());
    let error = LinuxManifestFolder::new(Path::new("/dev/null")).scan().await.expect_err("a device");
    assert_eq!(error.to_string(), "read static pod path /dev/null: is neither a directory nor a regular file");
}

/// The change, the hint that is expected (whole or not, and which file went), and the doing.
type Change<'a> = (&'a str, (bool, Option<&'a str>), &'a dyn Fn());

#[tokio::test]
async fn changes_of_files_are_seen() {
    let place = folder_of(&[("there", "x"), ("leaving", "x")]);
    let outside = folder_of(&[("coming", "x")]);
    let file = |name: &str| place.path().join(name);
    let (growing, whole) = (|| (false, None), |gone| (true, gone));
    let changes: [Change<'_>; 6] = [
        ("created", growing(), &|| fs::write(file("new"), "x").expect("written")),
        ("written", growing(), &|| fs::write(file("there"), "y").expect("written")),
        ("rights", growing(), &|| {
            let rights = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o600);
            fs::set_permissions(file("there"), rights).expect("changed");
        }),
        ("moved away", whole(Some("leaving")), &|| {
            fs::rename(file("leaving"), outside.path().join("left")).expect("moved")
        }),
        ("moved here", whole(None), &|| fs::rename(outside.path().join("coming"), file("came")).expect("moved")),
        ("removed", whole(Some("there")), &|| fs::remove_file(file("there")).expect("removed")),
    ];
    for (what, (is_whole, gone), change) in changes {
        let mut watch = watch_of(place.path()).await;
        change();
        let expected = FolderChange { is_whole, removed: gone.map(file).into_iter().collect() };
        assert_eq!(hint(&mut watch).await, Some(expected), "{what}");
        assert!(watch.next().now_or_never().is_none_or(|end| end.is_some()), "{what}: the watch goes on");
    }
}

/// POD-09: a file that is there again, however soon, was gone; one that another was moved onto was not.
#[tokio::test]
async fn a_file_that_is_there_again_was_removed() {
    let place = folder_of(&[("pod", "x"), ("next", "x")]);
    let (pod, next) = (place.path().join("pod"), place.path().join("next"));
    let mut watch = watch_of(place.path()).await;
    fs::rename(&next, &pod).expect("moved");
    assert_eq!(hint(&mut watch).await.expect("a hint").removed, BTreeSet::from([next]));
    fs::remove_file(&pod).expect("removed");
    fs::write(&pod, "x").expect("written");
    let change = hint(&mut watch).await.expect("a hint");
    assert_eq!(change, FolderChange { is_whole: false, removed: [pod].into() });
}

#[tokio::test]
async fn hidden_files_and_neighbours_of_the_folder_are_not_changes() {
    let outside = folder_of(&[]);
    let path = outside.path().join("manifests");
    fs::create_dir(&path).expect("made");
    let mut watch = watch_of(&path).await;
    fs::write(path.join(".hidden"), "x").expect("written");
    fs::write(outside.path().join("neighbour"), "x").expect("written");
    // The kernel queued both before the third, so the first hint must be the third's, and the only one.
    tokio::task::yield_now().await;
    assert!(watch.next().now_or_never().is_none());
    fs::write(path.join("seen"), "x").expect("written");
    assert!(hint(&mut watch).await.is_some());
}

#[tokio::test]
async fn many_changes_are_one_hint() {
    let place = folder_of(&[]);
    let mut watch = watch_of(place.path()).await;
    for number in 0..50 {
        fs::write(place.path().join(number.to_string()), "x").expect("written");
    }
    let mut hints = 0;
    while tokio::time::timeout(Duration::from_millis(200), watch.next()).await.is_ok() {
        hints += 1;
    }
    assert!((1..10).contains(&hints), "{hints} hints");
}

/// The hints until the next one that is not there yet.
async fn hints(changes: &mut Changes) -> Vec<FolderChange> {
    let mut all = vec![hint(changes).await.expect("a hint")];
    while let Ok(next) = tokio::time::timeout(Duration::from_millis(50), changes.next()).await {
        all.push(next.expect("the watch goes on"));
    }
    all
}

#[tokio::test]
async fn a_path_that_is_removed_or_replaced_is_watched_on() {
    let outside = folder_of(&[("pod.yaml", "a"), ("next", "b")]);
    let folder = outside.path().join("manifests");
    fs::create_dir(&folder).expect("made");
    let mut watch = watch_of(&folder).await;
    fs::remove_dir(&folder).expect("removed");
    hints(&mut watch).await;
    fs::create_dir(&folder).expect("made again");
    hints(&mut watch).await;
    fs::write(folder.join("pod.yaml"), "x").expect("written");
    hints(&mut watch).await;

    let file = outside.path().join("pod.yaml");
    let mut watch = watch_of(&file).await;
    fs::rename(outside.path().join("next"), &file).expect("replaced");
    assert!(hints(&mut watch).await.iter().all(|hint| hint.removed.is_empty()), "it was replaced");
    fs::write(&file, "c").expect("written");
    hints(&mut watch).await;
}

/// POD-09: where the path is one file, no removal of it falls between two hints.
#[tokio::test]
async fn the_one_file_that_is_there_again_was_removed() {
    let removed =
        async |watch: &mut Changes| hints(watch).await.into_iter().flat_map(|hint| hint.removed).collect::<Vec<_>>();
    for pause in [false, true] {
        let place = folder_of(&[("pod.yaml", "x"), ("next", "x")]);
        let pod = place.path().join("pod.yaml");
        let mut watch = watch_of(&pod).await;
        fs::rename(place.path().join("next"), &pod).expect("replaced");
        if pause {
            assert_eq!(removed(&mut watch).await, Vec::<PathBuf>::new(), "it was replaced");
        }
        fs::remove_file(&pod).expect("removed");
        fs::write(&pod, "x").expect("written");
        assert_eq!(removed(&mut watch).await, std::slice::from_ref(&pod), "after a pause: {pause}");
        fs::remove_file(&pod).expect("removed");
        fs::write(&pod, "x").expect("written");
        assert_eq!(removed(&mut watch).await, [pod], "and once more");
    }
}

#[tokio::test]
async fn a_missing_path_is_seen_when_it_comes() {
    let outside = folder_of(&[]);
    let path = outside.path().join("manifests");
    let mut watch = watch_of(&path).await;
    fs::create_dir(&path).expect("made");
    hints(&mut watch).await;
    fs::write(path.join("pod.yaml"), "x").expect("written");
    hints(&mut watch).await;
    let nowhere = LinuxManifestFolder::new(&outside.path().join("a/b")).watch().await;
    assert!(nowhere.is_err(), "its parent is missing too");
}
