//! Nothing that only the two sides should know is shown, logged or written anywhere but into the token files.

use std::path::Path;

use super::*;

/// Every file below a directory, but for the tokens' own.
fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().unwrap() != "mcp-tokens" {
            files(&path, found);
        } else if path.is_file() {
            found.push(path);
        }
    }
}

#[track_caller]
fn no_secret_in(place: &OAuthHome, what: &str, text: &str) {
    for secret in place.server.secrets() {
        assert!(!text.contains(&secret), "{what} holds {secret}:\n{text}");
    }
}

#[test]
fn neither_output_nor_logs_hold_a_secret() {
    let setup = AuthorizationSetup::with(|setup| setup.lifetime = SHORT_LIFETIME);
    let place = OAuthHome::new(setup, Resource::default());
    let mut shown = Vec::new();
    let mut show = |name: &str, text: String| shown.push((name.to_owned(), text));
    let ran = |ran: CommandOutput| format!("{}\n{}", ran.stdout, ran.stderr);
    show("login", place.log_in().ok().screen);
    for command in [
        vec!["mcp", "call", "remote", "echo", r#"{"text":"a"}"#, "--json"],
        vec!["mcp", "test", "remote", "--json"],
        vec!["mcp", "test", "remote"],
        vec!["mcp", "list", "--json"],
        vec!["mcp", "status", "--json"],
        vec!["mcp", "doctor", "--probe", "--json"],
    ] {
        let mut run = place.hermes.command(&command);
        run.env("RUST_LOG", "trace").env("HERMES_LOG", "trace");
        show(command[1], ran(crate::harness::program::run(run, "")));
    }
    for (name, fault) in [
        ("failing refresh", EndpointFault::Status(500)),
        ("junk", EndpointFault::Junk("{\"error\":\"x\"}".to_owned())),
    ] {
        place.server.fail(Endpoint::Token, fault);
        place.server.expire_access_tokens();
        show(name, ran(place.call()));
        show(name, place.log_in().failed(&[]).screen);
    }
    place.server.clear_fault(Endpoint::Token);
    place.server.revoke_everything();
    show("revoked", ran(place.call()));
    assert!(place.server.secrets().len() > 2, "there is nothing to hide");
    for (name, text) in shown {
        no_secret_in(&place, &name, &text);
    }
    let mut written = Vec::new();
    files(place.hermes.home.path(), &mut written);
    assert!(!written.is_empty());
    for path in written {
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        no_secret_in(&place, &path.display().to_string(), &text);
    }
}

#[test]
fn a_crash_tells_none_of_what_a_login_left() {
    let setup = AuthorizationSetup::with(|setup| {
        setup.proof = hermes_testkit::authorization::ProofOfPossession::Required;
        // So that the client has a secret of its own.
        setup.authentication_methods = vec!["client_secret_basic".to_owned()];
    });
    let place = OAuthHome::new(setup, Resource::default());
    place.log_in().ok();
    // A second login, which waits for its answer.
    place.hermes.run(&["mcp", "login", "remote"]).exits_with(5);
    let directory = place.hermes.home.path().join("mcp-tokens");
    let read = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(directory.join(name)).unwrap()).unwrap()
    };
    let (tokens, client, pending) = (
        read("remote.json"),
        read("remote.client.json"),
        read("remote.login.json"),
    );
    let secrets = [
        &tokens["access_token"],
        &tokens["refresh_token"],
        &tokens["dpop_key"],
        &client["client_secret"],
        &pending["verifier"],
        &pending["dpop_key"],
    ]
    .map(|secret| secret.as_str().unwrap());
    for arguments in [
        vec!["mcp", "test", "remote", "--json"],
        vec!["mcp", "login", "remote"],
    ] {
        let mut command = place.hermes.command(&arguments);
        command
            .env("HERMES_TEST_CRASH", format!("lost: {}!", secrets.join(" ")))
            .env("RUST_BACKTRACE", "full");
        let crashed = crate::harness::program::run(command, "");
        assert_ne!(crashed.code, 0);
        assert!(crashed.stderr.contains("hermes crashed at"), "{crashed:#?}");
        let hidden = ["[REDACTED]"; 6].join(" ");
        let told = format!("lost: {hidden}!");
        assert!(crashed.stderr.contains(&told), "{crashed:#?}");
        crashed.hides(&secrets);
    }
}

