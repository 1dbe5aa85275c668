//! Kubeconfigs: what is read, what is refused and in which words.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{Authority, Bearer, ClientCertificate, Kubeconfig, write_client_kubeconfig};

/// A file with this cluster and user, both called `x`.
fn written(folder: &Path, cluster: &str, user: &str) -> Result<Kubeconfig, String> {
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- {{name: c, context: {{cluster: x, user: x}}}}\n\
         clusters:\n- name: x\n  cluster: {cluster}\nusers:\n- name: x\n  user: {user}\n"
    );
    loaded(folder, &text)
}

fn loaded(folder: &Path, text: &str) -> Result<Kubeconfig, String> {
    let path = folder.join("kubelet.conf");
    std::fs::write(&path, text).expect("written");
    Kubeconfig::load(&path).map_err(|error| error.to_string().replace(&*folder.to_string_lossy(), "/f"))
}

#[test]
fn paths_are_relative_to_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let inside = |name: &str| folder.path().join(name);
    for name in ["ca.crt", "c.pem", "token"] {
        std::fs::write(inside(name), "x").expect("written");
    }
    let read = written(
        folder.path(),
        "{server: 'https://10.0.0.1:6443', certificate-authority: ca.crt, tls-server-name: kube}",
        "{client-certificate: ./c.pem, client-key: c.pem, tokenFile: token}",
    );
    let read = read.expect("usable");
    assert_eq!(read.server.to_string(), "https://10.0.0.1:6443");
    assert!(read.authority == Authority::File(inside("ca.crt")));
    assert!(read.certificate == ClientCertificate::Files { chain: inside("./c.pem"), key: inside("c.pem") });
    assert!(read.bearer == Bearer::File(inside("token"), None));
    assert_eq!(read.tls_server_name.as_deref(), Some("kube"));
}

#[test]
fn data_is_decoded_and_tokens_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let read = written(folder.path(), "{server: 'https://h', certificate-authority-data: Y2E=}", "{token: secret}");
    let read = read.expect("usable");
    assert!(read.authority == Authority::Data(b"ca".to_vec()) && read.bearer == Bearer::Token("secret".into()));
    assert!(read.anonymous().bearer == Bearer::Absent);
    let pair = written(
        folder.path(),
        "{server: 'https://h', insecure-skip-tls-verify: true}",
        "{client-certificate-data: Yw==, client-key-data: aw==}",
    );
    let pair = pair.expect("usable");
    assert!(pair.authority == Authority::Anyone);
    assert!(pair.certificate_pem().expect("data") == Some((b"c".to_vec(), b"k".to_vec())));
}

#[test]
fn faults_have_the_usual_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = "{server: 'https://h'}";
    for (cluster, user, text) in [
        ("{tls-server-name: kube}", "{}", "invalid configuration: no server found for cluster \"x\""),
        (
            "{}",
            "{}",
            "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable",
        ),
        (
            "{server: 'https://h', certificate-authority: missing}",
            "{}",
            "invalid configuration: unable to read certificate-authority /f/missing for x due to open /f/missing: no such \
             file or directory",
        ),
        (
            server,
            "{client-certificate-data: Yw==}",
            "invalid configuration: client-key-data or client-key must be specified for x to use the clientCert \
             authentication method.",
        ),
        (
            server,
            "{token: t, username: u}",
            "invalid configuration: more than one authentication method found for x; found [token basicAuth], only one is \
             allowed",
        ),
        (
            server,
            "{exec: {apiVersion: client.authentication.k8s.io/v1}}",
            "invalid configuration: [command must be specified for x to use exec authentication plugin, interactiveMode \
             must be specified for x to use exec authentication plugin]",
        ),
        (
            server,
            "{exec: {command: c, apiVersion: client.authentication.k8s.io/v9, interactiveMode: Never}}",
            "exec plugin: invalid apiVersion \"client.authentication.k8s.io/v9\"",
        ),
        (
            "{server: 'https://h', certificate-authority-data: Y2E=, insecure-skip-tls-verify: true}",
            "{}",
            "specifying a root certificates file with the insecure flag is not allowed",
        ),
        (
            "{server: 'https://h', proxy-url: 'socks4://hunter2@p:1080'}",
            "{}",
            "invalid configuration: invalid 'proxy-url' for cluster \"x\": unsupported scheme \"socks4\", must be http, https, or socks5",
        ),
        (
            server,
            "{as-groups: [admins]}",
            "invalid configuration: requesting uid, groups or user-extra for x without impersonating a user",
        ),
        (server, "{as: \"a\\nb\"}", "invalid as: it cannot be sent in a header"),
        ("{server: 'ftp://h'}", "{}", "host must be a URL or a host:port pair: \"ftp://h\""),
    ] {
        assert_eq!(written(folder.path(), cluster, user).err().as_deref(), Some(text), "{cluster} {user}");
    }
    let missing = Kubeconfig::load(Path::new("/nonexistent/kubelet.conf")).err().map(|error| error.to_string());
    assert_eq!(missing.as_deref(), Some("stat /nonexistent/kubelet.conf: no such file or directory"));
    let context = loaded(folder.path(), "current-context: nowhere").err();
    assert_eq!(context.as_deref(), Some("context was not found for specified context: nowhere"));
    assert!(loaded(folder.path(), "").is_err() && loaded(folder.path(), "- a").is_err());
}

