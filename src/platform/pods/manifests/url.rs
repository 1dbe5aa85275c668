//! The static pod URL, asked over a connection of its own each time.
//!
//! Owned by the HTTP source of pods. Keeps the URL, the headers, and the system's root certificates once they were needed.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use rustls::ClientConfig;
use url::Url;

use super::{FetchError, FetchProblem, Fetched, MANIFEST_BYTES_MAX, ManifestUrl};
use crate::platform::network::http_exchange::{Ask, Errand, Haste, Redirects, Target, WireError};
use crate::platform::network::names::Names;
use crate::platform::network::tls::{self, Offer};

/// For the whole exchange, as upstream.
const TIMEOUT: Duration = Duration::from_secs(10);
const USER_AGENT: &str = concat!("podwright/", env!("CARGO_PKG_VERSION"));

/// [`ManifestUrl`] over HTTP and HTTPS; servers' certificates are verified against the system's roots.
pub struct HttpManifestUrl {
    target: Result<Target, FetchProblem>,
    shown: String,
    headers: Vec<(String, String)>,
    tls: OnceLock<Arc<ClientConfig>>,
}

impl HttpManifestUrl {
    /// The URL and the headers of every request. A URL that is none is told by every [`ManifestUrl::fetch`]. Redirects
    /// are followed; the headers are not sent to another host.
    pub fn new(url: &str, headers: Vec<(String, String)>) -> Self {
        let parsed = Url::parse(url).map_err(FetchProblem::Url);
        let target = parsed.and_then(|url| Ok(Target::from_url(&url)?));
        let shown = match &target {
            Ok(target) => target.text.clone(),
            // One that cannot be parsed may hold a password anywhere.
            Err(_) => url.split('@').next_back().unwrap_or_default().to_owned(),
        };
        Self { target, shown, headers, tls: OnceLock::new() }
    }

    /// The same, trusting other certificates than the system's.
    #[must_use]
    pub fn with_tls(self, config: Arc<ClientConfig>) -> Self {
        Self { tls: OnceLock::from(config), ..self }
    }

    fn tls(&self) -> Result<Arc<ClientConfig>, WireError> {
        if let Some(config) = self.tls.get() {
            return Ok(Arc::clone(config));
        }
        let config = tls::system_client(Offer::from_environment());
        let config = config.map_err(|error| WireError::Settings(error.to_string()))?;
        Ok(Arc::clone(self.tls.get_or_init(|| config)))
    }

    async fn body(&self) -> Result<Vec<u8>, FetchProblem> {
        let given = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut headers: Vec<(&str, &str)> = given.collect();
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("user-agent")) {
            headers.push(("User-Agent", USER_AGENT));
        }
        let target = self.target.clone()?;
        let (redirects, body_max, timeout) = (Redirects::AnyHost, MANIFEST_BYTES_MAX, TIMEOUT);
        let ask = Ask { target, headers, redirects, body_max, timeout, haste: Haste::Great, names: Names::OfNode };
        let answer = Errand::new(ask)?.run(&|| self.tls()).await?;
        if answer.status != 200 {
            let status = hyper::StatusCode::from_u16(answer.status);
            return Err(status.map_or(FetchProblem::StrangeStatus(answer.status), FetchProblem::Status));
        }
        if answer.cut {
            return Err(FetchProblem::TooLarge);
        }
        Ok(answer.body)
    }
}

impl fmt::Debug for HttpManifestUrl {
    /// Without the headers' values: they may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("HttpManifestUrl").field("url", &self.shown).field("headers", &names).finish_non_exhaustive()
    }
}

#[async_trait]
impl ManifestUrl for HttpManifestUrl {
    async fn fetch(&self) -> Result<Fetched, FetchError> {
        match self.body().await {
            Ok(body) => Ok(Fetched { body: Arc::from(body) }),
            Err(problem) => Err(FetchError { url: self.shown.clone(), problem }),
        }
    }
}

#[cfg(test)]
mod tests;
