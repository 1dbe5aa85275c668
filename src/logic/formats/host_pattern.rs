//! Wildcards in one part of a registry's name, as Go's `filepath.Match` reads them (CRI-23).
//!
//! Pure. A pattern may be from a pod's pull secret, so it is hostile: neither its form nor its length may make a match
//! cost more than its letters times those of a part.

/// Longest part that wildcards can match, in bytes; DNS has no longer ones.
const PART_MAX: usize = 63;

/// A pattern's piece that matches letters of a part.
enum Piece {
    /// `*`: any number of any.
    Star,
    /// `?`: any one.
    Any,
    /// Itself.
    Letter(char),
    /// `[a-c]`: one of these ranges; `[^a]`: one of none of them.
    Class { negated: bool, ranges: Vec<(char, char)> },
}

impl Piece {
    fn takes(&self, letter: char) -> bool {
        match self {
            Self::Star | Self::Any => true,
            Self::Letter(one) => *one == letter,
            Self::Class { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&letter)) != *negated
            }
        }
    }
}

/// Whether a pattern is for a part of a host's name. One that is not of the grammar is for none.
pub fn is_for_part(pattern: &str, part: &str) -> bool {
    if !pattern.contains(['*', '?', '[', '\\']) {
        return pattern == part;
    }
    if part.len() > PART_MAX {
        return false;
    }
    let Some(pieces) = pieces(pattern) else { return false };
    let letters: Vec<char> = part.chars().collect();
    let least = pieces.iter().filter(|piece| !matches!(piece, Piece::Star)).count();
    least <= letters.len() && fits(&pieces, &letters)
}

/// The pieces of a pattern, stars side by side as one; `None` when it is not of the grammar.
fn pieces(pattern: &str) -> Option<Vec<Piece>> {
    let mut letters = pattern.chars();
    let mut pieces = vec![];
    while let Some(letter) = letters.next() {
        pieces.push(match letter {
            '*' if matches!(pieces.last(), Some(Piece::Star)) => continue,
            '*' => Piece::Star,
            '?' => Piece::Any,
            '\\' => Piece::Letter(letters.next()?),
            '[' => class(&mut letters)?,
            other => Piece::Letter(other),
        });
    }
    Some(pieces)
}

/// A class without its first bracket. There is at least one range in it.
fn class(letters: &mut std::str::Chars<'_>) -> Option<Piece> {
    let negated = skip(letters, '^');
    let mut ranges = vec![];
    while ranges.is_empty() || !skip(letters, ']') {
        let low = class_letter(letters)?;
        let high = if skip(letters, '-') { class_letter(letters)? } else { low };
        ranges.push((low, high));
    }
    Some(Piece::Class { negated, ranges })
}

/// One letter within a class. `-` and `]` are none without a backslash before them.
fn class_letter(letters: &mut std::str::Chars<'_>) -> Option<char> {
    match letters.next()? {
        '-' | ']' => None,
        '\\' => letters.next(),
        other => Some(other),
    }
}

fn skip(letters: &mut std::str::Chars<'_>, wanted: char) -> bool {
    let is_next = letters.as_str().starts_with(wanted);
    if is_next {
        letters.next();
    }
    is_next
}