/// What was sent to the token endpoint that nobody else may know.
fn sent(place: &OAuthHome) -> Vec<String> {
    let mut found = place.server.secrets();
    for request in place.server.requests_to(Endpoint::Token) {
        let secret = [
            "code_verifier",
            "client_assertion",
            "assertion",
            "subject_token",
        ];
        found.extend(secret.iter().filter_map(|name| request.parameter(name)));
    }
    found
}

#[test]
fn a_token_endpoint_that_repeats_what_it_was_sent_does_not_get_it_shown() {
    for method in ["none", "client_secret_post", "client_secret_basic"] {
        let setup = AuthorizationSetup::with(|setup| {
            setup.lifetime = SHORT_LIFETIME;
            setup.authentication_methods = vec![method.to_owned()];
        });
        let place = OAuthHome::new(setup, Resource::default());
        place.log_in().ok();
        place.server.fail(Endpoint::Token, EndpointFault::Repeat);
        let login = place.log_in().failed(&["invalid_request", "[REDACTED]"]);
        place.server.expire_access_tokens();
        let called = place.call();
        assert_ne!(called.code, 0);
        for secret in sent(&place) {
            for (what, text) in [
                ("the terminal", &login.screen),
                ("the browser", &login.page.text),
                ("the call", &called.stdout),
                ("the call", &called.stderr),
            ] {
                assert!(!text.contains(&secret), "{what} shows {secret}:\n{text}");
            }
        }
    }
}

#[test]
fn a_token_endpoint_that_repeats_a_programs_credentials_does_not_get_them_shown() {
    let place = OAuthHome::usual();
    let issuer = hermes_testkit::authorization::TokenIssuer::new("https://cluster.example");
    let assertion = issuer.assertion("pod", &place.server.issuer());
    let secret = "words-that-no-pattern-knows";
    for oauth in [
        json!({ "grant": "client_credentials", "client_id": "robot", "client_secret": secret }),
        json!({ "grant": "client_credentials", "client_id": "robot", "private_key": issuer.key_pem() }),
        json!({ "grant": "jwt_bearer", "assertion": assertion }),
        json!({
            "grant": "enterprise_managed", "client_id": "hermes", "client_secret": secret,
            "enterprise": { "issuer": place.server.issuer(), "client_id": "desktop", "id_token": assertion },
        }),
    ] {
        place.configure(oauth);
        place.server.fail(Endpoint::Token, EndpointFault::Repeat);
        for ran in [place.call(), place.hermes.run(&["mcp", "login", "remote"])] {
            assert_ne!(ran.code, 0);
            let all = format!("{}{}", ran.stdout, ran.stderr);
            assert!(all.contains("invalid_request"), "{ran:#?}");
            let mut secrets = sent(&place);
            secrets.push(secret.to_owned());
            let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
            ran.hides(&secrets);
        }
    }
}

#[test]
fn a_server_that_repeats_the_token_in_its_errors_does_not_get_it_shown() {
    let place = OAuthHome::usual();
    place.log_in().ok();
    let token = place.tokens()["access_token"].as_str().unwrap().to_owned();
    let refresh = place.tokens()["refresh_token"].as_str().unwrap().to_owned();
    let text = json!({ "text": format!("neither {token} nor {refresh} will do") }).to_string();
    let call = ["mcp", "call", "remote", "fail", &text, "--json"];
    let ran = place.hermes.run(&call).exits_with(1);
    let told = "neither [REDACTED] nor [REDACTED] will do";
    assert!(ran.stdout.contains(told), "{ran:#?}");
    ran.hides(&[&token, &refresh]);
}
