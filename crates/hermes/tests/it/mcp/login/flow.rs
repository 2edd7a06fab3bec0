use std::os::unix::fs::PermissionsExt as _;

use hermes_testkit::{
    authorization::{RegisteredClient, first_redirect},
    wait_until,
};

use super::*;
use crate::harness::test_home::{BackgroundProcess, TIMEOUT};

#[test]
fn a_login_at_a_terminal_opens_the_server_to_calls() {
    let place = OAuthHome::usual();
    place.needs_login();
    let login = place.log_in().ok();
    assert_eq!(login.page.status, 200);
    place.works();
    // The client that registered itself is one for people's own machines.
    let registered = place.server.requests_to(Endpoint::Registration)[0].message();
    assert_eq!(registered["application_type"], "native");
    assert_eq!(registered["client_name"], "Hermes Agent");
}

#[test]
fn a_login_asks_for_the_resource_and_proves_itself_by_pkce_and_state() {
    let place = OAuthHome::usual();
    place.log_in().ok();
    let asked = &place.server.requests_to(Endpoint::Authorization)[0];
    assert_eq!(asked.parameter("code_challenge_method").unwrap(), "S256");
    assert!(asked.parameter("state").unwrap().len() >= 16);
    for request in [asked, &place.server.requests_to(Endpoint::Token)[0]] {
        assert_eq!(request.parameter("resource"), Some(place.mcp.url()));
    }
}

#[test]
fn a_browser_is_opened_where_there_is_a_screen() {
    let place = OAuthHome::usual();
    // Instead of a browser, something that writes down what it was to open.
    let programs = place.hermes.user().join("bin");
    let opened = place.hermes.user().join("opened");
    fs::create_dir(&programs).unwrap();
    let browser = programs.join("xdg-open");
    let script = format!("#!/bin/sh\nprintf %s \"$1\" > '{}'\n", opened.display());
    fs::write(&browser, script).unwrap();
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = place.hermes.command(&["mcp", "login", "remote"]);
    command
        .env("PATH", format!("{}:{path}", programs.display()))
        .env("DISPLAY", ":0");
    let mut login = BackgroundProcess::start(command);
    assert!(wait_until(TIMEOUT, || {
        fs::read_to_string(&opened).is_ok_and(|address| address.contains("/authorize?"))
    }));
    browse(&fs::read_to_string(&opened).unwrap()).unwrap();
    login.wait_for("Logged in");
    place.works();
}

#[test]
fn without_a_browser_the_address_is_pasted_back() {
    let place = OAuthHome::usual();
    // Reached from elsewhere, so that the callback is on another machine.
    let mut command = place.hermes.command(&["mcp", "login", "remote"]);
    command.env("SSH_CONNECTION", "1.2.3.4 5 6.7.8.9 22");
    let mut terminal = Terminal::start(command);
    let address = terminal.word_with("/authorize?");
    let back = first_redirect(&address).unwrap();
    terminal.send(&format!("{back}\r"));
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    place.works();
}

#[test]
fn who_pastes_something_else_has_another_try() {
    let place = OAuthHome::usual();
    let stale = {
        let (mut left, address) = place.begin();
        left.send("skip\r");
        let (code, screen) = left.end();
        assert_eq!(code, 1, "{screen}");
        assert!(screen.contains("`hermes mcp login remote` begins again"));
        first_redirect(&address).unwrap()
    };
    let (mut terminal, address) = place.begin();
    let back = first_redirect(&address).unwrap();
    let without = |name: &str| {
        let (address, query) = back.split_once('?').unwrap();
        let rest = query.split('&').filter(|pair| !pair.starts_with(name));
        format!("{address}?{}", rest.collect::<Vec<_>>().join("&"))
    };
    terminal.wait_for("Address:").send("\r");
    for (wrong, told) in [
        ("hello".to_owned(), "has no `code`"),
        (without("state="), "has no `state`"),
        (without("iss="), "has no `iss`"),
        (stale, "another login"),
    ] {
        terminal.wait_for("Address:").send(&format!("{wrong}\r"));
        terminal.wait_for(told);
    }
    assert_eq!(place.grants("authorization_code"), 0);
    terminal.send(&format!("{back}\r"));
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    place.works();
}

