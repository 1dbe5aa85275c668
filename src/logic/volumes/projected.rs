//! A projected volume (VOL-26): files from several sources in one directory.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, ProjectedVolumeSource, Secret, ServiceAccountTokenProjection};

use super::downward::downward_payload;
use super::payload::{Payload, PayloadError, aggregate, config_map_payload, secret_payload};
use super::token::{EXPIRATION_SECONDS, TokenKey, private_file};
use crate::logic::ids::PodUid;
pub use crate::logic::object_references::Looked;
use crate::logic::resources::ResourceList;

/// The objects that a volume's files come from. No `Debug`: it holds Secrets.
#[derive(Clone, Default)]
pub struct Sources {
    /// ConfigMaps of the pod's namespace by name.
    pub config_maps: BTreeMap<String, Looked<ConfigMap>>,
    /// Secrets of the pod's namespace by name.
    pub secrets: BTreeMap<String, Looked<Secret>>,
    /// Tokens.
    pub tokens: BTreeMap<TokenKey, Result<Arc<str>, String>>,
}

/// Whose files may be read by whom: see [`private_file`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readers {
    /// The user that all containers run as, if they agree.
    pub fs_user: Option<u32>,
    /// The pod's `fsGroup`.
    pub fs_group: Option<u32>,
}

/// The token that a source asks for.
pub fn token_key(pod: &Pod, source: &ServiceAccountTokenProjection) -> TokenKey {
    let text = |text: Option<&String>| text.cloned().unwrap_or_default();
    TokenKey {
        namespace: text(pod.metadata.namespace.as_ref()),
        service_account: text(pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_ref())),
        audience: text(source.audience.as_ref()),
        expiration_seconds: source.expiration_seconds.unwrap_or(EXPIRATION_SECONDS),
        pod_name: text(pod.metadata.name.as_ref()),
        pod_uid: PodUid::from(text(pod.metadata.uid.as_ref())),
    }
}

/// The files of a projected volume. Later sources take the place of earlier ones with the same path.
///
/// # Errors
/// All sources that gave nothing, in one text as upstream joins them.
pub fn projected_payload(
    source: &ProjectedVolumeSource,
    pod: &Pod,
    found: &Sources,
    readers: Readers,
    allocatable: &ResourceList,
) -> Result<Payload, PayloadError> {
    let default_mode = source.default_mode.ok_or(PayloadError::NoDefaultMode)?;
    let mut payload = Payload::default();
    let mut errors = Vec::new();
    for projection in source.sources.iter().flatten() {
        let files = if let Some(secret) = &projection.secret {
            let optional = secret.optional.unwrap_or(false);
            look(&found.secrets, &secret.name, optional).and_then(|object| {
                let items = secret.items.as_deref().unwrap_or_default();
                secret_payload(items, &object, Some(default_mode), optional).map_err(|error| error.to_string())
            })
        } else if let Some(config_map) = &projection.config_map {
            let optional = config_map.optional.unwrap_or(false);
            look(&found.config_maps, &config_map.name, optional).and_then(|object| {
                let items = config_map.items.as_deref().unwrap_or_default();
                config_map_payload(items, &object, Some(default_mode), optional).map_err(|error| error.to_string())
            })
        } else if let Some(downward) = &projection.downward_api {
            let items = downward.items.as_deref().unwrap_or_default();
            downward_payload(items, pod, Some(default_mode), allocatable).map_err(|error| error.to_string())
        } else if let Some(wanted) = &projection.service_account_token {
            token_file(wanted, pod, found, readers, default_mode)
        } else {
            Err("a source of this kind is not supported by this version".to_owned())
        };
        match files {
            Ok(files) => payload.files.extend(files.files),
            Err(error) => errors.push(error),
        }
    }
    match errors.as_slice() {
        [] => Ok(payload),
        _ => Err(PayloadError::Several(vec![aggregate(&errors)])),
    }
}

fn look<T: Default>(objects: &BTreeMap<String, Looked<T>>, name: &str, optional: bool) -> Result<Arc<T>, String> {
    match objects.get(name) {
        Some(looked) => looked.or_empty(optional),
        None => Err(format!("nobody looked for {name:?}")),
    }
}

