//! What went wrong is said with the id of the request, by which it is found in the log.

use reqwest::{Method, header};

use super::ConsoleBrowser;
use crate::test_hub::TestHub;

#[tokio::test]
async fn every_page_that_says_what_went_wrong_names_the_request() {
    let hub = TestHub::new().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let stranger = ConsoleBrowser::stranger(&hub);
    let in_place = admin
        .request(Method::POST, "/do/create_tenant")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header("sec-fetch-site", "same-origin")
        .header("hx-request", "true")
        .body(format!("id=%3C&csrf={}", admin.csrf()));
    let foreign = stranger
        .request(Method::POST, "/sign-in")
        .header("sec-fetch-site", "cross-site");
    let named = stranger
        .request(Method::GET, "/sign-in/provider")
        .header("x-request-id", "mine-1");
    let wrong_token = [("token", "wrong")];
    let wrong_link = [("code", "wrong")];
    for (what, page) in [
        ("no page", admin.get("/tenants/nobody").await),
        (
            "a form",
            admin.submit("/do/create_tenant", &[("id", "<")]).await,
        ),
        ("a form in its place", admin.send(in_place).await),
        ("a token", stranger.post("/sign-in", &wrong_token).await),
        ("a link", stranger.post("/sign-in", &wrong_link).await),
        ("a provider", stranger.send(named).await),
        ("another origin", stranger.send(foreign).await),
    ] {
        assert!(page.status >= 400, "{what}: {} {}", page.status, page.text);
        let id = page.headers["x-request-id"].to_str().unwrap();
        page.assert_shows(&format!("<code>{id}</code>"));
        assert_eq!(id == "mine-1", what == "a provider", "{what}: {id}");
    }
}
