//! A projected volume (VOL-26): files from several sources in one directory.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    ClusterTrustBundleProjection, ConfigMap, Pod, PodCertificateProjection, ProjectedVolumeSource, Secret,
    ServiceAccountTokenProjection,
};

use super::certificate::KeyAndChain;
use super::downward::downward_payload;
use super::payload::{Payload, PayloadError, aggregate, config_map_payload, secret_payload};
use super::token::{EXPIRATION_SECONDS, TokenKey, private_file};
use super::trust::{TrustKey, anchors_file, trust_key};
use crate::logic::model::ids::PodUid;
pub use crate::logic::objects::object_references::Looked;
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
    /// Trust anchors: bundles as the API has them.
    pub trust: BTreeMap<TrustKey, Looked<Vec<String>>>,
    /// Keys and chains of certificates, by the place of their source in the volume.
    pub certificates: BTreeMap<usize, KeyAndChain>,
}

/// Owner and readers of files: see [`private_file`].
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
        service_account_uid: String::new(),
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
    for (place, projection) in source.sources.iter().flatten().enumerate() {
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
        } else if let Some(wanted) = &projection.cluster_trust_bundle {
            trust_file(wanted, pod, found, readers, default_mode)
        } else if let Some(wanted) = &projection.pod_certificate {
            certificate_files(wanted, found.certificates.get(&place), readers, default_mode)
        } else {
            // The API server takes out the kind whose gate is off, and leaves the source.
            continue;
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

fn certificate_files(
    wanted: &PodCertificateProjection,
    found: Option<&KeyAndChain>,
    readers: Readers,
    default_mode: i32,
) -> Result<Payload, String> {
    let (key, chain) = found.ok_or("nobody asked for the certificate")?.clone()?;
    let (mode, owner) = private_file(default_mode, readers.fs_user, readers.fs_group);
    let mut payload = Payload::default();
    let both = format!("{key}{chain}");
    for (path, content) in [
        (&wanted.credential_bundle_path, both.as_str()),
        (&wanted.key_path, &*key),
        (&wanted.certificate_chain_path, &*chain),
    ] {
        if let Some(path) = path.as_deref().filter(|path| !path.is_empty()) {
            payload.insert(path, content.as_bytes(), mode, owner);
        }
    }
    Ok(payload)
}

fn trust_file(
    wanted: &ClusterTrustBundleProjection,
    pod: &Pod,
    found: &Sources,
    readers: Readers,
    default_mode: i32,
) -> Result<Payload, String> {
    let looked = found.trust.get(&trust_key(wanted)?).ok_or("nobody looked for the trust bundle")?;
    let bundles = looked.or_empty(wanted.optional.unwrap_or(false))?;
    let salt = pod.metadata.uid.as_deref().unwrap_or_default();
    let file = anchors_file(bundles.iter().map(String::as_str), salt);
    let (mode, owner) = private_file(default_mode, readers.fs_user, readers.fs_group);
    let mut payload = Payload::default();
    payload.insert(&wanted.path, file.as_bytes(), mode, owner);
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
            trust: BTreeMap::from([
                (TrustKey::Name("root".into()), Looked::There(Arc::new(vec![anchor()]))),
                (TrustKey::Name("gone".into()), Looked::Missing("not found".into())),
                (TrustKey::Name("away".into()), Looked::Unknown("connection refused".into())),
            ]),
            certificates: BTreeMap::from([(0, Ok(("key\n".into(), "chain\n".into()))), (1, Err("denied".into()))]),
        }
    }

    fn payload(sources: Vec<VolumeProjection>, readers: Readers) -> Result<Payload, String> {
        let source = ProjectedVolumeSource { default_mode: Some(0o644), sources: Some(sources) };
        projected_payload(&source, &pod(), &found(), readers, &ResourceList::new()).map_err(|error| error.to_string())
    }

    /// VOL-26.
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

    /// VOL-26.
    #[test]
    fn missing_sources_are_told_all_together_unless_optional() {
        let sources = || vec![secret("gone", None), config_map("plain"), secret("gone", None), secret("else", None)];
        let error = payload(sources(), Readers::default()).unwrap_err();
        assert_eq!(error, "[secret \"gone\" not found, nobody looked for \"else\"]");
        assert_eq!(payload(vec![secret("gone", Some(true))], Readers::default()), Ok(Payload::default()));
    }

    #[test]
    fn a_source_that_the_api_server_has_emptied_gives_no_file() {
        let payload = payload(vec![VolumeProjection::default(), config_map("plain")], Readers::default()).unwrap();
        assert_eq!(payload.files.keys().collect::<Vec<_>>(), ["key"]);
    }

    fn anchor() -> String {
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned()
    }

    #[test]
    fn trust_anchors_are_a_file_that_may_be_empty_only_when_it_is_optional() {
        let bundle = |name: &str, optional| {
            let source = ClusterTrustBundleProjection {
                name: Some(name.into()),
                optional,
                path: "ca.pem".into(),
                ..ClusterTrustBundleProjection::default()
            };
            let source = VolumeProjection { cluster_trust_bundle: Some(source), ..VolumeProjection::default() };
            payload(vec![source], Readers { fs_user: None, fs_group: Some(5) })
        };
        let text = |found: Result<Payload, String>| {
            found.map(|payload| String::from_utf8(payload.files["ca.pem"].content.to_vec()).unwrap())
        };
        assert_eq!(bundle("root", None).unwrap().files["ca.pem"].mode, 0o600);
        assert_eq!(text(bundle("root", None)), Ok(anchor()));
        assert_eq!(text(bundle("gone", Some(true))), Ok(String::new()));
        assert_eq!(text(bundle("gone", None)), Err("not found".into()));
        assert_eq!(text(bundle("away", Some(true))), Err("connection refused".into()));
    }

    #[test]
    fn a_certificate_is_written_where_its_source_says() {
        let source = |both: Option<&str>, key: Option<&str>, chain: Option<&str>| {
            let source = PodCertificateProjection {
                credential_bundle_path: both.map(str::to_owned),
                key_path: key.map(str::to_owned),
                certificate_chain_path: chain.map(str::to_owned),
                ..PodCertificateProjection::default()
            };
            VolumeProjection { pod_certificate: Some(source), ..VolumeProjection::default() }
        };
        let files = |sources| {
            payload(sources, Readers { fs_user: Some(7), fs_group: None }).map(|payload| {
                let files = payload.files.into_iter();
                let text = |content: &[u8]| String::from_utf8(content.to_vec()).unwrap();
                files.map(|(path, file)| format!("{path} {:o} {}", file.mode, text(&file.content))).collect::<Vec<_>>()
            })
        };
        assert_eq!(files(vec![source(Some("all"), None, None)]), Ok(vec!["all 600 key\nchain\n".to_owned()]));
        let apart = files(vec![source(None, Some("k"), Some("c"))]);
        assert_eq!(apart, Ok(vec!["c 600 chain\n".to_owned(), "k 600 key\n".to_owned()]));
        assert_eq!(files(vec![source(Some("a"), None, None), source(Some("b"), None, None)]), Err("denied".into()));
    }

    /// VOL-30.
    #[test]
    fn a_token_is_for_its_readers_alone() {
        let file = |readers| payload(vec![token()], readers).unwrap().files["token"].clone();
        let open = file(Readers::default());
        assert_eq!((&*open.content, open.mode, open.owner), (b"abc".as_slice(), 0o644, None));
        let narrow = file(Readers { fs_user: Some(7), fs_group: None });
        assert_eq!((narrow.mode, narrow.owner), (0o600, Some(7)));
    }
}
