//! Groups, their members, and what each role may do with them.

use serde_json::json;

use super::ConsoleBrowser;
use crate::test_hub::TestHub;

#[tokio::test]
async fn a_group_is_made_filled_changed_and_deleted() {
    let hub = TestHub::new().await.with_examples().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let fields = [
        ("id", "writers"),
        ("displayName", "<b>Writers</b>"),
        ("kind", "team"),
        ("quotaBytes", "1048576"),
        ("next", "/groups/{id}"),
    ];
    let page = admin.submit("/do/create_group", &fields).await;
    let page = page.expect_status(200);
    assert!(page.address.starts_with("/groups/writers?"), "{page:?}");
    page.assert_lacks("<b>Writers");
    page.assert_shows("1 MiB");
    page.assert_shows("No tenant is a member yet.");
    let member = [
        ("group_id", "writers"),
        ("member_id", "tenant_123"),
        ("access", "read"),
        ("next", "/groups/writers"),
    ];
    let page = admin.submit("/do/put_member", &member).await;
    page.assert_shows("/groups/writers/files?tenant=tenant_123");
    let files = admin.get("/groups/writers/files").await.expect_status(200);
    files.assert_lacks("files/upload");
    let member = [member[0], member[1], ("access", "write"), member[3]];
    admin
        .submit("/do/put_member", &member)
        .await
        .expect_status(200);
    let files = admin.get("/groups/writers/files").await.expect_status(200);
    files.assert_shows("files/upload");
    let list = admin.get("/groups").await.expect_status(200);
    list.assert_shows("Division 1");
    list.assert_shows("href=\"/groups/writers\"");
    let gone = [member[0], member[1], member[3]];
    let page = admin.submit("/do/remove_member", &gone).await;
    page.assert_lacks("/groups/writers/files?tenant=tenant_123");
    let page = admin.get("/groups/division1").await;
    page.assert_shows("These tenants lose its files: tenant_123");
    let deletion = [
        ("group_id", "writers"),
        ("force", "true"),
        ("next", "/groups"),
    ];
    let page = admin.submit("/do/delete_group", &deletion).await;
    page.assert_lacks("href=\"/groups/writers\"");
}

#[tokio::test]
async fn a_group_without_members_says_what_its_files_need() {
    let hub = TestHub::new().await;
    hub.post("/v1/groups", &json!({"id": "empty"}))
        .await
        .expect(201);
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let page = admin.get("/groups/empty").await.expect_status(200);
    page.assert_lacks("/groups/empty/files");
    let page = admin.get("/groups/empty/files").await;
    page.assert_shows("add one, then its files can be seen");
    admin.get("/groups/none").await.expect_status(404);
}

#[tokio::test]
async fn whoever_may_not_change_groups_sees_no_way_to() {
    let hub = TestHub::new().await.with_examples().await;
    for rights in [
        json!({"role": "viewer"}),
        json!({"role": "operator", "tenants": ["tenant_123"]}),
    ] {
        let reader = ConsoleBrowser::with_rights(&hub, rights).await;
        for address in ["/groups", "/groups/division1"] {
            let page = reader.get(address).await.expect_status(200);
            for form in [
                "create_group",
                "update_group",
                "delete_group",
                "put_member",
                "remove_member",
            ] {
                page.assert_lacks(&format!("/do/{form}"));
            }
        }
    }
    let scopes = json!({"scopes": ["tenants:read"]});
    let other = ConsoleBrowser::with_rights(&hub, scopes).await;
    other.get("/groups").await.expect_status(404);
    other
        .get("/groups/division1/files?tenant=tenant_123")
        .await
        .expect_status(404);
}

#[tokio::test]
async fn members_that_a_token_does_not_cover_are_not_named() {
    let hub = TestHub::new().await.with_examples().await;
    hub.tenant(json!({"id": "other", "groups": [{"id": "division1", "access": "read"}]}))
        .await;
    let rights = json!({"role": "viewer", "tenants": ["other"]});
    let bound = ConsoleBrowser::with_rights(&hub, rights).await;
    let page = bound.get("/groups/division1").await.expect_status(200);
    page.assert_shows("other");
    page.assert_lacks("tenant_123");
}
