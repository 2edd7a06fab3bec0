use super::*;

fn load(
    file: &str,
    environment: &[(&str, &str)],
    flags: &[(&str, &str)],
) -> Result<Settings, SettingsError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hub.yaml");
    std::fs::write(&path, file).unwrap();
    let owned = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    Settings::load(&SettingsSources {
        file: Some(path),
        flags: owned(flags),
        environment: owned(environment),
    })
}

#[test]
fn without_a_file_the_defaults_hold() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().display().to_string();
    let environment = [("XDG_DATA_HOME".to_owned(), data.clone())].into();
    let settings = Settings::load(&SettingsSources {
        environment,
        ..SettingsSources::default()
    })
    .unwrap();
    assert_eq!(settings.listen.to_string(), "127.0.0.1:7878");
    assert_eq!(settings.public_url, "http://127.0.0.1:7878");
    assert_eq!(
        settings.database.url.expose(),
        &format!("sqlite:{data}/hermes-hub/hub.db")
    );
    assert_eq!(settings.limits.read_bytes, 1024 * 1024);
    assert_eq!(settings.runs.max_concurrent, 4);
    assert_eq!(settings.mcp.sessions_per_token, 32);
    assert_eq!(settings.isolation.uid_range, (200_000, 265_535));
    assert_eq!(settings.metrics.listen.unwrap().port(), 7879);
    assert_eq!(settings.sync.sources.len(), 5);
}

#[test]
fn flags_win_over_variables_and_those_over_the_file() {
    let file = "listen: 127.0.0.1:1\nruns:\n  max_concurrent: 1\n  queue_depth: 7\nlimits: {body_bytes: 2 MiB}\n";
    let environment = [
        ("HERMES_HUB_LISTEN", "127.0.0.1:2"),
        ("HERMES_HUB_RUNS__MAX_CONCURRENT", "2"),
    ];
    let settings = load(file, &environment, &[("listen", "127.0.0.1:3")]).unwrap();
    assert_eq!(settings.listen.port(), 3);
    assert_eq!(
        (settings.runs.max_concurrent, settings.runs.queue_depth),
        (2, 7)
    );
    assert_eq!(settings.limits.body_bytes, 2 * 1024 * 1024);
}

#[test]
fn a_list_in_a_variable_has_commas() {
    let environment = [("HERMES_HUB_SYNC__ALLOWED_ROOTS", "/sync,/srv/ctx")];
    let settings = load("", &environment, &[]).unwrap();
    assert_eq!(
        settings.sync.allowed_roots,
        [Path::new("/sync"), Path::new("/srv/ctx")]
    );
}

#[test]
fn unknown_keys_stop_the_start_and_name_the_nearest() {
    let message = |result: Result<Settings, SettingsError>| result.unwrap_err().to_string();
    assert_eq!(
        message(load("lisen: 1", &[], &[])),
        "unknown setting `lisen`; did you mean `listen`?"
    );
    assert!(message(load("runs: {max_concurent: 1}", &[], &[])).contains("`runs.max_concurrent`"));
    let variable = load("", &[("HERMES_HUB_LIMITS__BURTS", "1")], &[]);
    assert!(message(variable).contains("did you mean `HERMES_HUB_LIMITS__BURST`?"));
    assert!(
        load(
            "",
            &[("HERMES_HUB_URL", "x"), ("HERMES_HUB_TOKEN", "y")],
            &[]
        )
        .is_ok()
    );
}

#[test]
fn references_are_filled_in_and_must_have_a_value() {
    let file = "public_url: https://${HUB_NAME}/\n";
    assert_eq!(
        load(file, &[("HUB_NAME", "hub.example")], &[])
            .unwrap()
            .public_host(),
        "hub.example"
    );
    assert!(
        load(file, &[], &[])
            .unwrap_err()
            .to_string()
            .contains("no value")
    );
}

#[test]
fn plain_http_off_this_machine_must_be_asked_for() {
    let open = "listen: 0.0.0.0:80\n";
    assert!(load(open, &[], &[]).is_err());
    assert!(load(&format!("{open}insecure_http: true\n"), &[], &[]).is_ok());
    assert!(load(&format!("{open}trust_proxy: [10.0.0.0/8]\n"), &[], &[]).is_ok());
    assert!(load("tls: {cert: a.pem}", &[], &[]).is_err());
}

