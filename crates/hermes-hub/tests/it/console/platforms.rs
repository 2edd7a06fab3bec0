//! The page of messaging platforms: secrets go in and never out, and people are let in by a code.

use hermes_config::Home;
use hermes_store::pairing::{CodeOffer, PairingStore};
use serde_json::json;

use super::ConsoleBrowser;
use crate::test_hub::TestHub;

const PAGE: &str = "/tenants/acme/platforms";
const TOKEN: &str = "123456:secret-token-abcd";

async fn site() -> TestHub {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "acme", "start": false})).await;
    site
}

#[tokio::test]
async fn a_platform_is_connected_changed_and_removed_and_its_token_is_never_shown() {
    let site = site().await;
    let admin = ConsoleBrowser::as_admin(&site).await;
    let page = admin.get(PAGE).await.expect_status(200);
    page.assert_shows("not connected");
    page.assert_shows("BotFather");
    let fields = [
        ("tenant_id", "acme"),
        ("next", PAGE),
        ("platform", "telegram"),
        ("token", TOKEN),
        ("allow_from", "12345\r\n678"),
        ("unauthorized_dm", "ignore"),
    ];
    let page = admin
        .submit("/do/put_platform", &fields)
        .await
        .expect_status(200);
    page.assert_shows("…abcd");
    page.assert_shows("<code>678</code>");
    page.assert_lacks(TOKEN);
    // Without a token, it stays; what is not given goes back to its default.
    let fields = [
        ("tenant_id", "acme"),
        ("next", PAGE),
        ("platform", "telegram"),
        ("token", ""),
        ("allow_all_users", "true"),
    ];
    let page = admin
        .submit("/do/put_platform", &fields)
        .await
        .expect_status(200);
    page.assert_shows("…abcd");
    page.assert_shows("everybody");
    let fields = [
        ("tenant_id", "acme"),
        ("next", PAGE),
        ("platform", "telegram"),
    ];
    let page = admin
        .submit("/do/delete_platform", &fields)
        .await
        .expect_status(200);
    page.assert_lacks("…abcd");
    let viewer = ConsoleBrowser::with_rights(&site, json!({"role": "viewer"})).await;
    let page = viewer.get(PAGE).await.expect_status(200);
    for absent in [
        "put_platform",
        "delete_platform",
        "approve_pairing",
        "type=\"password\"",
    ] {
        page.assert_lacks(absent);
    }
}

#[tokio::test]
async fn somebody_is_let_in_by_a_code_and_shut_out_again() {
    let site = site().await;
    let admin = ConsoleBrowser::as_admin(&site).await;
    let store = PairingStore::new(&Home::at(site.home("acme")));
    let name = "<img src=x>";
    let CodeOffer::Issued(code) = store.request_code("telegram", "5", name).unwrap() else {
        panic!("no code");
    };
    let page = admin.get(PAGE).await.expect_status(200);
    page.assert_shows("Waiting");
    page.assert_lacks(code.expose());
    page.assert_lacks(name);
    let fields = [
        ("tenant_id", "acme"),
        ("next", PAGE),
        ("account", "telegram"),
        ("code", code.expose().as_str()),
    ];
    let page = admin
        .submit("/do/approve_pairing", &fields)
        .await
        .expect_status(200);
    page.assert_shows("They may use the bot now.");
    page.assert_shows("/do/revoke_pairing");
    assert!(store.is_approved("telegram", "5"));
    let fields = [
        ("tenant_id", "acme"),
        ("next", PAGE),
        ("account", "telegram"),
        ("user_id", "5"),
    ];
    let page = admin
        .submit("/do/revoke_pairing", &fields)
        .await
        .expect_status(200);
    page.assert_lacks("/do/revoke_pairing");
    assert!(!store.is_approved("telegram", "5"));
}
