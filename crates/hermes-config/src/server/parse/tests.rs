//! What each key of an entry may say, its default, and what is refused.

use serde_json::json;

use super::*;

mod sandbox;

use crate::server::{
    ClientCertificate, DpopUse, EnterpriseSettings, HttpSettings, OAuthGrant, OAuthSettings,
    StdioSettings, TlsVerification,
};

fn parse(template: Value) -> (Result<Server, ServerEntryError>, Vec<String>) {
    let (entry, warnings) = ServerEntry::parse(
        "s",
        template,
        &Variables::from_pairs([("ON", "yes"), ("N", "7")]),
    );
    (
        entry.server,
        warnings.iter().map(ToString::to_string).collect(),
    )
}

/// An entry with a command and these keys besides, without a warning.
fn server(mut keys: Value) -> Server {
    keys["command"] = json!("x");
    let (server, warnings) = parse(keys);
    assert_eq!(warnings, [""; 0]);
    server.unwrap()
}

/// The single warning of an entry with a command and these keys besides.
fn warned(mut keys: Value) -> (Server, String) {
    keys["command"] = json!("x");
    let (server, warnings) = parse(keys);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    (server.unwrap(), warnings[0].clone())
}

fn http(mut keys: Value) -> HttpSettings {
    keys["url"] = json!("https://x.example");
    match parse(keys) {
        (
            Ok(Server {
                transport: TransportSettings::Http(http),
                ..
            }),
            warnings,
        ) if warnings.is_empty() => http,
        other => panic!("{other:?}"),
    }
}

fn problem_of(template: Value) -> String {
    parse(template).0.unwrap_err().to_string()
}

#[test]
fn a_command_alone_gets_every_default() {
    let server = server(json!({}));
    assert_eq!(server.name.as_str(), "s");
    assert_eq!(server.transport.kind(), "stdio");
    assert!(server.enabled);
    assert_eq!(server.timeout, Duration::from_mins(2));
    assert_eq!(server.connect_timeout, Duration::from_mins(1));
    assert!(!server.connect_timeout_is_set);
    assert_eq!(server.calls, CallOrder::OneByOne);
    assert_eq!(server.tools, ToolPolicy::default());
    assert_eq!(server.protocol, ProtocolChoice::Auto);
    assert_eq!(server.auth, None);
    assert_eq!(server.oauth, OAuthSettings::default());
    assert_eq!(server.sampling, SamplingPolicy::default());
    assert_eq!(server.elicitation, ElicitationPolicy::default());
    assert_eq!(server.roots, RootsPolicy::Auto);
    assert_eq!(server.keepalive, None);
    assert_eq!((server.idle_timeout, server.max_lifetime), (None, None));
    assert!(!server.lazy);
    assert_eq!(server.pin_tools, PinTools::Warn);
    assert_eq!(server.sandbox, SandboxSettings::default());
}

#[test]
fn exactly_one_of_command_and_url() {
    assert_eq!(
        parse(json!({"command": "x", "url": "https://x"})).0,
        Err(ServerEntryError::BothTransports)
    );
    assert_eq!(
        parse(json!({"args": []})).0,
        Err(ServerEntryError::NoTransport)
    );
    assert_eq!(
        parse(json!({"command": null, "url": null})).0,
        Err(ServerEntryError::NoTransport)
    );
    assert_eq!(parse(json!("x")).0, Err(ServerEntryError::NoTransport));
    assert!(problem_of(json!({"command": "  "})).contains("`command`"));
    assert!(problem_of(json!({"command": ["npx", "-y"]})).contains("`args`"));
}

#[test]
fn the_stdio_keys() {
    let server = server(json!({
        "args": ["-y", 8080, true, "1.10"],
        "env": {"B": "2", "A": 1, "FLAG": true},
        "workdir": "/srv",
    }));
    let TransportSettings::Stdio(stdio) = server.transport else {
        panic!()
    };
    assert_eq!(
        stdio,
        StdioSettings {
            command: "x".into(),
            args: ["-y", "8080", "true", "1.10"].map(String::from).into(),
            env: [("B", "2"), ("A", "1"), ("FLAG", "true")]
                .map(|(k, v)| (k.into(), v.into()))
                .into(),
            cwd: Some("/srv".into()),
        }
    );
    assert!(problem_of(json!({"command": "x", "args": "-y"})).contains("must be a list"));
    assert!(problem_of(json!({"command": "x", "args": [{}]})).contains("`args`"));
    assert!(problem_of(json!({"command": "x", "env": ["A=B"]})).contains("`env`"));
    assert!(warned(json!({"env": {"A": null}})).1.contains("`s.env.A`"));
    assert!(
        warned(json!({"cwd": "/a", "workdir": "/b"}))
            .1
            .contains("workdir")
    );
}

