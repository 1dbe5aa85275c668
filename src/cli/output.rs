//! The forms of an answer: for people, or as a document for programs.

use std::str::FromStr;
use std::sync::Arc;

use serde_json::Value;

use super::client::Trouble;
use super::jsonpath::Template;
use super::print;

/// How to print.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Output {
    /// JSON for programs.
    Json,
    /// The same as YAML.
    Yaml,
    /// The text that a template makes of it.
    JsonPath(Arc<Template>),
    /// Text for people.
    Text,
    /// Text with more columns.
    Wide,
}

impl FromStr for Output {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("jsonpath", template)) => {
                let template = Template::parse(template).map_err(|error| error.to_string())?;
                Ok(Self::JsonPath(Arc::new(template)))
            }
            _ => match text {
                "json" => Ok(Self::Json),
                "yaml" => Ok(Self::Yaml),
                "text" => Ok(Self::Text),
                "wide" => Ok(Self::Wide),
                "jsonpath" => Err("a template is missing, as in jsonpath='{[*].name}'".to_owned()),
                _ => Err("it is one of text, wide, json, yaml, jsonpath=TEMPLATE".to_owned()),
            },
        }
    }
}

impl Output {
    /// Whether programs read it.
    pub(super) fn is_document(&self) -> bool {
        matches!(self, Self::Json | Self::Yaml | Self::JsonPath(_))
    }

    /// An answer of the agent as a document; `None` where people read it.
    pub(super) fn document(&self, body: &[u8]) -> Option<Result<String, Trouble>> {
        if *self == Self::Json {
            return Some(Ok(print::indented(body)));
        }
        self.is_document().then(|| {
            let value = serde_json::from_slice(body).map_err(|error| Trouble::Form(error.to_string()))?;
            self.value(&value)
        })
    }

    /// A value as a document. Of a form for people it is JSON.
    pub(super) fn value(&self, value: &Value) -> Result<String, Trouble> {
        match self {
            Self::Yaml => serde_saphyr::to_string(value).map_err(|error| Trouble::Form(error.to_string())),
            // As kubectl: the template says where lines end.
            Self::JsonPath(template) => template.render(value).map_err(|error| Trouble::Form(error.to_string())),
            Self::Json | Self::Text | Self::Wide => Ok(print::indented(value.to_string().as_bytes())),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn form(text: &str) -> Output {
        text.parse().expect(text)
    }

    #[test]
    fn an_answer_has_the_form_that_is_asked_for() {
        let body = br#"[{"name":"web","ready":true,"age_seconds":61.5,"waiting":["a: b","no"],"ip":""}]"#;
        let shown = |text: &str| form(text).document(body).map(|shown| shown.expect("fits"));
        let yaml =
            "- age_seconds: 61.5\n  ip: \"\"\n  name: web\n  ready: true\n  waiting:\n  - \"a: b\"\n  - \"no\"\n";
        assert_eq!(shown("yaml").as_deref(), Some(yaml));
        assert_eq!(shown("jsonpath={[*].name} {[0].ip}!").as_deref(), Some("web !"));
        assert!(shown("json").is_some_and(|text| text.starts_with("[\n  {\n    \"age_seconds\": 61.5")));
        assert_eq!((shown("text"), shown("wide")), (None, None));
    }

    #[test]
    fn a_form_that_is_none_is_refused() {
        for (text, expected) in [
            ("xml", "it is one of text, wide, json, yaml, jsonpath=TEMPLATE"),
            ("yaml=x", "it is one of text, wide, json, yaml, jsonpath=TEMPLATE"),
            ("jsonpath", "a template is missing, as in jsonpath='{[*].name}'"),
            ("jsonpath={.a", "jsonpath, at character 1: unclosed action"),
        ] {
            assert_eq!(text.parse::<Output>().expect_err(text), expected);
        }
        let wrong = form("jsonpath={[0].x[0]}").document(br#"[{"x":{}}]"#).expect("a document");
        assert!(matches!(wrong, Err(Trouble::Form(_))));
        assert!(matches!(form("yaml").document(b"no JSON").expect("a document"), Err(Trouble::Form(_))));
    }

    proptest! {
        /// For any name and any message of a pod the document means the same.
        #[test]
        fn yaml_means_what_json_means(texts in prop::collection::vec(any::<String>(), 0..6), number: f64, whole: i64) {
            prop_assume!(number.is_finite());
            let value = serde_json::json!({"texts": texts, "number": number, "whole": whole, "none": null, "empty": {}});
            let yaml = form("yaml").value(&value).expect("YAML");
            let again: Value = serde_saphyr::from_str(&yaml).expect("YAML");
            prop_assert_eq!(again, value);
        }
    }
}