#[test]
fn a_login_to_a_server_that_is_switched_off_says_so() {
    let place = OAuthHome::usual();
    place.hermes.run(&["mcp", "disable", "remote"]).ok();
    let login = place.log_in().ok();
    let told = "`remote` is disabled; `hermes mcp enable remote` switches it on.";
    assert!(login.screen.contains(told), "{}", login.screen);
}

#[test]
fn without_a_terminal_a_login_takes_two_commands() {
    let place = OAuthHome::usual();
    let begun = place.hermes.run(&["mcp", "login", "remote"]).exits_with(5);
    let text = format!("{} {}", begun.stdout, begun.stderr);
    let address = text.split_whitespace().find(|w| w.contains("/authorize?"));
    let address = address.unwrap_or_else(|| panic!("no address: {begun:#?}"));
    let back = first_redirect(address).unwrap();
    assert!(text.contains("--code 'ADDRESS'"), "{begun:#?}");
    // What is left of it where somebody forgets the quotes: a shell ends the word at `&`.
    let cut = back.split('&').next().unwrap();
    let cut = place.hermes.run(&["mcp", "login", "remote", "--code", cut]);
    assert!(cut.exits_with(1).stderr.contains("in quotes"));
    let other = "http://127.0.0.1:8765/callback?code=1&state=2";
    let other = place
        .hermes
        .run(&["mcp", "login", "remote", "--code", other]);
    assert!(
        other
            .exits_with(1)
            .stderr
            .contains("`hermes mcp login remote` begins again")
    );
    let none = place
        .hermes
        .run(&["mcp", "login", "remote", "--code", "hello"]);
    assert!(none.exits_with(1).stderr.contains("all of the address"));
    let ended = place
        .hermes
        .run(&["mcp", "login", "remote", "--code", &back, "--json"])
        .ok();
    assert_eq!(ended.json()["server"], "remote");
    place.works();
}

#[test]
fn a_server_that_is_not_set_up_for_logins_says_what_to_do() {
    let place = OAuthHome::usual();
    let config = json!({ "mcp_servers": { "remote": { "url": place.mcp.url() } } });
    place.hermes.home.write_config(&config.to_string());
    let ran = place.call().exits_with(4);
    assert!(ran.stdout.contains("hermes mcp login remote"), "{ran:#?}");
    place.log_in().ok();
    assert_eq!(place.hermes.entry("remote")["auth"], "oauth");
    place.works();
}

#[test]
fn a_token_given_by_hand_that_is_not_accepted_is_named() {
    let place = OAuthHome::usual();
    let headers = json!({ "authorization": "Bearer of-another-day" });
    let entry = json!({ "url": place.mcp.url(), "headers": headers });
    let config = json!({ "mcp_servers": { "remote": entry } });
    place.hermes.home.write_config(&config.to_string());
    let ran = place.needs_login();
    assert!(
        ran.stdout.contains("`Authorization` of its `headers`"),
        "{ran:#?}"
    );
    ran.hides(&["of-another-day"]);
}

#[test]
fn a_server_that_wants_a_login_is_not_added_without_one() {
    let place = OAuthHome::usual();
    place.hermes.home.write_config("{}\n");
    let url = place.mcp.url();
    let ran = place
        .hermes
        .run(&["mcp", "add", "remote", "--url", &url])
        .exits_with(4);
    assert!(ran.stderr.contains("nothing was saved"), "{ran:#?}");
    assert!(ran.stderr.contains("add `--auth oauth`"), "{ran:#?}");
    // The reason is for people: no header, no address of metadata.
    assert!(!ran.stderr.contains("resource_metadata"), "{ran:#?}");
    // There is no such server yet.
    assert!(!ran.stderr.contains("hermes mcp login"), "{ran:#?}");
    let add = ["mcp", "add", "remote", "--url", &url, "--auth", "oauth"];
    let ran = place.hermes.run(&add).ok();
    assert!(ran.stderr.contains("hermes mcp login remote"), "{ran:#?}");
}