#[test]
fn the_http_keys() {
    let settings = http(json!({
        "headers": {"Authorization": "Bearer x", "X-Team": 7},
        "skip_preflight": "yes",
    }));
    assert_eq!(settings.headers[1], ("X-Team".into(), "7".into()));
    assert!(settings.skip_preflight);
    assert_eq!(settings.verify, TlsVerification::Roots);
    assert_eq!(
        http(json!({"ssl_verify": "${ON}"})).verify,
        TlsVerification::Roots
    );
    assert_eq!(
        http(json!({"ssl_verify": "no"})).verify,
        TlsVerification::Off
    );
    assert_eq!(
        http(json!({"ssl_verify": "/ca.pem"})).verify,
        TlsVerification::CaFile("/ca.pem".into())
    );
}

#[test]
fn addresses_are_checked_unless_a_reference_is_in_them() {
    for bad in [
        "ftp://x",
        "x.example/mcp",
        "https://",
        "",
        "/path",
        "file:///etc",
    ] {
        let (server, _) = parse(json!({"url": bad}));
        assert!(
            matches!(server, Err(ServerEntryError::BadUrl { .. })),
            "{bad}"
        );
    }
    assert!(problem_of(json!({"url": 5})).contains("`url`"));
    for good in [
        "http://127.0.0.1:8080/mcp",
        " https://x.example ",
        "https://${HOST}/mcp",
        "${URL}",
    ] {
        assert!(parse(json!({"url": good})).0.is_ok(), "{good}");
    }
    assert!(!problem_of(json!({"url": "ftp://me:hunter2@x"})).contains("hunter2"));
}

#[test]
fn a_client_certificate_comes_in_three_shapes() {
    let identity = |keys| http(keys).client_certificate;
    let expected = |key: Option<&str>, passphrase: Option<&str>| {
        Some(ClientCertificate {
            certificate: "c".into(),
            key: key.map(Into::into),
            passphrase: passphrase.map(Into::into),
        })
    };
    assert_eq!(identity(json!({})), None);
    assert_eq!(identity(json!({"client_cert": "c"})), expected(None, None));
    assert_eq!(
        identity(json!({"client_cert": "c", "client_key": "k"})),
        expected(Some("k"), None)
    );
    assert_eq!(
        identity(json!({"client_cert": ["c", "k"]})),
        expected(Some("k"), None)
    );
    assert_eq!(
        identity(json!({"client_cert": ["c", "k", "p"]})),
        expected(Some("k"), Some("p"))
    );
    for bad in [
        json!([]),
        json!(["c", "k", "p", "x"]),
        json!([1]),
        json!({}),
    ] {
        let problem = problem_of(json!({"url": "https://x", "client_cert": bad}));
        assert!(problem.contains("`client_cert`"), "{problem}");
    }
    assert!(problem_of(json!({"url": "https://x", "client_key": "k"})).contains("`client_cert`"));
}

#[test]
fn transport_must_fit_the_target() {
    let kind = |keys| parse(keys).0.unwrap().transport.kind();
    assert_eq!(kind(json!({"url": "https://x"})), "http");
    assert_eq!(kind(json!({"url": "https://x", "transport": "SSE"})), "sse");
    assert_eq!(
        kind(json!({"url": "https://x", "transport": "streamable-http"})),
        "http"
    );
    assert_eq!(kind(json!({"command": "x", "transport": "stdio"})), "stdio");
    assert!(problem_of(json!({"url": "https://x", "transport": "stdio"})).contains("`command`"));
    assert!(problem_of(json!({"command": "x", "transport": "http"})).contains("`url`"));
    assert!(warned(json!({"transport": "pigeon"})).1.contains("`stdio`"));
}

#[test]
fn keys_of_the_other_transport_are_named() {
    assert!(warned(json!({"headers": {"A": "b"}})).1.contains("`url`"));
    let (_, warnings) = parse(json!({"url": "https://x", "args": ["y"], "env": {}}));
    assert_eq!(warnings.len(), 2);
    assert!(warned(json!({"auth": "oauth"})).1.contains("`s.auth`"));
}

#[test]
fn flags_and_numbers_are_read_leniently() {
    let server = server(json!({
        "enabled": "Off", "lazy": 1, "supports_parallel_tool_calls": "${ON}",
        "timeout": "30", "connect_timeout": 0.5, "idle_timeout_seconds": "${N}",
    }));
    assert!(!server.enabled);
    assert!(server.lazy);
    assert_eq!(server.calls, CallOrder::Parallel);
    assert_eq!(server.timeout, Duration::from_secs(30));
    assert_eq!(server.connect_timeout, Duration::from_millis(500));
    assert!(server.connect_timeout_is_set);
    assert_eq!(server.idle_timeout, Some(Duration::from_secs(7)));
}

