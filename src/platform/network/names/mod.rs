//! Names become addresses, and no lookup holds up anything but its askers.
//!
//! Pods choose the hosts of their probes and hooks. [`NameServers`] looks such a name up without a thread: it asks the
//! node's name servers itself, once per name at a time, and ends with its last asker. The operator chooses all other names:
//! the API server, a proxy, a collector. [`lookup`] leaves them to the C library, which honours `nsswitch.conf`, on a
//! few threads of its own.

mod exchange;
mod servers;

use std::net::SocketAddr;
use std::sync::Arc;

pub use servers::NameServers;

use crate::platform::host::blocking::lookup::{self, LookupError, literal};

/// Most addresses of one name.
const ADDRESSES_MAX: usize = 32;

/// The way that the names of a request are looked up.
#[derive(Clone, Debug)]
pub enum Names {
    /// Names that pods choose.
    OfPods(Arc<NameServers>),
    /// Names that the operator chooses.
    OfNode,
}

impl Names {
    /// The addresses of a host, in the order in which they are to be dialled; one at least.
    ///
    /// # Errors
    /// The host has no address, or nobody says so.
    pub async fn find(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, LookupError> {
        if let Some(address) = literal(host, port) {
            return Ok(vec![address]);
        }
        match self {
            Self::OfNode => lookup::find(host, port).await,
            Self::OfPods(servers) => {
                let found = servers.find(host).await?;
                Ok(found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
            }
        }
    }
}

#[cfg(test)]
pub(in crate::platform) mod tests;
