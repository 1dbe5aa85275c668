//! Tokens of service accounts for programs that give credentials (KEP-4412, gate
//! `KubeletServiceAccountTokenForCredentialProviders`): which programs get one, for whom, and how long an answer counts.
//!
//! Owned by `ImageManager`. Texts are upstream's. No `Debug` and no error holds a token.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ServiceAccount;
use serde_json::Value;

use crate::logic::formats::dns_label::qualified_name_problems;
use crate::logic::images::strict_json::{known_fields, texts};
use crate::logic::volumes::content::token::TokenLife;

/// The version of the protocol that knows tokens.
const TOKEN_API_VERSION: &str = "credentialprovider.kubelet.k8s.io/v1";
/// How long an answer that was given for a token counts.
const CACHE_TYPES: [&str; 2] = ["ServiceAccount", "Token"];

/// `tokenAttributes` of a program.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TokenAttributes {
    /// The audience of the tokens.
    pub audience: String,
    /// Whether the program is asked for pods with a service account alone.
    pub required: Option<bool>,
    /// Without one of these annotations of its service account a pod gets nothing of this program.
    pub required_keys: Vec<String>,
    /// The plugin gets the values of these, too, where they are there.
    pub optional_keys: Vec<String>,
    /// `ServiceAccount`, where an answer counts for all pods of the account, or `Token`, for one token alone.
    pub cache_type: String,
}

impl TokenAttributes {
    /// Reads `tokenAttributes`.
    ///
    /// # Errors
    /// The part that is not of its form.
    pub fn parse(value: &Value) -> Result<Self, String> {
        let fields = [
            "serviceAccountTokenAudience",
            "cacheType",
            "requireServiceAccount",
            "requiredServiceAccountAnnotationKeys",
            "optionalServiceAccountAnnotationKeys",
        ];
        known_fields(value, &fields)?;
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Self {
            audience: text("serviceAccountTokenAudience"),
            required: value.get("requireServiceAccount").and_then(Value::as_bool),
            required_keys: texts(value, "requiredServiceAccountAnnotationKeys")?,
            optional_keys: texts(value, "optionalServiceAccountAnnotationKeys")?,
            cache_type: text("cacheType"),
        })
    }

    /// Everything that is wrong with them, in upstream's order.
    pub(super) fn wrong(&self, api_version: &str, gate: bool) -> Vec<String> {
        const AT: &str = "providers.tokenAttributes";
        let mut wrong = vec![];
        if !gate {
            wrong.push(format!(
                "{AT}: Forbidden: tokenAttributes is not supported when \
                 KubeletServiceAccountTokenForCredentialProviders feature gate is disabled"
            ));
        }
        if self.audience.is_empty() {
            wrong.push(format!("{AT}.serviceAccountTokenAudience: Required value"));
        }
        if self.required.is_none() {
            wrong.push(format!("{AT}.requireServiceAccount: Required value"));
        }
        if api_version != TOKEN_API_VERSION {
            wrong.push(format!(
                "{AT}: Forbidden: tokenAttributes is only supported for {TOKEN_API_VERSION} API version"
            ));
        }
        if self.required == Some(false) && !self.required_keys.is_empty() {
            wrong.push(format!(
                "{AT}.requiredServiceAccountAnnotationKeys: Forbidden: requireServiceAccount cannot be false when \
                 requiredServiceAccountAnnotationKeys is set"
            ));
        }
        for (field, keys) in [("required", &self.required_keys), ("optional", &self.optional_keys)] {
            let place = format!("{AT}.{field}ServiceAccountAnnotationKeys");
            for (index, key) in keys.iter().enumerate() {
                let problems = qualified_name_problems(&key.to_lowercase());
                wrong.extend(problems.into_iter().map(|why| format!("{place}: Invalid value: \"{key}\": {why}")));
                if keys[..index].contains(key) {
                    wrong.push(format!("{place}: Duplicate value: \"{key}\""));
                }
            }
        }
        let mut both: Vec<&String> = self.required_keys.iter().filter(|key| self.optional_keys.contains(key)).collect();
        both.sort();
        both.dedup();
        if !both.is_empty() {
            let shown: Vec<String> = both.iter().map(|key| format!("\"{key}\"")).collect();
            let shown = shown.join(",");
            wrong.push(format!("{AT}: Invalid value: [{shown}]: annotation keys cannot be both required and optional"));
        }
        match self.cache_type.as_str() {
            "" => wrong.push(format!(
                "{AT}.cacheType: Required value: cacheType is required to be set when tokenAttributes is specified. \
                 Supported values are: {}",
                CACHE_TYPES.join(", ")
            )),
            known if CACHE_TYPES.contains(&known) => {}
            other => wrong.push(format!(
                "{AT}.cacheType: Unsupported value: \"{other}\": supported values: \"ServiceAccount\", \"Token\""
            )),
        }
        wrong
    }

    /// Whether an answer counts for one token alone.
    pub fn per_token(&self) -> bool {
        self.cache_type == "Token"
    }

    /// The facts of the service account for the program; `None` where an annotation is missing that it requires: then the
    /// program is not asked at all.
    pub fn account(&self, account: &ServiceAccount) -> Option<Account> {
        let all = account.metadata.annotations.clone().unwrap_or_default();
        let mut annotations = BTreeMap::new();
        for key in &self.required_keys {
            annotations.insert(key.clone(), all.get(key)?.clone());
        }
        let optional = self.optional_keys.iter().filter_map(|key| Some((key.clone(), all.get(key)?.clone())));
        annotations.extend(optional);
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let metadata = &account.metadata;
        let (namespace, name, uid) = (text(&metadata.namespace), text(&metadata.name), text(&metadata.uid));
        Some(Account { namespace, name, uid, annotations })
    }
}

