//! HTML that cannot be broken out of: tags are constants of this program, and every other word is escaped. Pure.

use crate::server::views::table::clean;

/// An attribute's name and value.
pub(super) type Attribute<'a> = (&'static str, &'a str);

/// A growing page.
#[derive(Debug, Default)]
pub(super) struct Markup(String);

impl Markup {
    /// A piece of the program itself, as it is.
    pub(super) fn raw(&mut self, html: &'static str) -> &mut Self {
        self.0.push_str(html);
        self
    }

    /// Words, whoever wrote them.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        escape_into(&mut self.0, text);
        self
    }

    /// The beginning of an element.
    pub(super) fn open(&mut self, tag: &'static str, attributes: &[Attribute<'_>]) -> &mut Self {
        self.0.push('<');
        self.0.push_str(tag);
        for (name, value) in attributes {
            self.0.push(' ');
            self.0.push_str(name);
            self.0.push_str("=\"");
            escape_into(&mut self.0, value);
            self.0.push('"');
        }
        self.0.push('>');
        self
    }

    /// The end of an element.
    pub(super) fn close(&mut self, tag: &'static str) -> &mut Self {
        self.0.push_str("</");
        self.0.push_str(tag);
        self.0.push('>');
        self
    }

    /// An element of words.
    pub(super) fn element(&mut self, tag: &'static str, attributes: &[Attribute<'_>], text: &str) -> &mut Self {
        self.open(tag, attributes).text(text).close(tag)
    }

    /// An element with nothing in it.
    pub(super) fn empty(&mut self, tag: &'static str, attributes: &[Attribute<'_>]) -> &mut Self {
        self.open(tag, attributes).close(tag)
    }

    /// The page.
    pub(super) fn finish(self) -> String {
        self.0
    }
}

/// Text for an element or for an attribute between quotes. Control characters and marks that turn the direction of writing
/// are replaced.
fn escape_into(out: &mut String, text: &str) {
    for character in clean(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_cannot_end_their_place() {
        let mut page = Markup::default();
        page.element("a", &[("title", "\"><script>x</script>")], "</a><b onclick='x'>&amp;\u{202e}\n");
        assert_eq!(
            page.finish(),
            "<a title=\"&quot;&gt;&lt;script&gt;x&lt;/script&gt;\">&lt;/a&gt;&lt;b onclick=&#39;x&#39;&gt;&amp;amp;\u{fffd} </a>"
        );
    }

    proptest! {
        #[test]
        fn no_words_hold_a_mark_of_html(text in any::<String>()) {
            let mut page = Markup::default();
            page.text(&text);
            let escaped = page.finish();
            prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
            let entities = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
            for (at, _) in escaped.match_indices('&') {
                prop_assert!(entities.iter().any(|entity| escaped[at..].starts_with(entity)));
            }
        }
    }
}