#[test]
fn a_logout_forgets_the_login() {
    let place = OAuthHome::usual();
    place.log_in().ok();
    let ran = place
        .hermes
        .run(&["mcp", "logout", "remote", "--json"])
        .ok();
    assert_eq!(ran.json()["removed"], json!(["remote.json"]));
    assert!(!place.token_file().exists());
    place.needs_login();
    // What the server said when it refused is not a login.
    let again = place.hermes.run(&["mcp", "logout", "remote"]).ok();
    assert!(again.stderr.contains("Nobody was logged in"), "{again:#?}");
}

#[test]
fn a_logout_forgets_the_login_even_if_nobody_takes_the_tokens_back() {
    let mut place = OAuthHome::usual();
    for fault in [
        EndpointFault::Status(500),
        EndpointFault::Junk("<html>".to_owned()),
    ] {
        place.log_in().ok();
        place.server.fail(Endpoint::Revocation, fault);
        place.hermes.run(&["mcp", "logout", "remote"]).ok();
        assert!(!place.token_file().exists());
    }
    place.log_in().ok();
    place.server.stop();
    place
        .hermes
        .run(&["mcp", "logout", "remote", "--client"])
        .ok();
    let left = fs::read_dir(place.hermes.home.path().join("mcp-tokens")).unwrap();
    let left: Vec<_> = left.map(|file| file.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "remote.lock"), "{left:?}");
}

#[test]
fn a_tool_that_needs_more_is_asked_for_together_with_what_there_was() {
    let resource = Resource::with(|resource| {
        resource.scope = Some("mcp:read".to_owned());
        resource.tool_scopes = vec![("add".to_owned(), "mcp:write".to_owned())];
    });
    let place = OAuthHome::new(AuthorizationSetup::default(), resource);
    place.log_in().ok();
    place.works();
    place.call_tool("add").wants_login();
    place.log_in().ok();
    let asked = place.server.requests_to(Endpoint::Authorization);
    let scope = asked.last().unwrap().parameter("scope").unwrap();
    let scopes: Vec<&str> = scope.split(' ').collect();
    assert!(
        scopes.contains(&"mcp:read") && scopes.contains(&"mcp:write"),
        "{scope}"
    );
    place.call_tool("add").ok();
}

#[test]
fn a_server_that_is_never_content_with_its_scope_is_asked_no_more() {
    let resource = Resource::with(|resource| {
        resource.scope = Some("mcp:read".to_owned());
        // No token has this for one scope.
        let never = "mcp:read mcp:write".to_owned();
        resource.tool_scopes = vec![("add".to_owned(), never)];
    });
    let place = OAuthHome::new(AuthorizationSetup::default(), resource);
    place.log_in().ok();
    // The second login asks for more; the third may be one of another account.
    for _ in 0..2 {
        place.call_tool("add").wants_login();
        place.log_in().ok();
    }
    let ran = place.call_tool("add").exits_with(1);
    assert!(ran.stdout.contains("keeps requesting"), "{ran:#?}");
    place.works();
}

#[test]
fn a_configured_client_is_used_as_it_is() {
    let setup = AuthorizationSetup::with(|setup| setup.dynamic_registration = false);
    let place = OAuthHome::new(setup, Resource::default());
    // Nobody registers clients here, and none is configured.
    let ran = place.refused_login();
    assert_ne!(ran.code, 0);
    for words in ["http://127.0.0.1:8765/callback", "oauth.client_id"] {
        assert!(ran.stderr.contains(words), "{ran:#?}");
    }
    let client = RegisteredClient::with_secret("mine", "my-own-s3cret");
    place.server.register(client);
    place.configure(json!({ "client_id": "mine", "client_secret": "my-own-s3cret" }));
    place.log_in().ok();
    place.works();
}

