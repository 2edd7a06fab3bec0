//! REST, MCP and the documents, over real sockets.

mod authentication;
mod mcp_fast_path;
mod mcp_sessions;
mod path_traversal;
mod private;
mod request_limits;
mod request_validation;
mod unauthenticated;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use reqwest::Certificate;

use crate::test_hub::TestHub;

#[tokio::test]
async fn with_a_certificate_the_hub_speaks_tls_and_nothing_else() {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let mut site = TestHub::with_settings(|settings, directory| {
        let (chain, key) = (directory.join("cert.pem"), directory.join("key.pem"));
        std::fs::write(&chain, cert.pem()).unwrap();
        std::fs::write(&key, signing_key.serialize_pem()).unwrap();
        settings.tls = Some(hermes_hub::settings::TlsSettings { cert: chain, key });
    })
    .await;
    let port = site.hub.settings().listen.port();
    let trusted = Certificate::from_pem(cert.pem().as_bytes()).unwrap();
    site.client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([trusted])
        .build()
        .unwrap();
    let plain = site
        .client
        .get(format!("http://localhost:{port}/v1/healthz"))
        .send()
        .await;
    assert!(plain.is_err() || plain.is_ok_and(|answer| !answer.status().is_success()));
    site.url = format!("https://localhost:{port}");
    site.get("/v1/whoami").await.expect(200);
}
