//! How sessions end that nobody ends, and what a sign-in gives to whom.

use std::time::Duration;

use reqwest::{Method, header};
use serde_json::json;

use super::{ConsoleBrowser, ConsolePage};
use crate::{
    hub::lifecycle::run_sql,
    test_hub::{TIMEOUT, TestHub},
};

/// Lets so much time go by for all sessions. Times are those of the database, which has the only clock that counts.
async fn let_pass(hub: &TestHub, time: Duration) {
    let millis = time.as_millis();
    let sql = format!("UPDATE console_sessions SET used_at = used_at - {millis}");
    run_sql(hub, &sql).await;
}

/// The same for sessions that are used all the time.
async fn let_pass_in_use(hub: &TestHub, time: Duration) {
    let millis = time.as_millis();
    let sql = format!("UPDATE console_sessions SET ends_at = ends_at - {millis}");
    run_sql(hub, &sql).await;
}

/// Whoever a sign-in has let in.
fn signed_in_by(hub: &TestHub, page: ConsolePage) -> ConsoleBrowser {
    let page = page.expect_status(303);
    let cookie = page.headers[header::SET_COOKIE].to_str().unwrap();
    ConsoleBrowser::stranger(hub).with_cookie(cookie.split(';').next().unwrap())
}

async fn is_signed_in(browser: &ConsoleBrowser) -> bool {
    let page = browser.get("/sessions").await.expect_status(200);
    page.address.starts_with("/sessions")
}

#[tokio::test]
async fn a_session_that_nobody_uses_for_an_hour_is_over_with_its_stream() {
    let hub = TestHub::new().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let stream = admin.request(Method::GET, "/live").send().await.unwrap();
    assert_eq!(stream.status(), 200);
    let_pass(&hub, Duration::from_mins(61)).await;
    // The stream of an open page ends: this reads it to its end.
    let rest = tokio::time::timeout(TIMEOUT, stream.text()).await;
    rest.expect("the stream goes on").unwrap();
    assert!(!is_signed_in(&admin).await);
    let late = admin.submit("/do/create_tenant", &[("id", "late")]).await;
    late.expect_status(401).assert_shows("action=\"/sign-in\"");
    let tenants = hub.get("/v1/tenants").await.expect(200);
    assert_eq!(tenants["tenants"], json!([]));
    let listed = hub.get("/v1/console-sessions").await.expect(200);
    assert_eq!(listed["sessions"], json!([]));
}

#[tokio::test]
async fn what_was_sent_after_the_end_of_a_session_is_kept_through_the_sign_in() {
    let hub = TestHub::new().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let_pass(&hub, Duration::from_mins(61)).await;
    let typed = "late</textarea><b>\r\nsecond";
    let body = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs([
            ("csrf", admin.csrf()),
            ("id", "late"),
            ("displayName", typed),
            ("next", "/tenants"),
        ])
        .finish();
    let request = admin
        .request(Method::POST, "/do/create_tenant")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header("sec-fetch-site", "same-origin")
        .header(header::REFERER, format!("{}/tenants?search=x", hub.url))
        .body(body);
    let asked = admin.send(request).await.expect_status(401);
    asked.assert_shows("Your session has ended.");
    asked.assert_lacks("<b>");
    let value = |page: &ConsolePage, name: &str| {
        let mark = format!(" name=\"{name}\" value=\"");
        let (_, rest) = page.text.split_once(&mark).unwrap();
        super::decode_entities(rest.split_once('"').unwrap().0)
    };
    assert_eq!(value(&asked, "next"), "/tenants?search=x");
    let (address, kept) = (value(&asked, "form_address"), value(&asked, "form_fields"));
    let mut fields = vec![
        ("token", "wrong"),
        ("next", "/tenants?search=x"),
        ("form_address", &address),
        ("form_fields", &kept),
    ];
    // A wrong token loses nothing.
    let stranger = ConsoleBrowser::stranger(&hub);
    let refused = stranger.post("/sign-in", &fields).await.expect_status(401);
    assert_eq!(value(&refused, "form_fields"), kept);
    fields[0] = ("token", &hub.admin);
    let offered = stranger.post("/sign-in", &fields).await.expect_status(200);
    offered.assert_shows("href=\"/tenants?search=x\"");
    offered.assert_shows("action=\"/do/create_tenant\"");
    let cookie = offered.headers[header::SET_COOKIE].to_str().unwrap();
    let again = ConsoleBrowser::stranger(&hub).with_cookie(cookie.split(';').next().unwrap());
    let shown = value(&offered, "displayName");
    let fields = [
        ("csrf", value(&offered, "csrf")),
        ("id", value(&offered, "id")),
        ("displayName", shown.clone()),
    ];
    let fields = fields
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    again
        .post("/do/create_tenant", &fields)
        .await
        .expect_status(303);
    let tenant = hub.get("/v1/tenants/late").await.expect(200);
    assert_eq!(tenant["displayName"], "late</textarea><b>\nsecond");
    // Nobody is sent to another site by it, nor to what is not a form.
    for address in [
        "https://example.org/do/x",
        "//example.org/do/x",
        "/sign-out",
    ] {
        let fields = [
            ("token", hub.admin.as_str()),
            ("form_address", address),
            ("form_fields", "a=b"),
        ];
        let page = stranger.post("/sign-in", &fields).await;
        assert_eq!(page.status, 303, "{address}");
    }
}

