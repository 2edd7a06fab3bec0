//! Whom an authorization server knows us as: a client of the user's, a document, one that registers itself, or one that
//! somebody is asked for.

use hermes_testkit::authorization::RegisteredClient;

use super::*;

const DOCUMENT: &str = "https://app.example/client.json";

/// Knows clients by their documents, and registers them.
fn with_documents() -> OAuthHome {
    let setup = AuthorizationSetup::with(|setup| setup.client_documents = true);
    let place = OAuthHome::new(setup, Resource::default());
    let document = json!({
        "client_id": DOCUMENT, "redirect_uris": ["http://127.0.0.1/callback"], "token_endpoint_auth_method": "none",
    });
    place.server.publish(DOCUMENT, document);
    place
}

/// The client of the last login, and how many have registered themselves.
fn client(place: &OAuthHome) -> (String, usize) {
    let asked = place.server.requests_to(Endpoint::Authorization);
    let client = asked.last().unwrap().parameter("client_id").unwrap();
    (
        client,
        place.server.requests_to(Endpoint::Registration).len(),
    )
}

#[test]
fn a_document_comes_before_a_registration_and_a_client_of_ones_own_before_both() {
    let place = with_documents();
    place.configure(json!({ "client_metadata_url": DOCUMENT }));
    place.log_in().ok();
    assert_eq!(client(&place), (DOCUMENT.to_owned(), 0));
    place.works();
    place.server.expire_access_tokens();
    place.works();

    place.server.register(RegisteredClient::public("mine"));
    place.configure(json!({ "client_metadata_url": DOCUMENT, "client_id": "mine" }));
    place.log_in().ok();
    assert_eq!(client(&place), ("mine".to_owned(), 0));
    place.works();
}

#[test]
fn where_documents_are_not_known_a_client_registers_itself() {
    let place = OAuthHome::usual();
    place.configure(json!({ "client_metadata_url": DOCUMENT }));
    place.log_in().ok();
    let (client, registered) = client(&place);
    assert_ne!(client, DOCUMENT);
    assert_eq!(registered, 1);
    place.works();
}

#[test]
fn where_no_client_registers_itself_somebody_is_asked_for_one_and_it_is_kept() {
    let setup = AuthorizationSetup::with(|setup| setup.dynamic_registration = false);
    let place = OAuthHome::new(setup, Resource::default());
    let secret = "words-that-no-pattern-knows";
    place
        .server
        .register(RegisteredClient::with_secret("mine", secret));
    let mut terminal = Terminal::start(place.hermes.command(&["mcp", "login", "remote"]));
    terminal.wait_for("does not support client registration");
    let redirect = terminal.word_with("/callback");
    terminal.wait_for("Client id").send("mine\r");
    terminal
        .wait_for("Client secret")
        .send(&format!("{secret}\r"));
    let address = terminal.word_with("/authorize?");
    let asked = url::Url::parse(&address).unwrap();
    assert!(
        asked.query_pairs().any(|(_, value)| value == redirect),
        "{address}"
    );
    browse(&address).unwrap();
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(!screen.contains(secret), "{screen}");
    place.works();
    // Nobody is asked again.
    place.server.expire_access_tokens();
    place.works();
    place.log_in().ok();
    assert_eq!(client(&place), ("mine".to_owned(), 0));
}