#[test]
fn values_of_the_wrong_kind_are_told() {
    for (file, key) in [
        ("runtime: docker", "runtime"),
        ("mcp: {enabled: perhaps}", "mcp.enabled"),
        ("limits: {body_bytes: big}", "limits.body_bytes"),
        ("runs: 5", "runs"),
        ("sync: {allowed_roots: [here]}", "sync.allowed_roots"),
        ("isolation: {uid_range: 5}", "isolation.uid_range"),
    ] {
        let error = load(file, &[], &[]).unwrap_err().to_string();
        assert!(error.contains(&format!("`{key}`")), "{file}: {error}");
    }
}

#[test]
fn passwords_of_databases_come_from_references_and_are_never_shown() {
    let file = "database:\n  url: postgres://hub:${PASSWORD}@db/hub\n  listen_url: postgres://hub:${PASSWORD}@direct/hub\n";
    let settings = load(file, &[("PASSWORD", "hunter2")], &[]).unwrap();
    assert!(settings.database.is_postgres());
    assert_eq!(
        settings.database.url.expose(),
        "postgres://hub:hunter2@db/hub"
    );
    assert!(!format!("{settings:?}").contains("hunter2"));
    let wrong = load("database: {url: 'mysql://hub:hunter2@db/hub'}", &[], &[]);
    let wrong = wrong.unwrap_err().to_string();
    assert!(wrong.contains("`database.url`"), "{wrong}");
    assert!(!wrong.contains("hunter2"), "{wrong}");
    let few = load("database: {max_connections: 2}", &[], &[]).unwrap_err();
    assert!(few.to_string().contains("one for reads"), "{few}");
    assert!(load("database: {max_connections: 3}", &[], &[]).is_ok());
    for seconds in [0, 61] {
        let wrong = load(
            &format!("database: {{timeout_seconds: {seconds}}}"),
            &[],
            &[],
        );
        assert!(wrong.unwrap_err().to_string().contains("1 to 60"));
    }
}

#[test]
fn every_setting_is_documented() {
    let page = include_str!("../../../../docs/reference/hub.md");
    for key in super::values::KEYS {
        assert!(page.contains(&format!("`{key}`")), "`{key}` is missing");
    }
}

#[test]
fn a_sign_in_provider_needs_its_address_a_name_and_roles() {
    let file = "
oidc:
  issuer: https://login.example.com/realm
  client_id: hermes
  client_secret: ${env:OIDC_SECRET}
  scopes: [profile]
  roles: {team: operator, '*': viewer}
";
    let oidc = load(file, &[("OIDC_SECRET", "hunter2")], &[]).unwrap().oidc;
    let oidc = oidc.unwrap();
    assert_eq!(oidc.scopes, ["openid", "profile"]);
    assert_eq!(oidc.groups_claim, "groups");
    assert_eq!(oidc.roles["team"], Role::Operator);
    assert!(!format!("{oidc:?}").contains("hunter2"));
    let roles = [("HERMES_HUB_OIDC__ROLES", r#"{"a":"admin"}"#)];
    let start = "oidc: {issuer: 'http://127.0.0.1:9', client_id: hermes}";
    let oidc = load(start, &roles, &[]).unwrap().oidc.unwrap();
    assert_eq!(oidc.roles["a"], Role::Admin);
    assert_eq!(load("", &[], &[]).unwrap().oidc, None);

    let told = |file: &str| load(file, &[], &[]).unwrap_err().to_string();
    assert!(told("oidc: {issuer: 'https://a.example'}").contains("oidc.client_id"));
    assert!(told(start).contains("oidc.roles"), "nobody would have one");
    let plain = "oidc: {issuer: 'http://a.example', client_id: x, roles: {a: admin}}";
    assert!(told(plain).contains("https"), "{}", told(plain));
    let wrong = "oidc: {issuer: 'https://a.example', client_id: x, roles: {a: king}}";
    assert!(told(wrong).contains("`operator`"), "{}", told(wrong));
}