#[tokio::test]
async fn whoever_reads_stays_signed_in_and_an_open_stream_is_not_reading() {
    let hub = TestHub::new().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    for _ in 0..3 {
        let_pass(&hub, Duration::from_mins(59)).await;
        assert!(is_signed_in(&admin).await);
    }
    let_pass(&hub, Duration::from_mins(59)).await;
    let stream = admin.request(Method::GET, "/live").send().await.unwrap();
    assert_eq!(stream.status(), 200);
    let_pass(&hub, Duration::from_mins(2)).await;
    assert!(!is_signed_in(&admin).await);
}

#[tokio::test]
async fn a_session_is_over_when_the_time_of_its_token_is() {
    let hub = TestHub::new().await;
    let rights = json!({"name": "brief", "role": "viewer"});
    let browser = ConsoleBrowser::with_rights(&hub, rights).await;
    assert!(is_signed_in(&browser).await);
    let end = "UPDATE tokens SET expires_at = 1 WHERE name = 'brief'";
    run_sql(&hub, end).await;
    assert!(!is_signed_in(&browser).await);
}

#[tokio::test]
async fn a_session_that_somebody_else_has_begun_gains_nothing_by_a_sign_in() {
    let hub = TestHub::new().await;
    let attacker = ConsoleBrowser::with_rights(&hub, json!({"role": "viewer"})).await;
    // The browser of the victim has the attacker's cookie.
    let victim = ConsoleBrowser::stranger(&hub).with_cookie(attacker.cookie());
    attacker.get("/tokens").await.expect_status(404);
    let page = victim.post("/sign-in", &[("token", &hub.admin)]).await;
    let victim = signed_in_by(&hub, page);
    assert_ne!(victim.cookie(), attacker.cookie());
    let tokens = victim.get("/tokens").await.expect_status(200);
    assert_eq!(tokens.address, "/tokens");
    assert!(!is_signed_in(&attacker).await);
}

#[tokio::test]
async fn a_sign_in_ends_the_session_that_the_browser_had_and_no_other() {
    let hub = TestHub::new().await;
    let browser = ConsoleBrowser::as_admin(&hub).await;
    let elsewhere = ConsoleBrowser::as_admin(&hub).await;
    let refused = browser.post("/sign-in", &[("token", "wrong")]).await;
    refused.expect_status(401);
    assert!(is_signed_in(&browser).await);
    let page = browser.post("/sign-in", &[("token", &hub.admin)]).await;
    let again = signed_in_by(&hub, page);
    assert!(is_signed_in(&again).await);
    assert!(!is_signed_in(&browser).await);
    assert!(is_signed_in(&elsewhere).await);
    let listed = hub.get("/v1/console-sessions").await.expect(200);
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 2, "{listed}");
}

#[tokio::test]
async fn a_session_is_over_after_twelve_hours_however_much_it_is_used() {
    let hub = TestHub::new().await;
    let by_token = ConsoleBrowser::as_admin(&hub).await;
    let made = hub.request(&hub.admin, Method::POST, "/v1/sign-in-links");
    let made = hub.send(made).await.expect(201);
    let (_, code) = made["url"].as_str().unwrap().split_once("#code=").unwrap();
    let stranger = ConsoleBrowser::stranger(&hub);
    let by_link = signed_in_by(&hub, stranger.post("/sign-in", &[("code", code)]).await);
    let_pass_in_use(&hub, Duration::from_mins(12 * 60 - 5)).await;
    assert!(is_signed_in(&by_token).await);
    assert!(is_signed_in(&by_link).await);
    let_pass_in_use(&hub, Duration::from_mins(6)).await;
    assert!(!is_signed_in(&by_token).await);
    assert!(!is_signed_in(&by_link).await);
}

#[tokio::test]
async fn of_many_who_use_a_link_at_once_one_is_signed_in() {
    let hub = TestHub::new().await;
    let made = hub.request(&hub.admin, Method::POST, "/v1/sign-in-links");
    let made = hub.send(made).await.expect(201);
    let (_, code) = made["url"].as_str().unwrap().split_once("#code=").unwrap();
    let browser = ConsoleBrowser::stranger(&hub);
    let fields = [("code", code)];
    let tries = (0..5).map(|_| browser.post("/sign-in", &fields));
    let pages = futures::future::join_all(tries).await;
    let mut statuses: Vec<u16> = pages.iter().map(|page| page.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [303, 401, 401, 401, 401]);
    for page in pages.iter().filter(|page| page.status == 401) {
        assert!(!page.headers.contains_key(header::SET_COOKIE));
    }
}