#[test]
fn a_scope_that_cannot_be_registered_is_asked_for_all_the_same() {
    let resource = || Resource::with(|resource| resource.scope = Some("mcp:read".to_owned()));
    // One lists the scope and refuses to register it; the other does not even list it.
    let listed = AuthorizationSetup::with(|setup| setup.registered_scopes = Some(Vec::new()));
    let unlisted = AuthorizationSetup::with(|setup| {
        setup.registered_scopes = Some(Vec::new());
        setup.scopes = vec!["openid".to_owned()];
    });
    for (setup, attempts) in [(listed, 2), (unlisted, 1)] {
        let place = OAuthHome::new(setup, resource());
        let (mut terminal, address) = place.begin();
        let registrations = place.server.requests_to(Endpoint::Registration);
        assert_eq!(registrations.len(), attempts);
        assert!(registrations[attempts - 1].message()["scope"].is_null());
        let asked = url::Url::parse(&address).unwrap();
        let scope = asked.query_pairs().find(|(name, _)| name == "scope");
        assert!(
            scope.is_some_and(|(_, scope)| scope.contains("mcp:read")),
            "{address}"
        );
        terminal.send("skip\r");
        terminal.end();
    }
}

/// A home of its own for a chat that knows the same server.
fn chat(place: &OAuthHome) -> crate::harness::chat_terminal::ChatHome {
    let chat = crate::harness::chat_terminal::ChatHome::without_model(&[]);
    let servers = json!({ "remote": place.hermes.entry("remote") });
    chat.write_config(&[], &format!("mcp_servers: {servers}\n"));
    chat
}

#[test]
fn a_login_can_be_started_from_the_prompt_of_a_chat() {
    let place = OAuthHome::usual();
    let chat = chat(&place);
    // Without a screen no browser is opened.
    let talk = chat.start_chat_with(&[], &[("SSH_CONNECTION", "1.2.3.4 5 6.7.8.9 22")]);
    talk.wait_for("needs a login: `/mcp login remote`");
    talk.line("/mcp login remote");
    talk.wait_for("paste that address here");
    let raw = talk.raw();
    let address = raw
        .split_whitespace()
        .find(|word| word.contains("/authorize?"));
    let back = first_redirect(address.unwrap()).unwrap();
    talk.keys(&format!("{back}\r"));
    talk.wait_for("`remote` is logged in");
    talk.wait_for("ready: remote");
    assert!(!talk.raw().contains("failed, retrying"));
    // Its tools can be called in the same conversation.
    talk.line("/call remote.echo {\"text\": \"hello again\"}");
    talk.wait_until("answer", |screen| {
        screen.matches("hello again").count() >= 2
    });
    for secret in place.server.secrets() {
        let is_answer = back.contains(&secret);
        assert!(is_answer || !talk.raw().contains(&secret), "{secret}");
    }
}

#[test]
fn a_login_that_is_left_brings_the_prompt_of_the_chat_back() {
    let place = OAuthHome::usual();
    let chat = chat(&place);
    let talk = chat.start_chat_with(&[], &[("SSH_CONNECTION", "1.2.3.4 5 6.7.8.9 22")]);
    talk.line("/mcp login remote");
    talk.wait_for("paste that address here");
    talk.keys("skip\r");
    talk.wait_for("`remote` is not logged in");
    talk.line("/mcp");
    talk.wait_for("needs_auth");
}