/// Goes back to the last star alone: what an earlier one could take, the last one can take, too.
fn fits(pieces: &[Piece], letters: &[char]) -> bool {
    let (mut piece, mut letter) = (0, 0);
    // The piece after the star, and the first letter that the star has not taken.
    let mut star: Option<(usize, usize)> = None;
    while letter < letters.len() {
        match (pieces.get(piece), star) {
            (Some(Piece::Star), _) => {
                piece += 1;
                star = Some((piece, letter));
            }
            (Some(one), _) if one.takes(letters[letter]) => (piece, letter) = (piece + 1, letter + 1),
            (_, Some((after, taken))) => {
                (piece, letter) = (after, taken + 1);
                star = Some((after, taken + 1));
            }
            (_, None) => return false,
        }
    }
    pieces[piece..].iter().all(|piece| matches!(piece, Piece::Star))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Tries every length of every star.
    fn naive(pieces: &[Piece], letters: &[char]) -> bool {
        match pieces {
            [] => letters.is_empty(),
            [Piece::Star, rest @ ..] => (0..=letters.len()).any(|taken| naive(rest, &letters[taken..])),
            [one, rest @ ..] => {
                letters.split_first().is_some_and(|(first, left)| one.takes(*first) && naive(rest, left))
            }
        }
    }

    /// CRI-23: the cases of Go's own test of `filepath.Match`, those without a slash.
    #[test]
    fn patterns_are_read_as_upstream_reads_them() {
        let cases = [
            ("abc", "abc", true),
            ("*", "abc", true),
            ("*c", "abc", true),
            ("a*", "a", true),
            ("a*", "abc", true),
            ("a*b*c*d*e*", "axbxcxdxe", true),
            ("a*b?c*x", "abxbbxdbxebxczzx", true),
            ("a*b?c*x", "abxbbxdbxebxczzy", false),
            ("ab[c]", "abc", true),
            ("ab[b-d]", "abc", true),
            ("ab[e-g]", "abc", false),
            ("ab[^c]", "abc", false),
            ("ab[^b-d]", "abc", false),
            ("ab[^e-g]", "abc", true),
            ("a\\*b", "a*b", true),
            ("a\\*b", "ab", false),
            ("a?b", "a☺b", true),
            ("a[^a]b", "a☺b", true),
            ("a???b", "a☺b", false),
            ("[a-ζ]*", "α", true),
            ("*[a-ζ]", "A", false),
            ("[\\]a]", "]", true),
            ("[\\-]", "-", true),
            ("[x\\-]", "x", true),
            ("[x\\-]", "-", true),
            ("[x\\-]", "z", false),
            ("[\\-x]", "a", false),
            ("[*]", "*", true),
            ("*x", "xxx", true),
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("?", "", false),
            // Not of the grammar.
            ("[]a]", "]", false),
            ("[-]", "-", false),
            ("[x-]", "x", false),
            ("[-x]", "x", false),
            ("[a-b-c]", "a", false),
            ("[", "[", false),
            ("[^", "a", false),
            ("[^bc", "a", false),
            ("a[", "a[", false),
            ("*[", "a", false),
            ("[]", "a", false),
            ("\\", "\\", false),
            ("[a\\", "a", false),
        ];
        for (pattern, part, expected) in cases {
            assert_eq!(is_for_part(pattern, part), expected, "{pattern} {part}");
        }
    }

    /// CRI-23: a match that tried every length of every star would not end.
    #[test]
    fn hundreds_of_stars_end_at_once() {
        let part = "a".repeat(PART_MAX);
        assert!(!is_for_part(&format!("{}b", "*a".repeat(60)), &part));
        assert!(is_for_part(&"*a".repeat(60), &part));
        assert!(!is_for_part(&format!("{}b", "*a".repeat(500)), &part));
        assert!(is_for_part(&"*".repeat(1 << 20), &part));
        assert!(!is_for_part(&format!("{}b", "*".repeat(1 << 20)), &part));
        // Nor may a pattern's length be one of the stack.
        assert!(!is_for_part(&format!("*{}", "a".repeat(1 << 20)), &part));
        assert!(!is_for_part(&format!("[{}]", "b".repeat(1 << 20)), "a"));
        assert!(!is_for_part("*", &"a".repeat(PART_MAX + 1)));
    }

    proptest! {
        #[test]
        fn going_back_to_the_last_star_is_enough(pattern in "[ab*?\\[\\]^\\\\-]{0,10}", part in "[ab-]{0,8}") {
            let letters: Vec<char> = part.chars().collect();
            let expected = pieces(&pattern).is_some_and(|pieces| naive(&pieces, &letters));
            prop_assert_eq!(is_for_part(&pattern, &part), expected);
        }
    }
}
