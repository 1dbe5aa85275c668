//! Where the values of a YAML document stand: for reports to people. Pure; keeps nothing.
//!
//! [`super::to_json`] reads the values; this reads the same text once more for its lines alone.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use serde_saphyr::options::DuplicateKeyPolicy;

use super::YamlError;

/// The lines of a document's values.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Places {
    /// The line of each value by its JSON pointer, from one: that of its key, or of an entry in a list.
    pub lines: BTreeMap<String, usize>,
    /// Keys that their mapping has already, in the order of the text.
    pub repeated: Vec<RepeatedKey>,
}

/// A key that stands twice in one mapping.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RepeatedKey {
    /// The JSON pointer of its value.
    pub pointer: String,
    /// The key itself.
    pub key: String,
    /// The line of the later one.
    pub line: usize,
}

impl Places {
    /// Looks for the values of the first document of `text`.
    ///
    /// # Errors
    /// When the text is no document; the error is that of [`super::to_json`].
    pub fn of(text: &str) -> Result<Self, YamlError> {
        let options = super::options_with(DuplicateKeyPolicy::PassThrough);
        let all = serde_saphyr::from_multiple_with_options::<Tree>(text, options);
        let first = all.map_err(|error| super::convert(&error))?.into_iter().next();
        let mut places = Self::default();
        if let Some(tree) = first {
            places.enter("", &tree);
        }
        Ok(places)
    }

    /// The line of a value, or of the nearest value around it that has one.
    pub fn line(&self, pointer: &str) -> Option<usize> {
        let mut rest = pointer;
        loop {
            if let Some(line) = self.lines.get(rest) {
                return Some(*line);
            }
            rest = &rest[..rest.rfind('/')?];
        }
    }

    fn enter(&mut self, pointer: &str, tree: &Tree) {
        match tree {
            Tree::Scalar => {}
            Tree::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    let pointer = format!("{pointer}/{index}");
                    self.lines.insert(pointer.clone(), line_of(item));
                    self.enter(&pointer, &item.value);
                }
            }
            Tree::Map(entries) => {
                for (key, value) in entries {
                    let (pointer, line) = (below(pointer, &key.value), line_of(key));
                    if self.lines.insert(pointer.clone(), line).is_some() {
                        let key = key.value.clone();
                        self.repeated.push(RepeatedKey { pointer: pointer.clone(), key, line });
                        // The later value counts, with all that is in it.
                        let inside = format!("{pointer}/");
                        self.lines.retain(|known, _| !known.starts_with(&inside));
                    }
                    self.enter(&pointer, &value.value);
                }
            }
        }
    }
}

/// The JSON pointer of a key below another pointer (RFC 6901).
pub fn below(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn line_of<T>(found: &Spanned<T>) -> usize {
    usize::try_from(found.referenced.line()).unwrap_or(0)
}

/// A document without its values.
enum Tree {
    Scalar,
    List(Vec<Spanned<Tree>>),
    Map(Vec<(Spanned<String>, Spanned<Tree>)>),
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

/// Scalars of every type are alike here.
macro_rules! scalars {
    ($($visit:ident: $type:ty),+ $(,)?) => {
        $(fn $visit<E>(self, _: $type) -> Result<Tree, E> {
            Ok(Tree::Scalar)
        })+
    };
}

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    scalars!(
        visit_bool: bool,
        visit_i64: i64,
        visit_i128: i128,
        visit_u64: u64,
        visit_u128: u128,
        visit_f64: f64,
        visit_str: &str,
        visit_bytes: &[u8],
    );

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Tree::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<(String, usize)> {
        Places::of(text).expect("a document").lines.into_iter().collect()
    }

    #[test]
    fn each_value_has_the_line_of_its_key() {
        let text = "# a comment\nmaxPods: 5\nevictionHard:\n  memory.available: 100Mi\n  a/b: x\nlist:\n- a: 1\n  b: 2\n- {a: 3}\n";
        let expected = [
            ("/evictionHard", 3),
            ("/evictionHard/a~1b", 5),
            ("/evictionHard/memory.available", 4),
            ("/list", 6),
            ("/list/0", 7),
            ("/list/0/a", 7),
            ("/list/0/b", 8),
            ("/list/1", 9),
            ("/list/1/a", 9),
            ("/maxPods", 2),
        ];
        assert_eq!(lines(text), expected.map(|(pointer, line)| (pointer.to_owned(), line)));
        let places = Places::of(text).expect("a document");
        assert_eq!((places.line("/evictionHard/absent"), places.line("/absent")), (Some(3), None));
    }

    #[test]
    fn every_repeated_key_is_found() {
        let places = Places::of("a: {b: 1}\nc: 2\na: {d: 1}\nc:\n  e: 1\n  e: 2\n").expect("a document");
        let repeated = |pointer: &str, key: &str, line| RepeatedKey { pointer: pointer.into(), key: key.into(), line };
        assert_eq!(places.repeated, [repeated("/a", "a", 3), repeated("/c", "c", 4), repeated("/c/e", "e", 6)]);
        assert_eq!((places.line("/a/b"), places.line("/a/d")), (Some(3), Some(3)), "the later value counts");
    }

    #[test]
    fn only_the_first_document_counts_and_a_broken_one_has_no_places() {
        assert_eq!(lines("a: 1\n---\nb: 1\n"), [("/a".to_owned(), 1)]);
        assert_eq!(lines(""), []);
        Places::of("a: [\n").expect_err("the list is open");
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[-a:*&{}\\[\\]<>|0-9.e \n#'\"!~]{0,200}") {
            let _ = Places::of(&text);
        }
    }
}
