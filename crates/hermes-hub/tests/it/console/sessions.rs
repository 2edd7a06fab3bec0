//! Who is signed in: cookies, where changes may come from, and how sessions begin and end.

use std::time::Duration;

use hermes_hub::{
    TokenId,
    api_types::{KeyHash, Time, ids::ConsoleSessionId},
    storage::{
        audit::NewAuditEntry,
        state::{NewConsoleSession, SessionHolder},
    },
};
use reqwest::{Method, header};
use serde_json::json;

use super::{ConsoleBrowser, ConsolePage};
use crate::test_hub::TestHub;

/// A browser that has signed in nowhere.
fn stranger(hub: &TestHub) -> ConsoleBrowser {
    ConsoleBrowser::stranger(hub)
}

fn is_sign_in(page: &ConsolePage) -> bool {
    page.address.starts_with("/sign-in")
}

#[tokio::test]
async fn the_cookie_is_for_this_hub_alone_and_no_script_reads_it() {
    let hub = TestHub::new().await;
    let page = stranger(&hub)
        .post("/sign-in", &[("token", &hub.admin)])
        .await
        .expect_status(303);
    let cookie = page.headers[header::SET_COOKIE].to_str().unwrap();
    let port = hub.url.rsplit(':').next().unwrap();
    assert!(cookie.starts_with(&format!("hermes_{port}=")), "{cookie}");
    for flag in ["; HttpOnly", "; SameSite=Strict", "; Path=/"] {
        assert!(cookie.contains(flag), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "plain http: {cookie}");
    assert!(!cookie.contains("Domain"), "{cookie}");

    let behind_tls = TestHub::with_settings(|settings, _| {
        settings.public_url = "https://hub.example.com".into();
    })
    .await;
    let page = stranger(&behind_tls)
        .post("/sign-in", &[("token", &behind_tls.admin)])
        .await;
    let cookie = page.headers[header::SET_COOKIE].to_str().unwrap();
    assert!(cookie.starts_with("__Host-hermes="), "{cookie}");
    assert!(cookie.contains("; Secure"), "{cookie}");
}

#[tokio::test]
async fn whoever_comes_from_another_machine_without_encryption_is_told_so() {
    let sentence = "This connection is not encrypted.";
    let asked_as = async |hub: &TestHub, host: &str| {
        let browser = stranger(hub);
        let page = browser.request(Method::GET, "/sign-in");
        let page = browser.send(page.header(header::HOST, host)).await;
        page.expect_status(200).shows(sentence)
    };
    let hub = TestHub::with_settings(|settings, _| {
        settings.allowed_hosts = vec!["192.168.1.5".into()];
    })
    .await;
    for host in ["192.168.1.5:7878", "192.168.1.5"] {
        assert!(asked_as(&hub, host).await, "{host}");
    }
    for host in ["127.0.0.1:7878", "localhost", "[::1]:7878", "[::1]"] {
        assert!(!asked_as(&hub, host).await, "{host}");
    }
    let behind_tls = TestHub::with_settings(|settings, _| {
        settings.public_url = "https://hub.example.com".into();
    })
    .await;
    assert!(!asked_as(&behind_tls, "hub.example.com").await);
}

#[tokio::test]
async fn whoever_is_not_signed_in_is_sent_there_and_back() {
    let hub = TestHub::new().await;
    let browser = stranger(&hub);
    let page = browser.get("/tenants?search=x").await.expect_status(200);
    // Otherwise a browser sends the form without an origin, and it would be refused.
    assert_eq!(page.headers[header::REFERRER_POLICY], "same-origin");
    assert_eq!(page.address, "/sign-in?next=%2Ftenants%3Fsearch%3Dx");
    page.assert_shows("value=\"/tenants?search=x\"");
    for next in ["//evil.example", "https://evil.example", "/\\evil"] {
        let form = [("token", hub.admin.as_str()), ("next", next)];
        let page = browser.post("/sign-in", &form).await.expect_status(303);
        assert_eq!(page.headers[header::LOCATION], "/", "{next}");
    }
    let page = browser.post("/sign-in", &[("token", "wrong")]).await;
    assert_eq!(page.status, 401);
    assert!(!page.headers.contains_key(header::SET_COOKIE));
    let part = browser
        .request(Method::GET, "/tenants")
        .header("hx-request", "true");
    let part = browser.send(part).await.expect_status(401);
    assert_eq!(part.headers["hx-redirect"], "/sign-in?next=%2Ftenants");
}

#[tokio::test]
async fn a_change_from_another_origin_or_without_the_token_of_the_page_is_refused() {
    let hub = TestHub::new().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let (_, port) = hub.url.rsplit_once(':').unwrap();
    let sibling = format!("http://127.0.0.1:{}", port.parse::<u16>().unwrap() ^ 1);
    let body = format!("id=evil&csrf={}", admin.csrf());
    let change = |headers: &[(&'static str, &str)]| {
        let mut request = admin
            .request(Method::POST, "/do/create_tenant")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(body.clone());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request
    };
    for headers in [
        &[("sec-fetch-site", "cross-site")][..],
        &[("sec-fetch-site", "same-site"), ("origin", &sibling)],
        &[("sec-fetch-site", "none")],
        &[("origin", "https://evil.example")],
        &[("origin", &sibling)],
        &[("origin", "null")],
        &[],
    ] {
        let page = admin.send(change(headers)).await;
        assert_eq!(page.status, 403, "{headers:?}: {}", page.text);
    }
    for csrf in ["", "0123456789abcdef0123456789abcdef"] {
        let page = admin
            .post("/do/create_tenant", &[("id", "evil"), ("csrf", csrf)])
            .await;
        assert_eq!(page.status, 403, "{}", page.text);
    }
    let other = ConsoleBrowser::as_admin(&hub).await;
    let form = [("id", "evil"), ("csrf", other.csrf())];
    let page = admin.post("/do/create_tenant", &form).await;
    assert_eq!(page.status, 403, "the form of another session");
    let tenants = hub.get("/v1/tenants").await.expect(200);
    assert_eq!(tenants["tenants"], json!([]));
    // Nobody is signed out by another page either.
    admin.post("/sign-out", &[("csrf", "x")]).await;
    assert!(!is_sign_in(&admin.get("/").await));
}

#[tokio::test]
async fn a_cookie_that_was_there_before_is_not_the_one_of_the_session() {
    let hub = TestHub::new().await;
    let port = hub.url.rsplit(':').next().unwrap();
    let planted = format!("hermes_{port}={}", "a".repeat(64));
    let victim = stranger(&hub).with_cookie(&planted);
    let page = victim.post("/sign-in", &[("token", &hub.admin)]).await;
    let cookie = page.expect_status(303).headers[header::SET_COOKIE].clone();
    assert!(!cookie.to_str().unwrap().starts_with(&planted));
    assert!(is_sign_in(&victim.get("/").await), "the planted one");
}

#[tokio::test]
async fn a_new_sign_in_has_another_cookie_and_signing_out_ends_only_its_own() {
    let hub = TestHub::new().await;
    let one = ConsoleBrowser::as_admin(&hub).await;
    let other = ConsoleBrowser::as_admin(&hub).await;
    assert_ne!(one.csrf(), other.csrf());
    let page = one.submit("/sign-out", &[]).await;
    assert!(is_sign_in(&page), "{}", page.address);
    // A copy of the cookie is of no use either: the session is gone.
    assert!(is_sign_in(&one.get("/").await));
    assert!(!is_sign_in(&other.get("/").await));
}

/// Opens a session in the database as it would be after a while.
async fn session_that(hub: &TestHub, ends_at: Time) -> (ConsoleBrowser, ConsoleSessionId) {
    let whoami = hub.get("/v1/whoami").await.expect(200);
    let token = TokenId::parse(whoami["tokenId"].as_str().unwrap()).unwrap();
    let id = ConsoleSessionId::random().unwrap();
    let cookie = format!("the cookie of {id}").replace(' ', "");
    let session = NewConsoleSession {
        id: id.clone(),
        hash: KeyHash::from_key(&cookie),
        holder: SessionHolder::Token(token),
        address: "127.0.0.1".into(),
        user_agent: String::new(),
        ends_at,
    };
    let entry = NewAuditEntry::by_hub("sign_in");
    let opened = hub.hub.state().open_console_session(session, entry);
    opened.await.unwrap();
    let port = hub.url.rsplit(':').next().unwrap();
    let browser = stranger(hub).with_cookie(&format!("hermes_{port}={cookie}"));
    (browser, id)
}

#[tokio::test]
async fn a_session_that_has_lasted_long_enough_is_over() {
    let hub = TestHub::new().await;
    let now = Time::now();
    let (browser, _) = session_that(&hub, now.before(Duration::from_secs(1))).await;
    assert!(is_sign_in(&browser.get("/").await));
}

#[tokio::test]
async fn a_session_is_listed_revoked_and_gone_with_its_stream() {
    let hub = TestHub::new().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let (other, id) = session_that(&hub, Time::now().after(Duration::from_hours(1))).await;
    let page = admin.get("/sessions").await.expect_status(200);
    page.assert_shows(id.as_str());
    let live = other.request(Method::GET, "/live").send().await.unwrap();
    assert_eq!(live.status(), 200);
    let page = admin
        .submit(
            "/do/end_console_session",
            &[("session_id", id.as_str()), ("next", "/sessions")],
        )
        .await
        .expect_status(200);
    page.assert_lacks(id.as_str());
    assert!(is_sign_in(&other.get("/").await));
    // The stream ends by itself: this reads it to its end.
    let rest = tokio::time::timeout(crate::test_hub::TIMEOUT, live.text()).await;
    rest.expect("the stream goes on").unwrap();
}

#[tokio::test]
async fn a_session_ends_with_the_token_that_opened_it() {
    let hub = TestHub::new().await;
    let token = hub.token(json!({"name": "ops", "role": "operator"})).await;
    let browser = ConsoleBrowser::sign_in(&hub, &token).await;
    let listed = hub.get("/v1/tokens").await.expect(200);
    let id = listed["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .find(|token| token["name"] == "ops")
        .unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(!is_sign_in(&browser.get("/").await));
    let path = format!("/v1/tokens/{id}");
    hub.delete(&path).await.expect(204);
    assert!(is_sign_in(&browser.get("/").await));
}

#[tokio::test]
async fn a_link_signs_in_once() {
    let hub = TestHub::new().await;
    let made = hub.request(&hub.admin, Method::POST, "/v1/sign-in-links");
    let made = hub.send(made).await.expect(201);
    let url = made["url"].as_str().unwrap();
    let (place, code) = url.split_once("#code=").unwrap();
    assert_eq!(place, format!("{}/sign-in", hub.url));
    let browser = stranger(&hub);
    let first = browser.post("/sign-in", &[("code", code)]).await;
    let cookie = first.expect_status(303).headers[header::SET_COOKIE].clone();
    let cookie = cookie.to_str().unwrap().split(';').next().unwrap();
    let signed_in = stranger(&hub).with_cookie(cookie);
    assert!(!is_sign_in(&signed_in.get("/").await));
    let second = browser.post("/sign-in", &[("code", code)]).await;
    assert_eq!(second.status, 401);
    second.assert_shows("hermes hub login-link");
    // It is nobody's token.
    let tenants = hub.request(code, Method::GET, "/v1/tenants");
    hub.send(tenants).await.expect(401);
}

#[tokio::test]
async fn cookies_open_the_console_and_nothing_else() {
    let hub = TestHub::new().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    for path in ["/v1/tenants", "/mcp"] {
        let page = admin.send(admin.request(Method::GET, path)).await;
        assert_eq!(page.status, 401, "{path}: {}", page.text);
    }
}

#[tokio::test]
async fn a_form_that_is_sent_twice_is_done_once() {
    let hub = TestHub::new().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let form = [("id", "acme"), ("once", "0123456789"), ("next", "/tenants")];
    let (one, other) = tokio::join!(
        admin.submit("/do/create_tenant", &form),
        admin.submit("/do/create_tenant", &form)
    );
    // Twice at once, the second waits for the first or is told that it goes on.
    let statuses = [one.status, other.status];
    assert!(statuses.contains(&200), "{} {}", one.text, other.text);
    assert!(
        statuses.iter().all(|status| [200, 409].contains(status)),
        "{statuses:?}"
    );
    let again = admin.submit("/do/create_tenant", &form).await;
    again.expect_status(200).assert_shows("acme");
    let tenants = hub.get("/v1/tenants").await.expect(200);
    assert_eq!(tenants["tenants"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn sessions_live_through_a_restart_of_the_hub() {
    let mut hub = TestHub::new().await;
    let (_, id) = session_that(&hub, Time::now().after(Duration::from_hours(1))).await;
    hub.restart().await;
    let listed = hub.get("/v1/console-sessions").await.expect(200);
    assert_eq!(listed["sessions"][0]["sessionId"], id.as_str(), "{listed}");
}

#[tokio::test]
async fn the_language_is_the_one_that_is_preferred_until_another_is_chosen() {
    let hub = TestHub::new().await;
    let german = ConsoleBrowser::as_admin(&hub).await.speaking("de-AT");
    german.get("/").await.assert_shows("<html lang=\"de\">");
    let page = german
        .post("/language", &[("to", "en"), ("next", "/")])
        .await;
    let cookie = page.expect_status(303).headers[header::SET_COOKIE].clone();
    let cookie = cookie.to_str().unwrap().split(';').next().unwrap();
    let both = format!("{}; {cookie}", german.cookie());
    let english = stranger(&hub).speaking("de-AT").with_cookie(&both);
    english.get("/").await.assert_shows("<html lang=\"en\">");
    let page = german
        .post("/language", &[("to", "../x"), ("next", "//evil")])
        .await;
    assert!(!page.headers.contains_key(header::SET_COOKIE));
    assert_eq!(page.headers[header::LOCATION], "/");
}

#[tokio::test]
async fn a_link_signs_in_without_scripts_by_its_code() {
    let hub = TestHub::new().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let page = admin.get("/sessions").await.expect_status(200);
    let made = page.form("create_sign_in_link", &["show"]);
    let made = made.submit(&admin).await.expect_status(200);
    let (_, rest) = made.text.split_once("#code=").unwrap();
    let code: String = rest
        .chars()
        .take_while(|letter| letter.is_ascii_alphanumeric() || "_-".contains(*letter))
        .collect();
    let stranger = stranger(&hub);
    let asked = stranger.get("/sign-in").await.expect_status(200);
    let (_, hidden) = asked.text.split_once("<noscript>").unwrap();
    let (form, _) = hidden.split_once("</noscript>").unwrap();
    assert!(form.contains("name=\"code\" required"), "{form}");
    assert!(form.contains("#code="), "{form}");
    let fields = [("code", code.as_str()), ("next", "/tenants")];
    let signed_in = stranger.post("/sign-in", &fields).await;
    assert_eq!(signed_in.status, 303, "{}", signed_in.text);
    assert_eq!(signed_in.headers[header::LOCATION], "/tenants");
}

#[tokio::test]
async fn a_link_that_is_too_old_is_refused() {
    let hub = TestHub::new().await;
    let whoami = hub.get("/v1/whoami").await.expect(200);
    let token = TokenId::parse(whoami["tokenId"].as_str().unwrap()).unwrap();
    let past = Time::now().before(Duration::from_secs(1));
    let entry = NewAuditEntry::by_hub("create_sign_in_link");
    let hash = KeyHash::from_key("old");
    let added = hub.hub.state().add_sign_in_link(&hash, &token, past, entry);
    added.await.unwrap();
    let page = stranger(&hub).post("/sign-in", &[("code", "old")]).await;
    assert_eq!(page.status, 401, "{}", page.text);
    page.assert_shows("too old");
}

#[tokio::test]
async fn a_stolen_cookie_is_of_no_use_where_its_token_is_not() {
    let hub = TestHub::with_settings(|settings, _| {
        settings.trust_proxy = vec!["127.0.0.0/8".into()];
    })
    .await;
    let rights = json!({"name": "office", "role": "viewer", "cidrs": ["10.0.0.0/8"]});
    let token = hub.token(rights).await;
    let browser = stranger(&hub);
    let sign_in = browser
        .request(Method::POST, "/sign-in")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header("sec-fetch-site", "same-origin")
        .header("x-forwarded-for", "10.0.0.1")
        .body(format!("token={token}"));
    let page = browser.send(sign_in).await.expect_status(303);
    let cookie = page.headers[header::SET_COOKIE].to_str().unwrap();
    let browser = browser.with_cookie(cookie.split(';').next().unwrap());
    let from = async |address: &str| {
        let request = browser.request(Method::GET, "/");
        let request = request.header("x-forwarded-for", address);
        browser.send(request).await.status
    };
    assert_eq!(from("10.0.0.1").await, 200);
    assert_eq!(from("192.0.2.1").await, 303);
}
