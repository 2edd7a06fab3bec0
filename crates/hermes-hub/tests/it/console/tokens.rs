//! Tokens: made, rotated and revoked; their secrets are shown once.

use serde_json::json;

use super::ConsoleBrowser;
use crate::test_hub::TestHub;

const HOSTILE: &str = "<script>alert(1)</script>\u{202e}";

#[tokio::test]
async fn a_secret_is_shown_once_and_works() {
    let hub = TestHub::new().await;
    hub.tenant(json!({"id": "acme", "start": false})).await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let fields = [
        ("name", HOSTILE),
        ("role", "viewer"),
        ("scopes", "runs:write"),
        ("tenants", "acme\r\n"),
        ("cidrs", "127.0.0.0/8\r\n10.0.0.0/8"),
        ("show", "1"),
        ("next", "/tokens"),
    ];
    let made = admin.submit("/do/create_token", &fields).await;
    let made = made.expect_status(200);
    made.assert_shows("This is shown only once.");
    // A page that is read again would lose it.
    made.assert_lacks(" data-live=");
    made.assert_lacks("<script>alert");
    let secret = made.text.split("hub_mgmt_").nth(1).unwrap();
    let end = secret.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let secret = format!("hub_mgmt_{}", &secret[..end.unwrap()]);
    let request = hub.request(&secret, reqwest::Method::GET, "/v1/whoami");
    let who = hub.send(request).await.expect(200);
    assert_eq!(who["tenants"], json!(["acme"]));
    let list = admin.get("/tokens").await.expect_status(200);
    list.assert_lacks(&secret);
    list.assert_lacks("<script>alert");
    list.assert_shows("127.0.0.0/8");
    list.assert_shows("runs:write");
    let tokens = hub.get("/v1/tokens").await.expect(200);
    let tokens = tokens["tokens"].as_array().unwrap().clone();
    let id = tokens
        .iter()
        .find(|token| token["name"] == HOSTILE)
        .unwrap();
    let id = id["id"].as_str().unwrap();
    let fields = [
        ("token_id", id),
        ("grace", "0"),
        ("show", "1"),
        ("next", "/tokens"),
    ];
    let rotated = admin
        .submit("/do/rotate_token", &fields)
        .await
        .expect_status(200);
    rotated.assert_shows("hub_mgmt_");
    rotated.assert_lacks(&secret);
    let request = hub.request(&secret, reqwest::Method::GET, "/v1/whoami");
    assert_eq!(hub.send(request).await.status, 401);
    let fields = [("token_id", id), ("next", "/tokens")];
    let gone = admin
        .submit("/do/revoke_token", &fields)
        .await
        .expect_status(200);
    gone.assert_shows("The token is revoked.");
    gone.assert_lacks(id);
}

#[tokio::test]
async fn tokens_are_absent_for_those_who_may_not_manage_them() {
    let hub = TestHub::new().await;
    hub.tenant(json!({"id": "acme", "start": false})).await;
    for rights in [
        json!({"role": "viewer"}),
        json!({"role": "operator"}),
        json!({"role": "admin", "tenants": ["acme"]}),
    ] {
        let browser = ConsoleBrowser::with_rights(&hub, rights).await;
        assert_eq!(browser.get("/tokens").await.status, 404);
        browser.get("/").await.assert_lacks("href=\"/tokens\"");
        let connect = browser.get("/connect").await.expect_status(200);
        connect.assert_lacks("/tokens");
    }
}
