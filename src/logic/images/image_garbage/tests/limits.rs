//! The limits of image collection: of the disk, of ages, and of what counts as used.

use super::*;

const POLICY: ImageGcPolicy =
    ImageGcPolicy { high_percent: 90, low_percent: 80, age_min: Duration::ZERO, age_max: None };

fn image(id: &str, bytes: u64) -> ListedImage {
    let names = vec![format!("reg.example/{id}:1"), format!("reg.example/{id}@sha256:{id}")];
    ListedImage { id: format!("sha256:{id}"), names, bytes, ..ListedImage::default() }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn used(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn ids(pass: &Pass) -> Vec<&str> {
    pass.candidates.iter().map(|image| image.id.trim_start_matches("sha256:")).collect()
}

/// Images that were seen at these seconds, in this order, and that nobody uses.
fn seen(policy: ImageGcPolicy, images: &[(&str, u64)]) -> ImageGarbage {
    let mut garbage = ImageGarbage::new(policy, Duration::ZERO);
    let mut all = vec![];
    for (id, at) in images {
        all.push(image(id, 10));
        garbage.detect(&all, &used(&[]), seconds(*at));
    }
    garbage
}

fn disk(available: u64) -> DiskUse {
    DiskUse { capacity: 1000, available }
}

/// EVI-40: the high threshold itself is too full; as much goes as leaves the low one.
#[test]
fn evi_40_images_go_from_the_high_threshold_down_to_the_low_one() {
    let garbage = seen(POLICY, &[("a", 1)]);
    for (available, wanted) in [
        (101, Some(99)), // 89.9 % count as 90.
        (110, None),
        (100, Some(100)),
        (50, Some(150)),
        (0, Some(200)),
    ] {
        assert_eq!(garbage.for_space(disk(available), seconds(9)).wanted, wanted, "{available} are left");
    }
    let same = ImageGcPolicy { low_percent: 90, ..POLICY };
    assert_eq!(seen(same, &[]).for_space(disk(60), seconds(9)).wanted, Some(40));
    let none = ImageGcPolicy { high_percent: 0, low_percent: 0, ..POLICY };
    assert_eq!(seen(none, &[]).for_space(disk(1000), seconds(9)).wanted, Some(0), "an empty disk is full enough");
}

/// EVI-40: at 100 percent nothing goes for space before the disk is wholly full, and an age alone keeps collection going.
#[test]
fn a_policy_may_be_off() {
    let off = ImageGcPolicy { high_percent: 100, ..POLICY };
    assert!(off.is_off() && !POLICY.is_off());
    assert!(!ImageGcPolicy { age_max: Some(seconds(1)), ..off }.is_off());
    assert_eq!(seen(off, &[("a", 1)]).too_old(seconds(1 << 30)), Pass::default(), "no age, none too old");
    assert_eq!(seen(off, &[("a", 1)]).for_space(disk(10), seconds(9)), Pass::default(), "99 % are in use");
}

/// A disk that reports nonsense frees nothing by it.
#[test]
fn a_disk_without_a_size_is_full_and_wants_nothing() {
    let nothing = DiskUse { capacity: 0, available: 0 };
    assert_eq!(nothing.percent(), 100);
    let pass = seen(POLICY, &[("a", 1)]).for_space(nothing, seconds(9));
    assert_eq!((ids(&pass), pass.wanted), (vec!["a"], Some(0)));
    let more = DiskUse { capacity: 1000, available: 2000 };
    assert_eq!(seen(POLICY, &[("a", 1)]).for_space(more, seconds(9)), Pass::default());
    let vast = DiskUse { capacity: u64::MAX, available: 0 };
    assert_eq!(seen(POLICY, &[]).for_space(vast, seconds(9)).wanted, Some(u64::MAX / 5));
}

/// CRI-26: a container may name its image by ID, by tag or by digest.
#[test]
fn an_image_is_used_by_any_of_its_names() {
    let images = [image("a", 10), image("b", 10)];
    for name in ["sha256:a", "reg.example/a:1", "reg.example/a@sha256:a"] {
        let mut garbage = ImageGarbage::new(POLICY, Duration::ZERO);
        garbage.detect(&images, &used(&[name]), seconds(1));
        assert_eq!(ids(&garbage.all_unused(seconds(2))), ["b"], "{name}");
        assert!(images[0].is_named(name) && !images[1].is_named(name));
        let mut mounted = ImageGarbage::new(POLICY, Duration::ZERO);
        mounted.detect(&images, &used(&[]), seconds(1));
        mounted.mounted(&used(&[name]), seconds(1));
        assert_eq!(ids(&mounted.all_unused(seconds(2))), ["b"], "{name}");
    }
    assert!(!images[0].is_named("reg.example/a"), "a name without a tag is another");
}

/// CRI-26: among images that were never used the one that is here for the longest goes first.
#[test]
fn the_order_is_by_use_and_then_by_arrival() {
    let mut garbage = seen(POLICY, &[("late", 1), ("mid", 2), ("new", 3)]);
    assert_eq!(ids(&garbage.all_unused(seconds(4))), ["late", "mid", "new"]);
    let all = ["late", "mid", "new"].map(|id| image(id, 10));
    garbage.detect(&all, &used(&["sha256:late"]), seconds(5));
    garbage.detect(&all, &used(&["sha256:mid"]), seconds(6));
    garbage.detect(&all, &used(&[]), seconds(7));
    assert_eq!(ids(&garbage.all_unused(seconds(8))), ["new", "late", "mid"]);
}

/// CRI-26: an image that went and came back is new.
#[test]
fn an_image_that_comes_back_is_young_again() {
    let grown = ImageGcPolicy { age_min: seconds(60), ..POLICY };
    let mut garbage = seen(grown, &[("a", 1), ("b", 1)]);
    assert_eq!(ids(&garbage.all_unused(seconds(60))), [""; 0], "a second too young");
    assert_eq!(ids(&garbage.all_unused(seconds(61))), ["a", "b"]);
    garbage.removed(&image("a", 10));
    assert_eq!(ids(&garbage.all_unused(seconds(61))), ["b"]);
    garbage.detect(&[image("a", 10), image("b", 10)], &used(&[]), seconds(70));
    assert_eq!(ids(&garbage.all_unused(seconds(129))), ["b"]);
    assert_eq!(ids(&garbage.all_unused(seconds(130))), ["b", "a"]);
    garbage.detect(&[image("a", 10)], &used(&[]), seconds(140));
    assert_eq!(garbage.known(), used(&["sha256:a", "reg.example/a:1", "reg.example/a@sha256:a"]));
}

/// A reload changes the limits, and not how old images are.
#[test]
fn ages_outlive_a_change_of_the_policy() {
    let mut garbage = seen(POLICY, &[("a", 1)]);
    assert_eq!(garbage.too_old(seconds(500)), Pass::default());
    garbage.follow(ImageGcPolicy { age_max: Some(seconds(400)), ..POLICY });
    assert_eq!(ids(&garbage.too_old(seconds(401))), ["a"]);
    garbage.follow(ImageGcPolicy { age_min: seconds(600), ..POLICY });
    assert_eq!(garbage.all_unused(seconds(599)), Pass { candidates: vec![], wanted: None });
}

/// EVI-42: the name of the sandboxes' image is its last part alone, whatever its registry, tag or digest.
#[test]
fn the_sandboxes_image_is_known_by_its_name() {
    for (name, stays) in [
        ("registry.k8s.io/pause:3.10", true),
        ("localhost:5000/a/b/pause@sha256:0a", true),
        ("pause", true),
        ("pause:latest", true),
        ("registry.k8s.io/pause/other:1", false),
        ("registry.k8s.io/my-pause:1", false),
    ] {
        let mut garbage = ImageGarbage::new(POLICY, Duration::ZERO);
        let one = ListedImage { names: vec![name.to_owned()], ..image("a", 10) };
        garbage.detect(&[one], &used(&[]), seconds(1));
        assert_eq!(garbage.all_unused(seconds(2)).candidates.is_empty(), stays, "{name}");
    }
}

/// PAIN-23: the figures add up, also where images share layers and seem to be more than the disk holds.
#[test]
fn holders_never_take_more_than_is_used() {
    let mut garbage = ImageGarbage::new(POLICY, Duration::ZERO);
    let all = [image("a", 700), image("b", 600)];
    garbage.detect(&all, &used(&["sha256:a"]), seconds(1));
    let pass = garbage.all_unused(seconds(2));
    let expected = Holders { in_use: 700, unused: 600, kept: 0, other: 0 };
    assert_eq!(garbage.holders(disk(100), &pass), expected);
    let kept = garbage.holders(disk(100), &Pass::default());
    assert_eq!(kept, Holders { kept: 600, ..expected });
}