/// A service account, as far as a program hears of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Account {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Those of its annotations that the program asks for.
    pub annotations: BTreeMap<String, String>,
}

impl Account {
    /// The key of an answer about this account; with the hash of the token where it counts for that alone. No two
    /// accounts have the same.
    pub fn cache_key(&self, token_hash: Option<&str>) -> String {
        let fixed = [&self.namespace, &self.name, &self.uid].map(String::as_str);
        let annotations = self.annotations.iter().flat_map(|(key, value)| [key.as_str(), value.as_str()]);
        let parts = fixed.into_iter().chain(annotations).chain(token_hash);
        // The length before each part keeps two parts from being read as one.
        parts.map(|part| format!("{}:{part}", part.len())).collect()
    }
}

/// A token that may be used again. Its `Debug` says no secret.
#[derive(Clone)]
pub struct KnownToken {
    /// The token.
    pub text: Arc<str>,
    /// How long it is good.
    pub life: TokenLife,
}

impl fmt::Debug for KnownToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a token, {:?}", self.life)
    }
}

/// A token with whom it is for. Its `Debug` says no secret.
#[derive(Clone)]
pub struct AccountToken {
    /// The account of the token.
    pub account: Account,
    /// The token.
    pub token: Arc<str>,
}

impl fmt::Debug for AccountToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a token of {}/{}", self.account.namespace, self.account.name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn attributes(more: Value) -> TokenAttributes {
        let mut value = json!({
            "serviceAccountTokenAudience": "reg.example", "requireServiceAccount": true, "cacheType": "ServiceAccount",
        });
        for (field, one) in more.as_object().expect("an object") {
            value[field] = one.clone();
        }
        TokenAttributes::parse(&value).expect("of its form")
    }

    #[test]
    fn attributes_are_checked_as_upstream_does() {
        let wrong = |more, version: &str, gate| attributes(more).wrong(version, gate);
        assert_eq!(wrong(json!({}), TOKEN_API_VERSION, true), Vec::<String>::new());
        for (more, expected) in [
            (json!({ "serviceAccountTokenAudience": "" }), "serviceAccountTokenAudience: Required value"),
            (json!({ "requireServiceAccount": null }), "requireServiceAccount: Required value"),
            (json!({ "cacheType": "" }), "Supported values are: ServiceAccount, Token"),
            (
                json!({ "cacheType": "Pod" }),
                "Unsupported value: \"Pod\": supported values: \"ServiceAccount\", \"Token\"",
            ),
            (
                json!({ "requireServiceAccount": false, "requiredServiceAccountAnnotationKeys": ["a"] }),
                "requireServiceAccount cannot be false when",
            ),
            (json!({ "requiredServiceAccountAnnotationKeys": ["a", "a"] }), "Duplicate value: \"a\""),
            (json!({ "optionalServiceAccountAnnotationKeys": ["a b"] }), "Invalid value: \"a b\": "),
            (
                json!({ "requiredServiceAccountAnnotationKeys": ["b"], "optionalServiceAccountAnnotationKeys": ["b"] }),
                "Invalid value: [\"b\"]: annotation keys cannot be both required and optional",
            ),
        ] {
            let found = wrong(more.clone(), TOKEN_API_VERSION, true);
            assert!(found.len() == 1 && found[0].contains(expected), "{more}: {found:?}");
        }
        assert!(wrong(json!({}), TOKEN_API_VERSION, false)[0].contains("feature gate is disabled"));
        assert!(wrong(json!({}), "credentialprovider.kubelet.k8s.io/v1beta1", true)[0].contains("only supported for"));
        assert!(TokenAttributes::parse(&json!({ "audience": "x" })).is_err(), "strict");
    }

    #[test]
    fn a_program_hears_of_the_annotations_that_it_asks_for() {
        let account = |annotations: Value| -> ServiceAccount {
            let metadata = json!({ "name": "robot", "namespace": "ns", "uid": "u", "annotations": annotations });
            serde_json::from_value(json!({ "metadata": metadata })).expect("an account")
        };
        let both = attributes(json!({
            "requiredServiceAccountAnnotationKeys": ["must"], "optionalServiceAccountAnnotationKeys": ["may"],
        }));
        assert_eq!(both.account(&account(json!({ "may": "1" }))), None);
        let found = both.account(&account(json!({ "must": "1", "other": "2" }))).expect("enough");
        assert_eq!(found.annotations, BTreeMap::from([("must".to_owned(), "1".to_owned())]));
        let more = both.account(&account(json!({ "must": "1", "may": "3" }))).expect("enough");
        assert_eq!(more.annotations.len(), 2);
        let keys =
            [found.cache_key(None), more.cache_key(None), found.cache_key(Some("t")), found.cache_key(Some("u"))];
        for (index, key) in keys.iter().enumerate() {
            assert!(!keys[..index].contains(key), "{keys:?}");
        }
    }

    #[test]
    fn a_token_is_not_printed() {
        let account =
            Account { namespace: "ns".into(), name: "a".into(), uid: "u".into(), annotations: BTreeMap::new() };
        let shown = format!("{:?}", AccountToken { account, token: "hunter2".into() });
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
