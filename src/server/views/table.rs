//! Tables for people: aligned columns, and text that cannot move a terminal's cursor.

/// The mood of a cell, for colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mood {
    /// Nothing special.
    #[default]
    Plain,
    /// As it should be.
    Good,
    /// On its way.
    Pending,
    /// Not as it should be.
    Bad,
}

impl Mood {
    /// The text in the mood's colour, where colours are wanted.
    pub fn paint(self, text: &str, colours: bool) -> String {
        let code = match self {
            Self::Good => "32",
            Self::Pending => "33",
            Self::Bad => "31",
            Self::Plain => return text.to_owned(),
        };
        if colours { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// One cell.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// Its text.
    pub text: String,
    /// See [`Mood`].
    pub mood: Mood,
}

impl Cell {
    /// A cell in a mood.
    pub fn new(text: impl Into<String>, mood: Mood) -> Self {
        Self { text: text.into(), mood }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, Mood::Plain)
    }
}

/// Rows below a head, columns as wide as their widest cell and three blanks apart; the last column is not padded.
pub fn table(head: &[&str], rows: &[Vec<Cell>], colours: bool) -> String {
    let head = head.iter().map(|title| Cell::from(*title)).collect();
    let all: Vec<Vec<Cell>> = std::iter::once(head).chain(rows.iter().cloned()).collect();
    Columns::default().lines(&all, colours)
}

/// The widths of columns, which later rows have too: they only grow.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    widths: Vec<usize>,
}

impl Columns {
    /// More rows, aligned with those before.
    pub fn lines(&mut self, rows: &[Vec<Cell>], colours: bool) -> String {
        let rows: Vec<Vec<(String, Mood)>> =
            rows.iter().map(|row| row.iter().map(|cell| (clean(&cell.text), cell.mood)).collect()).collect();
        for row in &rows {
            self.widths.resize(self.widths.len().max(row.len()), 0);
            for (width, (text, _)) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(text.chars().count());
            }
        }
        let mut out = String::new();
        for row in &rows {
            let mut line = String::new();
            for (index, (text, mood)) in row.iter().enumerate() {
                line.push_str(&mood.paint(text, colours));
                if index + 1 < row.len() {
                    let gap = self.widths[index] - text.chars().count() + 3;
                    line.extend(std::iter::repeat_n(' ', gap));
                }
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// Text of unknown origin on one line: control characters, which could drive a terminal, become visible stand-ins.
pub fn clean(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            '\n' | '\t' => ' ',
            // Also the marks that turn the direction of writing around.
            other if other.is_control() => '\u{fffd}',
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
            other => other,
        })
        .collect()
}

/// A span of time as `kubectl` shows ages: the two largest units, fewer when it is long.
pub fn age(seconds: f64) -> String {
    let whole = if seconds.is_finite() && seconds > 0.0 { seconds as u64 } else { 0 };
    let (minutes, hours, days) = (whole / 60, whole / 3600, whole / 86_400);
    let two = |first: u64, unit: &str, rest: u64, small: &str| match rest {
        0 => format!("{first}{unit}"),
        rest => format!("{first}{unit}{rest}{small}"),
    };
    match whole {
        0..120 => format!("{whole}s"),
        120..600 => two(minutes, "m", whole % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        _ if days < 730 => format!("{days}d"),
        _ => two(days / 365, "y", days % 365, "d"),
    }
}

/// A short span of time, to three digits.
pub fn span(seconds: f64) -> String {
    match seconds {
        short if short < 0.000_001 => "0".to_owned(),
        short if short < 0.000_999_5 => format!("{:.0}us", short * 1e6),
        short if short < 1.0 => format!("{:.1}ms", short * 1e3),
        short if short < 120.0 => format!("{short:.2}s"),
        long => age(long),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_have_no_tail() {
        let rows = [vec!["a".into(), "b".into()], vec!["long".into(), Cell::default()]];
        assert_eq!(table(&["X", "Y"], &rows, false), "X      Y\na      b\nlong\n");
    }

    #[test]
    fn later_rows_are_aligned_with_those_before() {
        let mut columns = Columns::default();
        assert_eq!(columns.lines(&[vec!["NAME".into(), "Y".into()]], false), "NAME   Y\n");
        assert_eq!(columns.lines(&[vec!["a".into(), "b".into()]], false), "a      b\n");
        assert_eq!(columns.lines(&[vec!["longer".into(), "b".into()]], false), "longer   b\n");
        assert_eq!(columns.lines(&[vec!["a".into(), "b".into()]], false), "a        b\n");
    }

    #[test]
    fn colours_do_not_move_columns() {
        let rows = [vec![Cell::new("a", Mood::Bad), "b".into()]];
        assert_eq!(table(&["XX", "Y"], &rows, true), "XX   Y\n\u{1b}[31ma\u{1b}[0m    b\n");
    }

    #[test]
    fn ages_are_those_of_kubectl() {
        for (seconds, text) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (10_860, "3h1m"),
            (86_400, "24h"),
            (180_000, "2d2h"),
            (864_000, "10d"),
            (86_400 * 731, "2y1d"),
        ] {
            assert_eq!(age(f64::from(seconds)), text);
        }
        assert_eq!(
            ["0", "5us", "1.5ms", "2.00s"],
            [0.0, 0.000_005, 0.0015, 2.0].map(span).each_ref().map(|text| &**text)
        );
    }

    proptest! {
        #[test]
        fn cleaned_text_cannot_drive_a_terminal(text: String) {
            prop_assert!(!clean(&text).chars().any(char::is_control));
            prop_assert_eq!(clean(&text).chars().count(), text.chars().count());
        }
    }
}
