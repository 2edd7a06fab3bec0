//! Token files that are damaged, open to others, or written by somebody else.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

#[test]
fn tokens_are_for_their_owner_alone() {
    let place = OAuthHome::usual();
    place.log_in().ok();
    let directory = place.hermes.home.path().join("mcp-tokens");
    let mode = fs::metadata(&directory).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let mut names = Vec::new();
    for entry in fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        assert_private(&path);
        names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
    }
    for name in ["remote.json", "remote.client.json", "remote.meta.json"] {
        assert!(names.iter().any(|found| found == name), "{names:?}");
    }
    let tokens = place.tokens();
    assert_eq!(tokens["issuer"], place.server.issuer());
    assert!(tokens["expires_at"].as_f64().is_some(), "no `expires_at`");
}

#[test]
fn a_damaged_file_asks_for_a_login() {
    let place = OAuthHome::usual();
    place.log_in().ok();
    for damage in ["", "{\"access_token\": \"acc", "[]", "\0\0\0"] {
        fs::write(place.token_file(), damage).unwrap();
        let ran = place.needs_login();
        assert!(ran.stdout.contains("remote.json is damaged"), "{ran:#?}");
        let doctor = place.hermes.run(&["mcp", "doctor"]).exits_with(1);
        assert!(doctor.stdout.contains("fail login"), "{doctor:#?}");
    }
    place.log_in().ok();
    place.works();
    let doctor = place.hermes.run(&["mcp", "doctor"]).ok();
    assert!(doctor.stdout.contains("ok   login"), "{doctor:#?}");
    place.hermes.run(&["mcp", "logout", "remote"]).ok();
    let doctor = place.hermes.run(&["mcp", "doctor"]).ok();
    assert!(doctor.stdout.contains("warn login"), "{doctor:#?}");
    assert!(
        doctor.stdout.contains("hermes mcp login remote"),
        "{doctor:#?}"
    );
}

/// What `mcp list` and `mcp status` say of the server: its state, and why if there is a reason.
#[track_caller]
fn listed(place: &OAuthHome) -> (String, String) {
    let listed = place.hermes.run(&["mcp", "list", "--json"]).ok().json();
    let server = &listed["servers"][0];
    let error = server["error"].as_str().unwrap_or_default().to_owned();
    let told = place.hermes.run(&["mcp", "status", "--json"]).ok().json();
    let told = &told["servers"][0];
    assert_eq!(server.get("error"), told.get("error"), "{server}\n{told}");
    let state = server["status"].as_str().unwrap().to_owned();
    assert_eq!(
        state == "needs_auth",
        told["status"] == "needs_auth",
        "{told}"
    );
    (state, error)
}

#[test]
fn a_missing_login_shows_in_lists_without_a_connection() {
    let place = OAuthHome::usual();
    let advice = "run `hermes mcp login remote`";
    let needs = |why: &str| ("needs_auth".to_owned(), format!("{why}; {advice}"));
    let good = ("enabled".to_owned(), String::new());
    assert_eq!(listed(&place), needs("there is no login yet"));
    for command in [&["mcp", "list"][..], &["mcp", "status"], &["mcp"]] {
        let ran = place.hermes.run(command).ok();
        assert!(ran.stdout.contains("needs_auth"), "{ran:#?}");
        let text = format!("{}{}", ran.stdout, ran.stderr);
        assert!(text.contains(advice), "{ran:#?}");
    }
    assert_eq!(place.mcp.requests().len(), 0, "nobody was asked");

    place.log_in().ok();
    assert_eq!(listed(&place), good);
    let tokens = place.tokens();
    let write = |change: &dyn Fn(&mut Value)| {
        let mut tokens = tokens.clone();
        change(&mut tokens);
        fs::write(place.token_file(), tokens.to_string()).unwrap();
    };
    // One that has ended is renewed, unless there is nothing to renew it with.
    write(&|tokens| tokens["expires_at"] = json!(5));
    assert_eq!(listed(&place), good);
    write(&|tokens| {
        tokens["expires_at"] = json!(5);
        tokens["refresh_token"] = Value::Null;
    });
    let over = "the login has ended: it has expired";
    assert_eq!(listed(&place), needs(over));
    write(&|tokens| tokens["resource"] = json!("https://old.example/mcp"));
    let (state, why) = listed(&place);
    assert_eq!(state, "needs_auth");
    assert!(why.contains("https://old.example/mcp"), "{why}");
    // The server itself is told apart in the same words.
    let ran = place.needs_login();
    assert!(
        ran.stdout.contains(why.split_once(';').unwrap().0),
        "{ran:#?}"
    );
    place.hermes.run(&["mcp", "logout", "remote"]).ok();
    assert_eq!(listed(&place), needs("there is no login yet"));
}

