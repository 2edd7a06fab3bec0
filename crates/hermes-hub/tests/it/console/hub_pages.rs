//! Nodes, webhooks, events, and how programs connect.

use reqwest::{Method, header};
use serde_json::json;

use super::ConsoleBrowser;
use crate::test_hub::TestHub;

#[tokio::test]
async fn the_only_node_is_shown_and_cannot_be_drained() {
    let hub = TestHub::new().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let page = admin.get("/nodes").await.expect_status(200);
    page.assert_shows("This Hub runs on one node.");
    page.assert_lacks("/do/drain_node");
}

#[tokio::test]
async fn programs_get_this_hubs_address_and_no_token() {
    let hub = TestHub::new().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let page = admin.get("/connect").await.expect_status(200);
    for program in [
        "Claude Code",
        "Claude Desktop",
        "Cursor",
        "VS Code",
        "Codex",
        "curl",
    ] {
        page.assert_shows(program);
    }
    page.assert_shows("/mcp");
    page.assert_shows("YOUR_TOKEN");
    page.assert_lacks(&hub.admin);
}

#[tokio::test]
async fn a_webhook_shows_its_secret_once_and_what_was_sent_to_it() {
    let hub = TestHub::with_settings(|settings, _| settings.allow_private_webhooks = true).await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let list = admin.get("/webhooks").await.expect_status(200);
    list.assert_shows("No webhook yet.");
    let fields = [
        ("url", "http://127.0.0.1:9/x?<script>"),
        ("events", "run.ended"),
        ("events", "tenant.failed"),
        ("show", "1"),
        ("next", "/webhooks"),
    ];
    let made = admin
        .submit("/do/create_webhook", &fields)
        .await
        .expect_status(200);
    made.assert_shows("whsec_");
    made.assert_lacks("?<script>");
    let list = admin.get("/webhooks").await.expect_status(200);
    list.assert_lacks("whsec_");
    list.assert_lacks("?<script>");
    let links = list.links();
    let own = links
        .iter()
        .find(|link| link.starts_with("/webhooks/"))
        .unwrap();
    let id = own.strip_prefix("/webhooks/").unwrap();
    let fields = [("webhook_id", id), ("next", own.as_str())];
    let tested = admin
        .submit("/do/test_webhook", &fields)
        .await
        .expect_status(200);
    tested.assert_shows("webhook.test");
    tested.assert_lacks("whsec_");
    let fields = [
        ("webhook_id", id),
        ("enabled", "false"),
        ("next", own.as_str()),
    ];
    let off = admin
        .submit("/do/update_webhook", &fields)
        .await
        .expect_status(200);
    off.assert_lacks("/do/test_webhook");
    let viewer = ConsoleBrowser::with_rights(&hub, json!({"role": "viewer"})).await;
    let seen = viewer.get(own).await.expect_status(200);
    for form in ["/do/update_webhook", "/do/delete_webhook", "/do/redeliver"] {
        seen.assert_lacks(form);
    }
    let fields = [("webhook_id", id), ("next", "/webhooks")];
    let gone = admin
        .submit("/do/delete_webhook", &fields)
        .await
        .expect_status(200);
    gone.assert_shows("No webhook yet.");
}

#[tokio::test]
async fn what_happened_last_comes_first_and_only_of_tenants_that_may_be_seen() {
    let hub = TestHub::new().await;
    for id in ["acme", "beta"] {
        hub.tenant(json!({"id": id, "start": false})).await;
    }
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let page = admin.get("/events").await.expect_status(200);
    let newest = page.text.find("<bdi>beta</bdi>").unwrap();
    let oldest = page.text.find("<bdi>acme</bdi>").unwrap();
    assert!(newest < oldest);
    let found = admin.get("/events?tenant=acme&type=tenant.created").await;
    found.assert_shows("<bdi>acme</bdi>");
    found.assert_lacks("<bdi>beta</bdi>");
    let rights = json!({"role": "viewer", "tenants": ["acme"]});
    let bound = ConsoleBrowser::with_rights(&hub, rights).await;
    let page = bound.get("/events").await.expect_status(200);
    page.assert_lacks("beta");
}

#[tokio::test]
async fn files_of_pages_are_compressed_for_browsers_that_take_it() {
    let hub = TestHub::new().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let page = admin.get("/").await.expect_status(200);
    let scripts = page.attributes("src").into_iter();
    let scripts: Vec<String> = scripts.filter(|address| address.contains(".js")).collect();
    assert!(scripts.len() > 1, "{scripts:?}");
    for script in scripts {
        let ask = async |accepted: &str| {
            let request = admin.request(Method::GET, &script);
            let request = request.header(header::ACCEPT_ENCODING, accepted);
            let answer = request.send().await.unwrap();
            assert_eq!(answer.status(), 200, "{script}");
            assert_eq!(answer.headers()[header::VARY], "accept-encoding");
            let encoding = answer.headers().get(header::CONTENT_ENCODING).cloned();
            (encoding, answer.bytes().await.unwrap())
        };
        let (encoding, packed) = ask("gzip, deflate, br, zstd").await;
        assert_eq!(encoding.unwrap(), "zstd");
        for refused in ["gzip, br", "br, zstd;q=0", "identity"] {
            let (encoding, plain) = ask(refused).await;
            assert!(encoding.is_none(), "{refused}");
            assert!(packed.len() * 2 < plain.len(), "{script}");
            let unpacked = zstd::bulk::decompress(&packed, plain.len()).unwrap();
            assert_eq!(unpacked, plain, "{script}");
        }
    }
    // Beside the token of the forms, the length of a text of others would tell of both.
    let request = admin.request(Method::GET, "/");
    let page = request.header(header::ACCEPT_ENCODING, "zstd").send().await;
    assert!(
        !page
            .unwrap()
            .headers()
            .contains_key(header::CONTENT_ENCODING)
    );
}
