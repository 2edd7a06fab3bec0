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
    let too_long = "x".repeat(3 << 20);
    let odd = admin
        .request(Method::POST, "/do/create_tenant")
        .header(header::CONTENT_TYPE, "text/plain")
        .header("sec-fetch-site", "same-origin")
        .body("id");
    for (what, page) in [
        (
            "a form that is too long",
            admin
                .submit("/do/create_tenant", &[("id", &too_long)])
                .await,
        ),
        ("what is no form", admin.send(odd).await),
        (
            "an action that is not there",
            admin.submit("/do/nonsense", &[]).await,
        ),
        (
            "a file that is not there",
            admin.get("/tenants/nobody/files?path=x").await,
        ),
        ("a download", admin.get("/audit/export?since=x").await),
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
        let sentences = page.text.matches("<p").count();
        assert!(sentences >= 2, "{what} names no fix: {}", page.text);
        assert_eq!(id == "mine-1", what == "a provider", "{what}: {id}");
    }
}

#[tokio::test]
async fn an_address_without_a_page_is_told_on_a_page_and_to_programs_as_before() {
    let hub = TestHub::new().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let stranger = ConsoleBrowser::stranger(&hub);
    let look_for = async |browser: &ConsoleBrowser, path: &str, accept: &str| {
        let request = browser.request(Method::GET, path);
        let request = request.header(header::ACCEPT, accept);
        let response = request.send().await.unwrap();
        let location = response.headers().get(header::LOCATION);
        let location = location.map(|location| location.to_str().unwrap().to_owned());
        let status = response.status().as_u16();
        (status, location, response.text().await.unwrap())
    };
    let page = "text/html,application/xhtml+xml,*/*;q=0.8";
    for path in ["/nonsense", "/tenants/acme/nonsense"] {
        let (status, _, text) = look_for(&admin, path, page).await;
        assert_eq!(status, 404, "{text}");
        assert!(text.contains("there is no such page"), "{text}");
        assert!(text.contains("<nav"), "{text}");
        let (status, location, _) = look_for(&stranger, path, page).await;
        let location = location.unwrap();
        assert_eq!(status, 303, "{location}");
        assert!(location.starts_with("/sign-in"), "{location}");
        let (status, _, text) = look_for(&stranger, path, "*/*").await;
        assert_eq!(status, 401, "{text}");
        assert!(text.starts_with('{'), "{text}");
    }
    for path in ["/v1/nonsense", "/mcp/nonsense", "/internal/nonsense"] {
        let (status, _, text) = look_for(&admin, path, page).await;
        assert_eq!(status, 401, "a cookie is not a token: {text}");
        assert!(text.starts_with('{'), "{text}");
    }
}