#[test]
fn absurd_numbers_warn_and_fall_back() {
    for bad in [
        json!(0),
        json!(-1),
        json!("soon"),
        json!([1]),
        json!(1e12),
        json!("nan"),
        json!(true),
    ] {
        let (server, warning) = warned(json!({"timeout": bad}));
        assert_eq!(server.timeout, Duration::from_mins(2));
        assert!(
            warning.contains("`s.timeout`") && warning.contains("120"),
            "{warning}"
        );
    }
    let (server, _) = warned(json!({"enabled": "maybe"}));
    assert!(server.enabled);
    let (server, _) = warned(json!({"max_lifetime_seconds": -1}));
    assert_eq!(server.max_lifetime, None);
}

#[test]
fn sampling_has_lower_bounds() {
    let sampling = server(json!({"sampling": {
        "enabled": false, "model": "m", "max_tokens_cap": 1, "timeout": 1, "max_rpm": "2",
        "allowed_models": ["a", "b"], "max_tool_rounds": 0, "log_level": "debug",
    }}))
    .sampling;
    assert_eq!(
        sampling,
        SamplingPolicy {
            enabled: false,
            model: Some("m".into()),
            max_tokens_cap: 1,
            timeout: Duration::from_secs(1),
            max_rpm: 2,
            allowed_models: vec!["a".into(), "b".into()],
            max_tool_rounds: 0,
            log_level: AuditLevel::Debug,
        }
    );
    for (key, bad) in [
        ("max_tokens_cap", json!(0)),
        ("max_rpm", json!(0)),
        ("timeout", json!(0.5)),
        ("max_tool_rounds", json!(-1)),
        ("max_rpm", json!(1.5)),
        ("log_level", json!("loud")),
        ("max_tokens_cap", json!(5_000_000_000_u64)),
    ] {
        let (server, warning) = warned(json!({"sampling": {key: bad}}));
        assert_eq!(server.sampling, SamplingPolicy::default());
        assert!(
            warning.contains(&format!("`s.sampling.{key}`")),
            "{warning}"
        );
    }
}

#[test]
fn keepalive_depends_on_the_transport_and_has_a_floor() {
    let keepalive = |keys| parse(keys).0.unwrap().keepalive.map(|time| time.as_secs());
    assert_eq!(keepalive(json!({"url": "https://x"})), Some(180));
    assert_eq!(
        keepalive(json!({"url": "https://x", "keepalive_interval": 0})),
        None
    );
    assert_eq!(
        keepalive(json!({"command": "x", "keepalive_interval": 5})),
        Some(5)
    );
    let (server, warning) = warned(json!({"keepalive_interval": 2}));
    assert_eq!(server.keepalive, Some(Duration::from_secs(5)));
    assert!(warning.contains("keepalive_interval"), "{warning}");
}

#[test]
fn limits_may_stand_under_lifecycle() {
    let nested =
        server(json!({"lifecycle": {"idle_timeout_seconds": 9, "max_lifetime_seconds": 0}}));
    assert_eq!(nested.idle_timeout, Some(Duration::from_secs(9)));
    assert_eq!(nested.max_lifetime, None);
    let both = server(json!({"idle_timeout_seconds": 3, "lifecycle": {"idle_timeout_seconds": 9}}));
    assert_eq!(both.idle_timeout, Some(Duration::from_secs(3)));
}

#[test]
fn an_empty_include_is_not_an_absent_one() {
    let tools = |keys| server(json!({"tools": keys})).tools;
    assert_eq!(tools(json!({"include": []})).include, Some(vec![]));
    assert_eq!(tools(json!({"include": null})).include, None);
    assert_eq!(
        tools(json!({"include": "one"})).include,
        Some(vec!["one".into()])
    );
    assert_eq!(
        tools(json!({"exclude": ["a", 5]})).exclude,
        Some(vec!["a".into(), "5".into()])
    );
    assert_eq!(
        tools(json!({"approve": "@destructive"})).approve,
        ["@destructive"]
    );
    assert_eq!(
        tools(json!({"include": "v${N}_*"})).include,
        Some(vec!["v7_*".into()])
    );
    assert!(!tools(json!({"resources": "no"})).resources);
    assert!(!tools(json!({"prompts": 0})).prompts);
}

