//! Network: addresses and names of the node and its pods, resolvers, packet filter rules, proxies.
//!
//! May import `formats`, `model` and `events`.

pub mod default_address;
pub mod dns;
pub mod host_ips;
pub mod hostname;
pub mod hosts_file;
pub mod http_proxy;
pub mod name_lookup;
pub mod network_rules;
pub mod node_addresses;
