//! The IDs that pods with user namespaces of their own may have (RES-63).

use crate::config::Invocation;
use crate::logic::resources::user_namespaces::space::{IdSpace, subordinate_ids};
use crate::platform::pods::subordinate_ids::ask;

/// The subordinate IDs of the user `kubelet`; all IDs behind the first slot where there are none.
///
/// # Errors
/// When they do not suit this configuration, or should be there and are not known; upstream's texts.
pub(super) async fn user_ids(invocation: &Invocation) -> Result<IdSpace, String> {
    let printed = ask().await.map_err(|error| error.to_string()).map_err(of_mappings)?;
    space(invocation, printed)
}

fn space(invocation: &Invocation, printed: Option<[String; 2]>) -> Result<IdSpace, String> {
    let config = &invocation.config;
    let max_pods = i64::from(config.max_pods);
    // Validation has refused sizes that are none.
    let ids_per_pod = u32::try_from(config.user_namespace_ids_per_pod()).unwrap_or(u32::MAX);
    let space = match printed {
        None => IdSpace::behind_the_first(ids_per_pod, max_pods),
        Some([users, groups]) => {
            let ids = subordinate_ids(&users, &groups).map_err(|error| error.to_string()).map_err(of_mappings)?;
            IdSpace::new(ids, ids_per_pod, max_pods)
        }
    };
    space.map_err(|error| format!("create user namespace manager: {error}"))
}

fn of_mappings(problem: String) -> String {
    format!("create user namespace manager: kubelet mappings: {problem}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Host, Startup, load};
    use crate::logic::resources::user_namespaces::IdRange;

    /// RES-63: upstream's words, as they stand behind `failed to run Kubelet`.
    #[test]
    fn res_63_ids_are_the_administrators_or_all_behind_the_first_slot() {
        let loaded = load(&["--max-pods=2".to_owned()], Host { cgroup_v1: false });
        let Ok(Startup::Run(invocation)) = loaded else { panic!("{loaded:?}") };
        let told = |users: &str, groups: &str| space(&invocation, Some([users.to_owned(), groups.to_owned()]));
        let all = space(&invocation, None).expect("suits");
        assert_eq!((all.slots(), all.range(0)), (65_534, IdRange { first: 65_536, length: 65_536 }));
        let two = "0: kubelet 131072 131072\n";
        let given = told(two, two).expect("suits");
        assert_eq!((given.slots(), given.range(0)), (2, IdRange { first: 131_072, length: 65_536 }));
        let one = "0: kubelet 131072 65536\n";
        for (users, groups, problem) in [
            (one, one, "create user namespace manager: kubelet user assigned IDs are not enough to support 2 pods"),
            (
                one,
                two,
                "create user namespace manager: kubelet mappings: mismatched subuids and subgids for user \"kubelet\"",
            ),
            ("", "", "create user namespace manager: kubelet mappings: invalid line \"\""),
        ] {
            assert_eq!(told(users, groups), Err(problem.to_owned()));
        }
    }
}