#[test]
fn a_login_whose_server_was_renamed_by_hand_is_found() {
    let place = OAuthHome::usual();
    place.log_in().ok();
    let entry = place.hermes.entry("remote");
    let config = json!({ "mcp_servers": { "other": entry } });
    place.hermes.home.write_config(&config.to_string());
    let listed = place.hermes.run(&["mcp", "list"]).ok();
    let told = "there is no login yet; run `hermes mcp login other`";
    assert!(listed.stderr.contains(told), "{listed:#?}");
    let doctor = place.hermes.run(&["mcp", "doctor"]).ok();
    let told = "mcp-tokens/remote.json` belongs to no configured server";
    assert!(doctor.stdout.contains(told), "{doctor:#?}");
    // Its client and metadata are not logins.
    assert_eq!(doctor.stdout.matches("to no configured server").count(), 1);
    place
        .hermes
        .home
        .write_config(&json!({ "mcp_servers": { "remote": entry } }).to_string());
    let doctor = place.hermes.run(&["mcp", "doctor"]).ok();
    assert!(
        !doctor.stdout.contains("to no configured server"),
        "{doctor:#?}"
    );
}

#[test]
fn looking_at_a_login_that_others_can_read_leaves_the_warning_to_whoever_uses_it() {
    let place = OAuthHome::usual();
    place.log_in().ok();
    let open = fs::Permissions::from_mode(0o644);
    fs::set_permissions(place.token_file(), open).unwrap();
    assert_eq!(listed(&place).0, "enabled");
    let ran = place.call().ok();
    let warning = "others on this machine could read";
    assert!(ran.stderr.contains(warning), "{ran:#?}");
}

#[test]
fn a_file_that_others_can_read_is_closed() {
    let place = OAuthHome::usual();
    place.log_in().ok();
    let open = fs::Permissions::from_mode(0o644);
    fs::set_permissions(place.token_file(), open).unwrap();
    let ran = place.call().ok();
    let warning = "others on this machine could read";
    assert!(ran.stderr.contains(warning), "{ran:#?}");
    assert_private(&place.token_file());
}

#[test]
fn servers_whose_names_make_one_file_name_keep_their_logins_apart() {
    let place = OAuthHome::usual();
    let second = place.server.protect(Resource::default());
    let entry = |url: String| json!({ "url": url, "auth": "oauth" });
    let servers = json!({ "my.api": entry(place.mcp.url()), "my api": entry(second.url()) });
    let config = json!({ "mcp_servers": servers }).to_string();
    place.hermes.home.write_config(&config);
    let log_in = |name: &str| {
        let mut terminal = Terminal::start(place.hermes.command(&["mcp", "login", name]));
        browse(&terminal.word_with("/authorize?")).unwrap();
        let (code, screen) = terminal.end();
        assert_eq!(code, 0, "{screen}");
    };
    let call = |name: &str| {
        let arguments = r#"{"text":"hello"}"#;
        place
            .hermes
            .run(&["mcp", "call", name, "echo", arguments, "--json"])
    };
    log_in("my.api");
    // As the agent in Python writes it: it does not say which server it is for.
    let file = place.hermes.home.path().join("mcp-tokens/my_api.json");
    let mut tokens: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    tokens.as_object_mut().unwrap().remove("resource");
    fs::write(&file, tokens.to_string()).unwrap();
    call("my api").wants_login();
    let token = tokens["access_token"].as_str().unwrap();
    for request in second.requests() {
        let sent = request.header("authorization").unwrap_or_default();
        assert!(!sent.contains(token), "{request:?}");
    }
    log_in("my api");
    call("my api").ok();
    call("my.api").ok();
}

#[test]
fn a_file_without_an_end_counts_from_when_it_was_written() {
    let place = OAuthHome::usual();
    place.log_in().ok();
    let mut tokens = place.tokens();
    tokens.as_object_mut().unwrap().remove("expires_at");
    tokens["expires_in"] = json!(10);
    fs::write(place.token_file(), tokens.to_string()).unwrap();
    place.works();
    assert_eq!(place.grants("refresh_token"), 1);
}
