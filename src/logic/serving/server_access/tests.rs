//! Tests of the rights that paths need, and of which paths there are.

use super::*;

#[test]
fn each_path_has_the_rights_of_the_table() {
    for (path, rights) in [
        ("/pods", &["pods", "proxy"][..]),
        ("/pods/", &["pods", "proxy"]),
        ("/runningpods/", &["pods", "proxy"]),
        ("/runningpodsx", &["proxy"]),
        ("/healthz", &["healthz", "proxy"]),
        ("/healthz/ping", &["healthz", "proxy"]),
        ("/configz", &["configz", "proxy"]),
        ("/flagz", &["configz"]),
        ("/statusz", &["statusz"]),
        ("/stats/summary", &["stats"]),
        ("/metrics", &["metrics"]),
        ("/metrics/cadvisor", &["metrics"]),
        ("/logs/syslog", &["log"]),
        ("/checkpoint/a/b/c", &["checkpoint"]),
        ("/exec/a/b/c", &["proxy"]),
        ("/run/a/b/c", &["proxy"]),
        ("/containerLogs/a/b/c", &["proxy"]),
        ("/debug/pprof/profile", &["proxy"]),
        ("/debug/actors", &["podwright", "proxy"]),
        ("/debug/actors/trace", &["podwright", "proxy"]),
        ("/debug/plugins", &["podwright", "proxy"]),
        ("/ps", &["podwright", "proxy"]),
        ("/psx", &["proxy"]),
        ("/explain/shop/web", &["podwright", "proxy"]),
        ("/events", &["podwright", "proxy"]),
        ("/images", &["podwright", "proxy"]),
        ("/restart/shop/web", &["proxy"]),
    ] {
        assert_eq!(subresources(path), rights, "{path}");
    }
    let verbs = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "get"].map(verb);
    assert_eq!(verbs, ["get", "create", "update", "patch", "delete", "", ""]);
}

#[test]
fn refusals_are_upstreams_to_the_byte() {
    assert_eq!(
        forbidden("jane", "get", &["pods", "proxy"]),
        "Forbidden (user=jane, verb=get, resource=nodes, subresource(s)=[pods proxy])\n"
    );
    assert_eq!(
        authorization_error("jane", "get", "proxy"),
        "Authorization error (user=jane, verb=get, resource=nodes, subresource=proxy)"
    );
}

#[test]
fn whoever_proved_something_is_in_the_group_of_those_once() {
    let jane = User { name: "jane".into(), groups: vec!["dev".into()], ..User::default() }.authenticated();
    assert_eq!(jane.groups, ["dev", AUTHENTICATED]);
    assert_eq!(jane.clone().authenticated(), jane);
    assert_eq!(User::anonymous().authenticated(), User::anonymous());
}

#[test]
fn what_is_not_in_the_table_is_nowhere() {
    let on = Switches::default();
    for path in [
        "/",
        "/nope",
        "/podsx",
        "/metrics/",
        "/metrics/foo",
        "/spec",
        "/version",
        "/livez",
        "/debug/actorsx",
        "/restart/a/b",
        "*",
    ] {
        assert_eq!(way(path, on), Way::Nowhere, "{path}");
    }
    for path in
        ["/pods", "/pods/", "/healthz", "/healthz/x", "/exec/a/b/c", "/stats/summary", "/logs/", "/metrics/slis"]
    {
        assert_eq!(way(path, on), Way::On, "{path}");
    }
}

#[test]
fn paths_are_put_right_before_anything_else() {
    let on = Switches::default();
    for (path, clean) in [
        ("//healthz", "/healthz"),
        ("/exec/../pods", "/pods"),
        ("/logs//a/", "/logs/a/"),
        ("/..", "/"),
        ("///stats", "/stats/"),
        (r"//\node.example/", "/%5Cnode.example/"),
        ("/runningpods", "/runningpods/"),
        ("/stats", "/stats/"),
        ("/logs", "/logs/"),
        ("/debug/pprof", "/debug/pprof/"),
    ] {
        assert_eq!(way(path, on), Way::Elsewhere(clean.into()), "{path}");
    }
    // A path that was put right once stays as it is.
    for path in ["//a/../b//", "/a/./b", "/../../etc/passwd"] {
        let Way::Elsewhere(clean) = way(path, on) else { panic!("{path}") };
        assert_eq!(cleaned(&clean), None, "{path}");
    }
}

#[test]
fn switches_turn_off_what_they_name() {
    let all_off = Switches { debugging: false, ..Switches::default() };
    let told = [
        "/run/a/b/c",
        "/exec/a/b/c",
        "/attach/a/b/c",
        "/portForward/a/b",
        "/containerLogs/a/b/c",
        "/runningpods/",
        "/debug/pprof/profile",
        "/logs/",
    ];
    for path in told {
        assert_eq!(way(path, all_off), Way::Off("Debug endpoints are disabled."), "{path}");
    }
    for path in ["/configz", "/flagz", "/statusz", "/checkpoint/a/b/c", "/debug/flags/v", "/debug/actors", "/ps"] {
        assert_eq!(way(path, all_off), Way::Nowhere, "{path}");
    }
    for path in ["/pods", "/metrics", "/stats/summary", "/healthz"] {
        assert_eq!(way(path, all_off), Way::On, "{path}");
    }
    for (switches, path, text) in [
        (Switches { system_logs: false, ..Switches::default() }, "/logs/x", "logs endpoint is disabled."),
        (Switches { profiling: false, ..Switches::default() }, "/debug/pprof/heap", "profiling endpoint is disabled."),
        (Switches { debug_flags: false, ..Switches::default() }, "/debug/flags/v", "flags endpoint is disabled."),
    ] {
        assert_eq!(way(path, switches), Way::Off(text));
    }
    assert_eq!(way("/flagz", Switches { flagz: false, ..Switches::default() }), Way::Nowhere);
    assert_eq!(way("/statusz", Switches { statusz: false, ..Switches::default() }), Way::Nowhere);
    assert_eq!(way("/checkpoint/a/b/c", Switches { checkpoint: false, ..Switches::default() }), Way::Nowhere);
}