#[test]
fn adding_a_server_that_turns_out_to_want_a_login_offers_one() {
    let place = OAuthHome::usual();
    place.hermes.home.write_config("{}\n");
    let url = place.mcp.url();
    let add = || {
        Terminal::start(
            place
                .hermes
                .command(&["mcp", "add", "remote", "--url", &url]),
        )
    };
    let mut refused = add();
    refused.wait_for("Log in now?").send("n\r");
    refused.wait_for("Save it anyway").send("n\r");
    let (code, screen) = refused.end();
    assert_eq!(code, 4, "{screen}");
    assert!(screen.contains("add `--auth oauth`"), "{screen}");
    // What is not saved cannot be logged in to.
    assert!(!screen.contains("hermes mcp login"), "{screen}");
    assert_eq!(place.hermes.entry("remote"), Value::Null);

    let mut agreed = add();
    agreed.wait_for("Log in now?").send("\r");
    browse(&agreed.word_with("/authorize?")).unwrap();
    agreed.wait_for("Offer all of its").send("\r");
    let (code, screen) = agreed.end();
    assert_eq!(code, 0, "{screen}");
    assert_eq!(place.hermes.entry("remote")["auth"], "oauth");
    place.works();
}

#[test]
fn adding_a_server_at_a_terminal_logs_in_on_the_way() {
    let place = OAuthHome::usual();
    place.hermes.home.write_config("{}\n");
    let url = place.mcp.url();
    let add = ["mcp", "add", "remote", "--url", &url, "--auth", "oauth"];
    let mut terminal = Terminal::start(place.hermes.command(&add));
    let address = terminal.word_with("/authorize?");
    browse(&address).unwrap();
    // All tools are to be offered.
    terminal.wait_for("tools").send("\r");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    place.works();
}

#[test]
fn a_client_that_was_forgotten_registers_anew() {
    let place = OAuthHome::usual();
    place.log_in().ok();
    place.server.forget_registrations();
    place.server.expire_access_tokens();
    // Once may be an accident; after the second time the client is given up.
    place.call();
    place.call();
    place.needs_login();
    place.log_in().ok();
    assert_eq!(place.server.requests_to(Endpoint::Registration).len(), 2);
    place.works();
}

#[test]
fn reauth_logs_in_again() {
    let place = OAuthHome::usual();
    place.log_in().ok();
    let before = place.tokens()["access_token"].clone();
    let mut terminal = Terminal::start(place.hermes.command(&["mcp", "reauth", "--all"]));
    let address = terminal.word_with("/authorize?");
    browse(&address).unwrap();
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert_ne!(place.tokens()["access_token"], before);
}

#[test]
fn reauth_without_a_terminal_names_every_address_and_that_an_answer_is_needed() {
    let place = OAuthHome::usual();
    let ran = place.hermes.run(&["mcp", "reauth", "--all", "--json"]);
    let result = ran.refused(5, "answer_needed").json()["results"][0].clone();
    assert_eq!(result["server"], "remote");
    assert_eq!(result["code"], "answer_needed");
    let address = result["url"].as_str().unwrap();
    let back = first_redirect(address).unwrap();
    place
        .hermes
        .run(&["mcp", "login", "remote", "--code", &back])
        .ok();
    place.works();
}

#[test]
fn one_login_that_fails_does_not_keep_reauth_from_the_next() {
    let place = OAuthHome::usual();
    let nowhere = json!({ "url": "http://127.0.0.1:9/mcp", "auth": "oauth" });
    let servers = json!({ "first": nowhere, "remote": place.hermes.entry("remote") });
    let config = json!({ "mcp_servers": servers }).to_string();
    place.hermes.home.write_config(&config);
    let mut terminal = Terminal::start(place.hermes.command(&["mcp", "reauth", "--all"]));
    let address = terminal.word_with("/authorize?");
    browse(&address).unwrap();
    let (code, screen) = terminal.end();
    assert_eq!(code, 1, "{screen}");
    for text in ["1/2 first", "2/2 remote", "1 of 2 logged in"] {
        assert!(screen.contains(text), "no `{text}` in:\n{screen}");
    }
    place.works();
}