fn token_file(
    wanted: &ServiceAccountTokenProjection,
    pod: &Pod,
    found: &Sources,
    readers: Readers,
    default_mode: i32,
) -> Result<Payload, String> {
    let token = match found.tokens.get(&token_key(pod, wanted)) {
        Some(token) => token.clone()?,
        None => return Err("nobody asked for the token".to_owned()),
    };
    let (mode, owner) = private_file(default_mode, readers.fs_user, readers.fs_group);
    let mut payload = Payload::default();
    payload.insert(&wanted.path, token.as_bytes(), mode, owner);
    Ok(payload)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use k8s_openapi::api::core::v1::{ConfigMapProjection, SecretProjection, VolumeProjection};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn secret(name: &str, optional: Option<bool>) -> VolumeProjection {
        let secret = Some(SecretProjection { name: name.into(), optional, items: None });
        VolumeProjection { secret, ..VolumeProjection::default() }
    }

    fn config_map(name: &str) -> VolumeProjection {
        let config_map = Some(ConfigMapProjection { name: name.into(), optional: None, items: None });
        VolumeProjection { config_map, ..VolumeProjection::default() }
    }

    fn token() -> VolumeProjection {
        let service_account_token =
            Some(ServiceAccountTokenProjection { path: "token".into(), ..ServiceAccountTokenProjection::default() });
        VolumeProjection { service_account_token, ..VolumeProjection::default() }
    }

    fn pod() -> Pod {
        let metadata = ObjectMeta { name: Some("web".into()), uid: Some("u-1".into()), ..ObjectMeta::default() };
        Pod { metadata, ..Pod::default() }
    }

    fn found() -> Sources {
        let data = |value: &str| Some(BTreeMap::from([("key".to_owned(), value.to_owned())]));
        let bytes = Some(BTreeMap::from([("key".to_owned(), ByteString(b"secret".to_vec()))]));
        let token = token_key(&pod(), &token().service_account_token.unwrap());
        Sources {
            config_maps: BTreeMap::from([(
                "plain".into(),
                Looked::There(Arc::new(ConfigMap { data: data("plain"), ..ConfigMap::default() })),
            )]),
            secrets: BTreeMap::from([
                ("hidden".into(), Looked::There(Arc::new(Secret { data: bytes, ..Secret::default() }))),
                ("gone".into(), Looked::Missing("secret \"gone\" not found".into())),
            ]),
            tokens: BTreeMap::from([(token, Ok("abc".into()))]),
        }
    }

    fn payload(sources: Vec<VolumeProjection>, readers: Readers) -> Result<Payload, String> {
        let source = ProjectedVolumeSource { default_mode: Some(0o644), sources: Some(sources) };
        projected_payload(&source, &pod(), &found(), readers, &ResourceList::new()).map_err(|error| error.to_string())
    }

    #[test]
    fn later_sources_take_the_place_of_earlier_ones() {
        for (sources, expected) in [
            (vec![config_map("plain"), secret("hidden", None)], b"secret".as_slice()),
            (vec![secret("hidden", None), config_map("plain")], b"plain".as_slice()),
        ] {
            let payload = payload(sources, Readers::default()).unwrap();
            assert_eq!(&*payload.files["key"].content, expected);
        }
    }

    #[test]
    fn missing_sources_are_told_all_together_unless_optional() {
        let sources = || vec![secret("gone", None), config_map("plain"), secret("gone", None), secret("else", None)];
        let error = payload(sources(), Readers::default()).unwrap_err();
        assert_eq!(error, "[secret \"gone\" not found, nobody looked for \"else\"]");
        assert_eq!(payload(vec![secret("gone", Some(true))], Readers::default()), Ok(Payload::default()));
    }

    #[test]
    fn a_token_is_for_its_readers_alone() {
        let file = |readers| payload(vec![token()], readers).unwrap().files["token"].clone();
        let open = file(Readers::default());
        assert_eq!((&*open.content, open.mode, open.owner), (b"abc".as_slice(), 0o644, None));
        let narrow = file(Readers { fs_user: Some(7), fs_group: None });
        assert_eq!((narrow.mode, narrow.owner), (0o600, Some(7)));
    }
}
