//! Which images go and which stay.

mod limits;

use proptest::prelude::*;

use super::*;

const POLICY: ImageGcPolicy = ImageGcPolicy {
    high_percent: 85,
    low_percent: 80,
    age_min: Duration::from_secs(120),
    age_max: Some(Duration::from_secs(1000)),
};

fn image(id: &str, bytes: u64) -> ListedImage {
    ListedImage { id: id.to_owned(), names: vec![format!("reg.example/{id}:1")], bytes, ..ListedImage::default() }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn used(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn ids(pass: &Pass) -> Vec<&str> {
    pass.candidates.iter().map(|image| image.id.as_str()).collect()
}

/// `a` in use until 10 s, `b` until 400 s, `c` never, `d` now, `e` only seen at 400 s.
fn garbage() -> ImageGarbage {
    let mut garbage = ImageGarbage::new(POLICY, Duration::ZERO);
    let early: Vec<ListedImage> = ["a", "b", "c", "d"].map(|id| image(id, 10)).into();
    garbage.detect(&early, &used(&["a", "reg.example/b:1", "d"]), seconds(10));
    let mut late = early;
    late.push(image("e", 10));
    garbage.detect(&late, &used(&["b", "d"]), seconds(400));
    garbage.detect(&late, &used(&["d"]), seconds(450));
    garbage
}

/// CRI-26, CRI-37: where each handler has images of its own, one that another uses may go.
#[test]
fn an_image_is_used_by_containers_of_its_handler() {
    let of = |handler: &str| ListedImage { handler: handler.to_owned(), ..image("a", 10) };
    let left = |containers: &[&str]| -> Vec<String> {
        let mut garbage = ImageGarbage::new(POLICY, Duration::ZERO);
        garbage.detect(&[of(""), of("kata"), of("runsc")], &used(containers), seconds(10));
        garbage.all_unused(seconds(500)).candidates.into_iter().map(|image| image.handler).collect()
    };
    assert_eq!(left(&[]), ["", "kata", "runsc"]);
    assert_eq!(left(&["a,kata"]), ["runsc"], "the one without a handler may be the one that is used");
    assert_eq!(left(&["reg.example/a:1,runsc"]), ["kata"]);
    assert_eq!(left(&["a"]), [""; 0], "it may be any of them");
    assert_eq!(left(&["b,kata", "a2,kata"]), ["", "kata", "runsc"]);

    let mut garbage = ImageGarbage::new(POLICY, Duration::ZERO);
    garbage.detect(&[of("kata"), of("runsc")], &used(&[]), seconds(10));
    garbage.removed(&of("kata"));
    let names: Vec<_> = garbage.all_unused(seconds(500)).candidates.into_iter().map(|image| image.handler).collect();
    assert_eq!(names, ["runsc"]);
}

/// EVI-41.
#[test]
fn unused_images_go_by_age_once_the_agent_itself_is_old_enough() {
    let garbage = garbage();
    assert_eq!(ids(&garbage.too_old(seconds(900))), Vec::<&str>::new());
    assert_eq!(ids(&garbage.too_old(seconds(1005))), ["c", "e"], "never used counts as used at no time");
    assert_eq!(ids(&garbage.too_old(seconds(1011))), ["c", "e", "a"]);
    assert_eq!(ids(&garbage.too_old(seconds(1401))), ["c", "e", "a", "b"]);
}

/// One that begins late knows nothing of what was used before: nothing is too old until it has looked for that long.
#[test]
fn what_was_not_seen_to_be_used_is_no_older_than_the_collector() {
    let mut garbage = ImageGarbage::new(POLICY, seconds(5000));
    garbage.detect(&[image("a", 10)], &used(&[]), seconds(5001));
    assert_eq!(ids(&garbage.too_old(seconds(5999))), Vec::<&str>::new());
    assert_eq!(ids(&garbage.too_old(seconds(6001))), ["a"]);
}

/// CRI-26: also an image that a pass has picked already stays when a pod is given it.
#[test]
fn an_image_that_was_handed_out_is_somebodys_for_a_while() {
    let mut garbage = garbage();
    assert!(!garbage.was_handed_out(&image("a", 10), seconds(500)));
    garbage.handed_out("reg.example/a:1", seconds(500));
    garbage.handed_out("b", seconds(500));
    for (id, after, was) in [("a", 1, true), ("b", 119, true), ("c", 1, false), ("a", 121, false)] {
        assert_eq!(garbage.was_handed_out(&image(id, 10), seconds(500 + after)), was, "{id} after {after} s");
    }
}

/// CRI-26, EVI-40.
#[test]
fn a_full_disk_takes_the_longest_unused_first_and_spares_the_young() {
    let garbage = garbage();
    let disk = |available| DiskUse { capacity: 1000, available };
    assert_eq!(garbage.for_space(disk(160), seconds(500)), Pass::default(), "84 % are in use");
    let pass = garbage.for_space(disk(150), seconds(500));
    assert_eq!((ids(&pass), pass.wanted), (vec!["c", "a", "b"], Some(50)));
    let pass = garbage.for_space(disk(150), seconds(520));
    assert_eq!(ids(&pass), ["c", "e", "a", "b"], "e is old enough now");
}

/// PAIN-23: what is full of other things is not emptied of what is needed.
#[test]
fn when_removal_cannot_help_recently_used_images_stay() {
    let garbage = garbage();
    let full = DiskUse { capacity: 1000, available: 10 };
    let pass = garbage.for_space(full, seconds(520));
    assert_eq!(ids(&pass), ["c", "e"]);
    let holders = garbage.holders(full, &pass);
    assert_eq!(holders, Holders { in_use: 10, unused: 40, kept: 20, other: 940 });
    assert_eq!(
        not_enough(full, 20, holders),
        "Insufficient free disk space on the node's image filesystem (99% of 1000 B used). Failed to free sufficient \
         space by deleting unused images (freed 20 bytes). Investigate disk usage, as it could be used by active images, \
         logs, volumes, or other data. Images in use: 10 B, unused images: 40 B (of which kept: 20 B), everything else: 940 B."
    );
}

/// EVI-42.
#[test]
fn pinned_images_and_those_of_sandboxes_never_go() {
    let mut garbage = ImageGarbage::new(POLICY, Duration::ZERO);
    let pinned = ListedImage { pinned: true, ..image("p", 1) };
    let sandbox = ListedImage { names: vec!["registry.k8s.io/pause:3.10".into()], ..image("s", 1) };
    let like = ListedImage { names: vec!["reg.example/pauses:1".into()], ..image("l", 1) };
    garbage.detect(&[pinned, sandbox, like], &used(&[]), seconds(1));
    assert_eq!(ids(&garbage.too_old(seconds(5000))), ["l"]);
}

#[test]
fn an_image_that_was_just_handed_out_counts_as_used() {
    let mut garbage = garbage();
    garbage.handed_out("reg.example/c:1", seconds(2000));
    let images = ["a", "c"].map(|id| image(id, 10));
    garbage.detect(&images, &used(&[]), seconds(2001));
    assert_eq!(ids(&garbage.too_old(seconds(2001))), ["a"]);
    garbage.detect(&images, &used(&[]), seconds(3200));
    assert_eq!(ids(&garbage.too_old(seconds(3200))), ["a", "c"]);
}

#[test]
fn images_that_are_mounted_are_in_use() {
    let mut garbage = garbage();
    garbage.mounted(&used(&["c"]), seconds(1005));
    assert_eq!(ids(&garbage.too_old(seconds(1005))), ["e"]);
}

#[test]
fn a_pass_that_failed_is_made_again_later_each_time() {
    assert_eq!([1, 2, 3, 5, 6, 60].map(retry_after), [15, 30, 60, 240, 300, 300].map(seconds));
}

#[test]
fn the_next_pass_comes_when_an_image_becomes_old_enough() {
    let garbage = garbage();
    assert_eq!(garbage.next_pass(false, seconds(900)), seconds(100), "c is old at 1000 s");
    assert_eq!(garbage.next_pass(true, seconds(500)), seconds(20), "e is old enough at 520 s");
    assert_eq!(garbage.next_pass(false, seconds(20)), PASS_PERIOD);
    assert_eq!(garbage.next_pass(false, seconds(1001)), PASS_PERIOD_MIN, "c is old and still here");
    assert_eq!(ImageGarbage::new(POLICY, Duration::ZERO).next_pass(true, seconds(1)), PASS_PERIOD);
}

#[test]
fn figures_are_shown_in_units_of_1024() {
    let cases = [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (10 << 20, "10.0 MiB"), (10_415_285_330, "9.7 GiB")];
    for (bytes, shown) in cases {
        assert_eq!(shown_bytes(bytes), shown);
    }
    assert_eq!(DiskUse { capacity: 3, available: 1 }.percent(), 67);
    assert_eq!(DiskUse { capacity: 3, available: 5 }.percent(), 0);
}

proptest! {
    #[test]
    fn nothing_in_use_ever_goes(
        usage in proptest::collection::vec((0_u64..5000, proptest::collection::btree_set("[a-e]", 0..5)), 1..10),
        available in 0_u64..1000,
    ) {
        let images: Vec<ListedImage> = ["a", "b", "c", "d", "e"].map(|id| image(id, 100)).into();
        let mut garbage = ImageGarbage::new(POLICY, Duration::ZERO);
        let mut now = Duration::ZERO;
        for (step, in_use) in usage {
            now += seconds(step);
            garbage.detect(&images, &in_use, now);
            for pass in [garbage.too_old(now), garbage.for_space(DiskUse { capacity: 1000, available }, now)] {
                prop_assert!(pass.candidates.iter().all(|image| !in_use.contains(&image.id)));
            }
        }
    }
}

/// PAIN-37.
#[test]
fn each_image_says_whether_it_is_used_and_why_it_stays() {
    let mut garbage = ImageGarbage::new(POLICY, Duration::ZERO);
    let pinned = ListedImage { pinned: true, ..image("b", 2) };
    let pause = ListedImage { names: vec!["registry.k8s.io/pause:3.9".into()], pinned: true, ..image("c", 3) };
    let exempt = ListedImage { pinned: true, ..image("d", 4) };
    let all = [image("a", 1), pinned, pause, exempt];
    garbage.detect(&all, &used(&["a", "b"]), seconds(10));
    garbage.detect(&all, &used(&["a"]), seconds(20));
    let exempt = ExemptImages::new(&["reg.example/d".to_owned()]).expect("a pattern");
    let told: Vec<_> = garbage
        .uses(&exempt, seconds(70))
        .into_iter()
        .map(|one| (one.image.id, one.in_use, one.unused_for.map(|span| span.as_secs()), one.kept))
        .collect();
    let expected = [
        ("a".to_owned(), true, Some(50), None),
        ("b".to_owned(), false, Some(60), Some(Kept::Pinned)),
        ("d".to_owned(), false, None, Some(Kept::Exempt)),
        ("c".to_owned(), false, None, Some(Kept::Sandboxes)),
    ];
    assert_eq!(told, expected);
}
