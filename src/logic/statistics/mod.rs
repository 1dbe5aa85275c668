//! Statistics of the node, its pods, their containers and volumes: what files of the kernel say, and what is made of it.
//!
//! Pure. `figures` is what was read, `parse` how the kernel writes it, `sample` one look at everything; `rates` needs two
//! looks, and so does `groupless`, which finds containers that nobody can measure. `told` is what the runtime tells instead.
//! Of a sample come `/stats/summary` (`summary`, `build`), `/metrics/resource` (`resource_metrics`),
//! `/metrics/cadvisor` (`cadvisor`), and eviction's signals.
//!
//! May import `formats`, `model` and `volumes`.

pub mod build;
pub mod cadvisor;
pub mod chosen;
pub mod exposition;
pub mod figures;
pub mod groupless;
pub mod parse;
pub mod rates;
pub mod resource_metrics;
pub mod sample;
pub mod summary;
pub mod told;
pub mod volumes;
pub mod walks;
