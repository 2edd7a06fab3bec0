//! Certificates: unknown authorities, missing and wrong client certificates.

use hermes_mcp::LinkStatus;
use hermes_testkit::{Behaviour, HttpServer, TemporaryHome, Tls};
use serde_json::{Value, json};

use crate::setup::{Setup, http, with, with_neighbour};

fn secured(require_client_certificate: bool) -> HttpServer {
    HttpServer::start(Behaviour::new().http(|http| {
        http.tls = Some(Tls {
            require_client_certificate,
            directory: None,
        });
    }))
}

/// A home that holds a server's certificates under this name.
fn keep(home: &TemporaryHome, name: &str, server: &HttpServer) -> (String, String, String) {
    let certificates = server.certificates().unwrap();
    let write = |part: &str, text: &str| {
        let path = home.write(&format!("{name}-{part}.pem"), text);
        path.to_str().unwrap().to_owned()
    };
    (
        write("ca", &certificates.authority),
        write("client", &certificates.client_certificate),
        write("key", &certificates.client_key),
    )
}

async fn connect(home: TemporaryHome, server: &HttpServer, keys: Value) -> Setup {
    let entry = with(http(server), keys);
    Setup::in_home(home, with_neighbour(json!({ "s": entry }))).await
}

#[tokio::test]
async fn an_unknown_authority_is_refused_with_advice() {
    let server = secured(false);
    let setup = connect(TemporaryHome::new(), &server, json!({})).await;
    let status = setup.status("s");
    assert_eq!(status.status, LinkStatus::Reconnecting);
    let error = status.error.unwrap();
    assert!(error.contains("ssl_verify"), "{error}");
    assert!(server.requests().is_empty(), "nothing was sent");
    setup.assert_neighbour_is_well().await;
}

#[tokio::test]
async fn a_known_authority_is_trusted_and_any_where_the_user_says_so() {
    let server = secured(false);
    let home = TemporaryHome::new();
    let (authority, ..) = keep(&home, "server", &server);
    let setup = connect(home, &server, json!({ "ssl_verify": authority })).await;
    let told = setup.call("mcp_s_echo", json!({ "text": "hi" })).await;
    assert_eq!(told, json!({ "result": "hi" }));

    let setup = connect(
        TemporaryHome::new(),
        &server,
        json!({ "ssl_verify": false }),
    )
    .await;
    setup.assert_ready("s");
}

#[tokio::test]
async fn a_missing_or_wrong_client_certificate_is_an_error_with_advice() {
    let server = secured(true);
    let stranger = secured(true);
    for is_wrong in [false, true] {
        let home = TemporaryHome::new();
        let (authority, ..) = keep(&home, "server", &server);
        let (_, certificate, key) = keep(&home, "stranger", &stranger);
        let mut keys = json!({ "ssl_verify": authority });
        if is_wrong {
            keys["client_cert"] = json!(certificate);
            keys["client_key"] = json!(key);
        }
        let setup = connect(home, &server, keys).await;
        let status = setup.status("s");
        assert_eq!(status.status, LinkStatus::Reconnecting, "wrong: {is_wrong}");
        let error = status.error.unwrap();
        assert!(error.contains("client_cert"), "wrong: {is_wrong}: {error}");
        assert!(server.requests().is_empty());
        setup.assert_neighbour_is_well().await;
    }
}

#[tokio::test]
async fn the_right_client_certificate_opens_the_door() {
    let server = secured(true);
    let home = TemporaryHome::new();
    let (authority, certificate, key) = keep(&home, "server", &server);
    let keys = json!({ "ssl_verify": authority, "client_cert": certificate, "client_key": key });
    let setup = connect(home, &server, keys).await;
    setup.assert_ready("s");
    let told = setup.call("mcp_s_echo", json!({ "text": "hi" })).await;
    assert_eq!(told, json!({ "result": "hi" }));
}

#[tokio::test]
async fn files_that_are_not_certificates_make_the_entry_invalid() {
    let server = secured(true);
    for key in ["ssl_verify", "client_cert"] {
        let home = TemporaryHome::new();
        let path = home.write("broken.pem", "no certificate");
        let setup = connect(home, &server, json!({ key: path.to_str().unwrap() })).await;
        let status = setup.status("s");
        assert_eq!(
            status.status,
            LinkStatus::Invalid,
            "{key}: {:?}",
            status.error
        );
        assert!(status.error.unwrap().contains("broken.pem"));
        setup.assert_neighbour_is_well().await;
    }
}

#[tokio::test]
async fn plain_http_on_the_other_side_is_recognised() {
    let server = HttpServer::start(Behaviour::new());
    let url = server.url().replace("http://", "https://");
    let setup = Setup::start(with_neighbour(json!({ "s": { "url": url } }))).await;
    let error = setup.status("s").error.unwrap();
    assert!(error.contains("http://"), "{error}");
    setup.assert_neighbour_is_well().await;
}
