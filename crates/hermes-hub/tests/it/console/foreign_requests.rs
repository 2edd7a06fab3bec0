//! What comes from elsewhere: every address that changes something, asked by pages of others, and every cookie that is set.

use reqwest::{Method, header};

use super::{ConsoleBrowser, ConsolePage};
use crate::test_hub::TestHub;

/// Every address that takes a form, with fields that would do.
const FORMS: &[(&str, &str)] = &[
    ("/sign-in", "token=x"),
    ("/sign-out", ""),
    ("/language", "to=de&next=/"),
    ("/do/create_tenant", "id=evil"),
    ("/do/delete_tenant", "tenant_id=tenant_123"),
    ("/do/create_token", "name=evil&role=admin"),
    ("/tenants/tenant_123/mcp/demo", "action=test"),
    ("/tenants/tenant_123/files/upload", "directory="),
    (
        "/groups/division1/files/upload?tenant=tenant_123",
        "directory=",
    ),
];

#[tokio::test]
async fn no_form_is_taken_from_another_origin_or_from_a_sibling_port() {
    let hub = TestHub::new().await.with_examples().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let (_, port) = hub.url.rsplit_once(':').unwrap();
    let sibling = format!("http://127.0.0.1:{}", port.parse::<u16>().unwrap() ^ 1);
    let senders: &[&[(&str, &str)]] = &[
        &[
            ("sec-fetch-site", "cross-site"),
            ("origin", "https://evil.example"),
        ],
        &[("sec-fetch-site", "same-site"), ("origin", &sibling)],
        &[("origin", &sibling)],
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
        // Not even one that says nothing about itself.
        &[],
    ];
    let before = hub.get("/v1/tokens").await.expect(200);
    for (path, fields) in FORMS {
        // Its cookie and the token of its forms are known: only where it comes from is wrong.
        let body = format!("{fields}&csrf={}", admin.csrf());
        for sender in senders {
            let mut request = admin
                .request(Method::POST, path)
                .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(body.clone());
            for (name, value) in *sender {
                request = request.header(*name, *value);
            }
            let page = admin.send(request).await;
            assert_eq!(page.status, 403, "{path} {sender:?}: {}", page.text);
            assert!(!page.headers.contains_key(header::SET_COOKIE), "{path}");
        }
        // No link does what a form does.
        let link = format!("{path}{}{body}", if path.contains('?') { '&' } else { '?' });
        let page = admin.send(admin.request(Method::GET, &link)).await;
        assert!(!page.headers.contains_key(header::SET_COOKIE), "{path}");
    }
    assert_eq!(hub.get("/v1/tokens").await.expect(200), before);
    hub.get("/v1/tenants/tenant_123").await.expect(200);
    hub.get("/v1/tenants/evil").await.expect(404);
    assert_eq!(admin.get("/").await.address, "/", "signed out");
}

#[track_caller]
fn assert_guarded(page: &ConsolePage, what: &str, is_secure: bool) {
    let cookies: Vec<_> = page.headers.get_all(header::SET_COOKIE).iter().collect();
    assert!(!cookies.is_empty(), "{what} sets none");
    for cookie in cookies {
        let cookie = cookie.to_str().unwrap();
        let flags: Vec<&str> = cookie.split("; ").skip(1).collect();
        for flag in ["HttpOnly", "SameSite=Strict", "Path=/"] {
            assert!(flags.contains(&flag), "{what}: {cookie}");
        }
        assert!(!cookie.contains("Domain"), "{what}: {cookie}");
        assert_eq!(flags.contains(&"Secure"), is_secure, "{what}: {cookie}");
    }
}

#[tokio::test]
async fn every_cookie_has_its_flags() {
    for public in [None, Some("https://hub.example.com")] {
        let hub = TestHub::with_settings(|settings, _| {
            if let Some(public) = public {
                settings.public_url = public.into();
            }
        })
        .await;
        let is_secure = public.is_some();
        let stranger = ConsoleBrowser::stranger(&hub);
        let by_token = stranger.post("/sign-in", &[("token", &hub.admin)]).await;
        assert_guarded(&by_token, "a sign-in by token", is_secure);
        let made = hub.request(&hub.admin, Method::POST, "/v1/sign-in-links");
        let made = hub.send(made).await.expect(201);
        let (_, code) = made["url"].as_str().unwrap().split_once("#code=").unwrap();
        let by_link = stranger.post("/sign-in", &[("code", code)]).await;
        assert_guarded(&by_link, "a sign-in by link", is_secure);
        let admin = ConsoleBrowser::as_admin(&hub).await;
        let signed_out = admin.post("/sign-out", &[("csrf", admin.csrf())]).await;
        assert_guarded(&signed_out, "a sign-out", is_secure);
        let cookie = signed_out.headers[header::SET_COOKIE].to_str().unwrap();
        assert!(cookie.contains("; Max-Age=0"), "{cookie}");
        let language = stranger
            .post("/language", &[("to", "de"), ("next", "/")])
            .await;
        assert_guarded(&language, "a language", is_secure);
    }
}
