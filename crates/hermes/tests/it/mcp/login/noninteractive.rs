//! Logins without a browser: devices, programs, workloads, employees; and tokens that are bound to a key.

use hermes_testkit::authorization::{ProofOfPossession, RegisteredClient, TokenIssuer};

use super::*;

#[test]
fn a_device_shows_a_code_that_is_entered_elsewhere() {
    let setup = AuthorizationSetup::with(|setup| setup.device_codes = true);
    let place = OAuthHome::new(setup, Resource::default());
    let command = place
        .hermes
        .command(&["mcp", "login", "remote", "--flow", "device"]);
    let mut terminal = Terminal::start(command);
    let address = terminal.word_with("/activate");
    let code = terminal.word_with("USER-");
    let page = browse(&format!("{address}?user_code={code}")).unwrap();
    assert_eq!(page.status, 200);
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    place.works();
}

#[test]
fn a_program_with_a_secret_needs_nobody() {
    let place = OAuthHome::usual();
    let secret = "a-secret-of-the-robot";
    place
        .server
        .register(RegisteredClient::with_secret("robot", secret));
    place.configure(
        json!({ "grant": "client_credentials", "client_id": "robot", "client_secret": secret }),
    );
    place.works();
    assert_eq!(place.grants("client_credentials"), 1);
    place.configure(
        json!({ "grant": "client_credentials", "client_id": "robot", "client_secret": "wrong" }),
    );
    fs::remove_file(place.token_file()).unwrap();
    let ran = place.call();
    assert_ne!(ran.code, 0);
    assert!(ran.stdout.contains("invalid_client"), "{ran:#?}");
}

#[test]
fn a_program_with_a_key_signs_and_a_clock_that_is_off_is_named() {
    let place = OAuthHome::usual();
    let key = TokenIssuer::new("robot");
    place
        .server
        .register(RegisteredClient::with_key("robot", &key));
    place.configure(
        json!({ "grant": "client_credentials", "client_id": "robot", "private_key": key.key_pem() }),
    );
    place.server.set_clock_offset(7200);
    let ran = place.call();
    assert_ne!(ran.code, 0);
    assert!(ran.stdout.contains("not current"), "{ran:#?}");
    place.server.set_clock_offset(0);
    place.works();
}

#[test]
fn a_workload_shows_its_own_identity() {
    let place = OAuthHome::usual();
    let cluster = TokenIssuer::new("https://cluster.example");
    place.server.trust(&cluster);
    let assertion = cluster.assertion("pod", &place.server.issuer());
    place.configure(json!({ "grant": "jwt_bearer", "assertion": assertion }));
    place.works();
}

#[test]
fn an_employer_vouches_for_its_people() {
    let place = OAuthHome::usual();
    place
        .server
        .register(RegisteredClient::with_secret("hermes", "one-s3cret"));
    let provider = AuthorizationServer::start(AuthorizationSetup::default());
    provider.register(RegisteredClient::with_secret("desktop", "two-s3cret"));
    provider.federate("desktop", "hermes");
    place.server.trust(provider.identity());
    place.configure(json!({
        "grant": "enterprise_managed",
        "client_id": "hermes",
        "client_secret": "one-s3cret",
        "enterprise": {
            "issuer": provider.issuer(),
            "client_id": "desktop",
            "client_secret": "two-s3cret",
            "id_token": provider.id_token("ada", "desktop"),
        },
    }));
    place.works();
    let exchanged = provider.requests_to(Endpoint::Token);
    assert_eq!(exchanged[0].parameter("resource"), Some(place.mcp.url()));
}

#[test]
fn a_server_that_wants_a_key_gets_one_with_its_nonce() {
    for proof in [
        ProofOfPossession::Required,
        ProofOfPossession::RequiredWithNonce,
    ] {
        let setup = AuthorizationSetup::with(|setup| {
            setup.proof = proof;
            setup.lifetime = SHORT_LIFETIME;
        });
        let place = OAuthHome::new(setup, Resource::default());
        place.log_in().ok();
        assert_eq!(place.tokens()["token_type"], "DPoP");
        place.works();
        place.works();
        assert!(place.grants("refresh_token") >= 2);
    }
}
