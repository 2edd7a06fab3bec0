//! Endpoints that fail, at a login and later.

use std::net::TcpListener;

use hermes_testkit::authorization::first_redirect;

use super::*;

#[test]
fn a_callback_port_that_is_taken_is_named() {
    // No other test gets the port when it is free again.
    let reserved = hermes_testkit::ReservedPort::reserve().unwrap();
    let port = reserved.number();
    let taken = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let place = OAuthHome::usual();
    place.configure(json!({ "redirect_port": port }));
    let command = place.hermes.command(&["mcp", "login", "remote"]);
    let (code, screen) = Terminal::start(command).end();
    assert_ne!(code, 0, "{screen}");
    assert!(screen.contains(&port.to_string()), "{screen}");
    assert!(screen.contains("oauth.redirect_port"), "{screen}");
    drop(taken);
    place.log_in().ok();
}

#[test]
fn a_token_endpoint_that_fails_ends_the_login_and_keeps_the_old_token() {
    let place = OAuthHome::usual();
    place.log_in().ok();
    let before = place.tokens();
    let endpoint = format!("{}/token", place.server.issuer());
    let junk = |text: &str| EndpointFault::Junk(text.to_owned());
    for (fault, why) in [
        (EndpointFault::Status(500), "500"),
        (junk("<html><h1>Oops</h1>"), "not JSON"),
        (junk(r#"{"token_type":"Bearer"}"#), "no access token"),
        (
            junk(r#"{"access_token":7,"token_type":"Bearer"}"#),
            "no access token",
        ),
        (junk("null"), "no access token"),
    ] {
        place.server.fail(Endpoint::Token, fault);
        let login = place.log_in().failed(&[&endpoint, why]);
        assert_eq!(login.page.status, 400, "{:?}", login.page);
        assert_eq!(place.tokens(), before);
    }
    place.server.clear_fault(Endpoint::Token);
    place.works();
}

#[test]
fn an_authorization_server_that_is_gone_when_the_code_is_turned_in_is_named() {
    let mut place = OAuthHome::usual();
    let (mut terminal, address) = place.begin();
    let back = first_redirect(&address).unwrap();
    place.server.stop();
    terminal.send(&format!("{back}\r"));
    let (code, screen) = terminal.end();
    assert_eq!(code, 1, "{screen}");
    let screen = screen.replace("\r\n", " ");
    let endpoint = format!("{}/token does not answer", place.server.issuer());
    assert!(screen.contains(&endpoint), "{screen}");
    assert!(!place.token_file().exists());
    place.server.restart();
    place.log_in().ok();
    place.works();
}

#[test]
fn a_token_endpoint_that_never_answers_does_not_hold_the_login_for_ever() {
    let place = OAuthHome::usual();
    place.configure(json!({ "timeout": 10 }));
    place.server.fail(Endpoint::Token, EndpointFault::Hang);
    let (mut terminal, address) = place.begin();
    let browser = std::thread::spawn(move || browse(&address));
    let (code, screen) = terminal.end();
    assert_ne!(code, 0, "{screen}");
    assert!(screen.contains("within 10 s"), "{screen}");
    assert!(
        screen.contains("`hermes mcp login remote` begins again"),
        "{screen}"
    );
    // Whoever waits at the browser is told as much.
    let page = browser.join().unwrap().unwrap();
    for words in ["within 10 s", "oauth.timeout", "hermes mcp login remote"] {
        assert!(page.text.contains(words), "no `{words}`: {page:?}");
    }
    assert!(!place.token_file().exists());
    place.server.clear_fault(Endpoint::Token);
    place.configure(json!({}));
    place.log_in().ok();
}

#[test]
fn a_token_that_cannot_be_kept_is_not_a_login_in_the_browser_either() {
    let place = OAuthHome::usual();
    // Nothing can be put in the place of a directory.
    fs::create_dir_all(place.token_file()).unwrap();
    let login = place.log_in().failed(&["remote.json"]);
    assert_eq!(login.page.status, 400, "{:?}", login.page);
    assert!(login.page.text.contains("remote.json"), "{:?}", login.page);
}

#[test]
fn whatever_never_answers_a_login_ends_within_its_time() {
    for endpoint in [
        Endpoint::ResourceMetadata,
        Endpoint::ServerMetadata,
        Endpoint::Registration,
    ] {
        let place = OAuthHome::usual();
        place.configure(json!({ "timeout": 2 }));
        place.server.fail(endpoint, EndpointFault::Hang);
        let ran = place.refused_login();
        assert_ne!(ran.code, 0, "{ran:#?}");
        assert!(ran.stderr.contains("within 2 s"), "{ran:#?}");
        assert!(ran.stderr.contains("hermes mcp login remote"), "{ran:#?}");
    }
}

#[test]
fn a_code_does_not_follow_a_redirect_of_the_token_endpoint() {
    let place = OAuthHome::usual();
    let thief = AuthorizationServer::start(AuthorizationSetup::default());
    let url = format!("{}/token", thief.issuer());
    place
        .server
        .fail(Endpoint::Token, EndpointFault::Redirect(url));
    place.log_in().failed(&[&thief.issuer()]);
    assert!(thief.requests().is_empty());
    assert!(!place.token_file().exists());
}

#[test]
fn a_token_does_not_follow_a_redirect_of_the_mcp_server() {
    use hermes_testkit::{Behaviour, Fault, FaultKind};
    let thief = HttpServer::start(Behaviour::new());
    let fault = Fault::on("tools/call", FaultKind::Redirect(thief.url()));
    let resource = Resource::with(|resource| {
        resource.behaviour = Behaviour::new().http(|http| http.faults.push(fault));
    });
    let place = OAuthHome::new(AuthorizationSetup::default(), resource);
    place.log_in().ok();
    place.call();
    let followed = thief.requests();
    assert!(!followed.is_empty(), "the redirect was not followed");
    for request in followed {
        assert_eq!(request.header("authorization"), None, "{request:?}");
    }
}

#[test]
fn a_refresh_that_fails_for_now_is_not_a_reason_to_log_in_again() {
    let mut place = OAuthHome::new(
        AuthorizationSetup::with(|setup| setup.lifetime = SHORT_LIFETIME),
        Resource::default(),
    );
    place.log_in().ok();
    let before = place.tokens()["refresh_token"].clone();
    // As long as the access token lasts it is used.
    place
        .server
        .fail(Endpoint::Token, EndpointFault::Status(503));
    place.server.expire_access_tokens();
    assert!(place.call().exits_with(1).json()["error"].is_string());
    place.server.stop();
    assert!(place.call().exits_with(1).json()["error"].is_string());
    assert_eq!(place.tokens()["refresh_token"], before);
    place.server.clear_fault(Endpoint::Token);
    place.server.restart();
    place.works();
}

#[test]
fn a_refresh_token_that_was_revoked_asks_for_a_login() {
    let place = OAuthHome::usual();
    place.log_in().ok();
    place.server.revoke_everything();
    let ran = place.needs_login();
    assert!(ran.stdout.contains("invalid_grant"), "{ran:#?}");
    place.log_in().ok();
    place.works();
}

#[test]
fn a_refusal_with_status_200_is_a_refusal() {
    let place = OAuthHome::usual();
    place.log_in().ok();
    let no = json!({ "error": "invalid_grant", "error_description": "The code is no good." });
    let no = EndpointFault::Junk(no.to_string());
    place.server.fail(Endpoint::Token, no);
    place
        .log_in()
        .failed(&["refused: invalid_grant: The code is no good."]);
    place.server.expire_access_tokens();
    let ran = place.needs_login();
    assert!(ran.stdout.contains("The code is no good."), "{ran:#?}");
}

#[test]
fn a_token_that_the_server_does_not_take_any_more_is_renewed_at_once() {
    let place = OAuthHome::usual();
    place.log_in().ok();
    // By the clock here it would last for an hour.
    place.server.expire_access_tokens();
    place.works();
    assert_eq!(place.grants("refresh_token"), 1);
}

#[test]
fn a_clock_that_went_back_does_not_make_tokens_last_longer() {
    let place = OAuthHome::usual();
    place.log_in().ok();
    let mut tokens = place.tokens();
    tokens["expires_at"] = json!(4_000_000_000_u64);
    fs::write(place.token_file(), tokens.to_string()).unwrap();
    place.works();
    assert_eq!(place.grants("refresh_token"), 1);
    assert!(place.tokens()["expires_at"].as_f64().unwrap() < 4_000_000_000.0);
}

#[test]
fn a_clock_that_is_ahead_renews_and_should_continue() {
    let place = OAuthHome::usual();
    place.log_in().ok();
    let mut tokens = place.tokens();
    // As if hours had gone by here and none there.
    tokens["expires_at"] = json!(1_000_000_000);
    fs::write(place.token_file(), tokens.to_string()).unwrap();
    place.works();
    place.works();
    assert_eq!(place.grants("refresh_token"), 1);
    // Even if it cannot be renewed: the server has the last word on its token.
    let mut tokens = place.tokens();
    tokens["expires_at"] = json!(1_000_000_000);
    fs::write(place.token_file(), tokens.to_string()).unwrap();
    place
        .server
        .fail(Endpoint::Token, EndpointFault::Status(503));
    place.works();
}

#[test]
fn a_reply_without_a_refresh_token_keeps_the_old_one() {
    let setup = AuthorizationSetup::with(|setup| {
        setup.lifetime = SHORT_LIFETIME;
        setup.refresh_tokens = hermes_testkit::authorization::RefreshTokens::Lasting;
    });
    let place = OAuthHome::new(setup, Resource::default());
    place.log_in().ok();
    let before = place.tokens();
    place.works();
    place.works();
    let after = place.tokens();
    assert_eq!(after["refresh_token"], before["refresh_token"]);
    assert_ne!(after["access_token"], before["access_token"]);
}