#[test]
fn a_filter_that_cannot_be_read_never_opens_everything() {
    for bad in [
        json!({"include": {"a": true}}),
        json!({"exclude": [["a"]]}),
        json!(["a"]),
        json!("a"),
        json!({"approve": {}}),
    ] {
        let problem = problem_of(json!({"command": "x", "tools": bad}));
        assert!(problem.contains("`tools"), "{problem}");
    }
}

#[test]
fn the_oauth_keys() {
    let keys = json!({
        "url": "https://x", "auth": "oauth",
        "oauth": {
            "client_id": 123, "client_secret": "${S}", "scope": ["a", "b"], "redirect_port": "8765",
            "redirect_uri": "https://me/cb", "redirect_host": "localhost", "client_name": "n",
            "timeout": 10, "grant": "device_code", "client_metadata_url": "https://me/c.json",
            "private_key": "${file:key.pem}", "issuer": "https://as", "assertion": "${file:token}", "dpop": true,
            "enterprise": {"issuer": "https://idp", "client_id": "c", "id_token": "${file:id}"},
        },
    });
    let (server, warnings) = parse(keys);
    let server = server.unwrap();
    assert_eq!(warnings, [""; 0]);
    assert_eq!(server.auth, Some(Auth::OAuth));
    assert_eq!(
        server.oauth,
        OAuthSettings {
            client_id: Some("123".into()),
            client_secret: Some("${S}".into()),
            scope: Some("a b".into()),
            redirect_port: 8765,
            redirect_uri: Some("https://me/cb".into()),
            redirect_host: "localhost".into(),
            client_name: "n".into(),
            timeout: Duration::from_secs(10),
            grant: Some(OAuthGrant::DeviceCode),
            client_metadata_url: Some("https://me/c.json".into()),
            private_key: Some("${file:key.pem}".into()),
            issuer: Some("https://as".into()),
            assertion: Some("${file:token}".into()),
            enterprise: Some(EnterpriseSettings {
                issuer: Some("https://idp".into()),
                token_endpoint: None,
                client_id: Some("c".into()),
                client_secret: None,
                id_token: "${file:id}".into(),
            }),
            dpop: DpopUse::On,
        }
    );
    for (enterprise, missing) in [
        (json!({"issuer": "https://idp"}), "id_token"),
        (json!({"id_token": "x"}), "issuer"),
    ] {
        let keys = json!({"url": "https://x", "oauth": {"enterprise": enterprise}});
        let problem = parse(keys).0.unwrap_err().to_string();
        assert!(problem.contains(missing), "{problem}");
    }
    assert_eq!(
        warned(json!({"oauth": {"redirect_port": 70000}}))
            .0
            .oauth
            .redirect_port,
        0
    );
    assert!(warned(json!({"oauth": "yes"})).1.contains("mapping"));
}

#[test]
fn roots_are_auto_or_directories() {
    assert_eq!(server(json!({"roots": "auto"})).roots, RootsPolicy::Auto);
    assert_eq!(
        server(json!({"roots": ["/a", "/b"]})).roots,
        RootsPolicy::Directories(vec!["/a".into(), "/b".into()])
    );
    assert_eq!(
        server(json!({"roots": []})).roots,
        RootsPolicy::Directories(vec![])
    );
    assert_eq!(warned(json!({"roots": {}})).0.roots, RootsPolicy::Auto);
}

#[test]
fn the_remaining_choices() {
    assert_eq!(
        server(json!({"protocol": "Legacy"})).protocol,
        ProtocolChoice::Legacy
    );
    assert_eq!(
        server(json!({"protocol": "stateless"})).protocol,
        ProtocolChoice::Stateless
    );
    assert_eq!(
        server(json!({"pin_tools": "block"})).pin_tools,
        PinTools::Block
    );
    assert_eq!(server(json!({"pin_tools": false})).pin_tools, PinTools::Off);
    assert_eq!(
        warned(json!({"pin_tools": "sure"})).0.pin_tools,
        PinTools::Warn
    );
    let elicitation = server(json!({"elicitation": {"enabled": "no", "timeout": 5}})).elicitation;
    assert_eq!(
        elicitation,
        ElicitationPolicy {
            enabled: false,
            timeout: Duration::from_secs(5)
        }
    );
}

#[test]
fn unknown_keys_are_named_with_a_suggestion() {
    assert!(warned(json!({"timeuot": 5})).1.contains("`timeout`"));
    assert!(
        warned(json!({"tools": {"includes": []}}))
            .1
            .contains("`s.tools.includes`")
    );
    assert!(warned(json!({"flavour": "x"})).1.contains("no effect"));
}