/// SEC-40.
#[test]
fn somebody_else_is_named_in_headers() {
    let folder = tempfile::tempdir().expect("a folder");
    let user =
        "{token: t, as: system:node:n, as-uid: u1, as-groups: [a, b], as-user-extra: {example.com/x%: [1 2, '3']}}";
    let read = written(folder.path(), "{server: 'https://h'}", user).expect("usable");
    let headers: Vec<(&str, &str)> =
        read.impersonation.iter().map(|(name, value)| (name.as_str(), value.to_str().expect("text"))).collect();
    let expected = [
        ("impersonate-user", "system:node:n"),
        ("impersonate-uid", "u1"),
        ("impersonate-group", "a"),
        ("impersonate-group", "b"),
        ("impersonate-extra-example.com%2fx%25", "1 2"),
        ("impersonate-extra-example.com%2fx%25", "3"),
    ];
    assert_eq!(headers, expected);
    assert!(read.anonymous().impersonation.is_empty());
}

/// SEC-40.
#[test]
fn a_secret_of_the_wrong_kind_is_not_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    for user in ["{token: [hunter2]}", "{client-key-data: 'hunter2!'}", "hunter2"] {
        let text = written(folder.path(), "{server: 'https://h'}", user).err().expect("refused");
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn what_is_written_for_a_node_is_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let pair = folder.path().join("kubelet-client-current.pem");
    std::fs::write(&pair, "x").expect("written");
    let bootstrap = written(
        folder.path(),
        "{server: 'https://10.0.0.1:6443', certificate-authority-data: Y2E=, proxy-url: 'http://p:3128', \
         tls-server-name: kube}",
        "{token: bootstrap-token}",
    );
    let path = folder.path().join("etc/kubelet.conf");
    for _ in 0..2 {
        write_client_kubeconfig(bootstrap.as_ref().expect("usable"), &path, &pair).expect("written");
    }
    let text = std::fs::read_to_string(&path).expect("there");
    assert!(!text.contains("bootstrap-token") && text.contains("default-auth"), "{text}");
    assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    let read = Kubeconfig::load(&path).expect("usable");
    assert_eq!(read.server.to_string(), "https://10.0.0.1:6443");
    assert!(read.certificate == ClientCertificate::Files { chain: pair.clone(), key: pair });
    assert!(read.authority == Authority::Data(b"ca".to_vec()));
    assert_eq!(read.tls_server_name.as_deref(), Some("kube"));
    assert_eq!(read.proxy.map(|proxy| proxy.url().to_owned()).as_deref(), Some("http://p:3128"));
}

/// As kubectl reads `KUBECONFIG`: the first file that sets something counts, paths are relative to their own file.
#[test]
fn several_files_are_one_kubeconfig_and_a_context_is_chosen() {
    let folder = tempfile::tempdir().expect("a folder");
    let inside = |name: &str| folder.path().join(name);
    for name in ["one", "two"] {
        std::fs::create_dir(inside(name)).expect("made");
        std::fs::write(inside(name).join("token"), name).expect("written");
    }
    let file = |name: &str, context: &str| {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {context}\n\
             contexts:\n- {{name: {context}, context: {{cluster: {name}, user: {name}}}}}\n\
             clusters:\n- {{name: {name}, cluster: {{server: 'https://{name}'}}}}\n\
             users:\n- {{name: {name}, user: {{tokenFile: token}}}}\n"
        );
        std::fs::write(inside(name).join("config"), text).expect("written");
        inside(name).join("config")
    };
    let files = [file("one", "a"), inside("absent"), file("two", "b")];
    let read = |context| Kubeconfig::load_merged(&files, context).map_err(|error| error.to_string());
    let current = read(None).expect("usable");
    assert!(current.bearer == Bearer::File(inside("one").join("token"), None), "the first file's");
    let other = read(Some("b")).expect("usable");
    assert_eq!(other.server.to_string(), "https://two");
    assert!(other.bearer == Bearer::File(inside("two").join("token"), None));
    assert_eq!(read(Some("c")).err().as_deref(), Some("context \"c\" does not exist"));
    assert!(Kubeconfig::load_merged(&[inside("absent")], None).is_err(), "there is nothing at all");
}
