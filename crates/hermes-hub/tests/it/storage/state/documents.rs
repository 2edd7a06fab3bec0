//! Documents with revisions.

use hermes_hub::storage::state::{AppliedCounts, DocumentKind, Page, StateError, TenantDeletion};
use serde_json::json;

use super::{StateFixture, entry, tenant_id};

#[tokio::test]
async fn every_revision_is_kept_and_the_newest_holds() {
    let mut fresh = StateFixture::new().await;
    let kind = DocumentKind::Policy;
    assert!(fresh.state.document(kind).await.unwrap().is_none());
    for number in 1..=3 {
        let content = json!({ "version": number, "x-kept": 1.5 });
        let document = fresh
            .state
            .put_document(
                kind,
                content,
                "tok_7",
                Some(number - 1),
                entry("put_agent_policy"),
            )
            .await
            .unwrap();
        assert_eq!(document.revision, number);
    }
    fresh.reopen().await;
    let state = &fresh.state;
    let newest = state.document(kind).await.unwrap().unwrap();
    assert_eq!(newest.content, json!({ "version": 3, "x-kept": 1.5 }));
    let first = state.document_revision(kind, 1).await.unwrap().unwrap();
    assert_eq!(first.content["version"], 1);
    let page = state
        .document_revisions(kind, &Page::first(2))
        .await
        .unwrap();
    let rest = Page::after(2, page.next.unwrap());
    let rest = state.document_revisions(kind, &rest).await.unwrap();
    let revisions: Vec<_> = page
        .items
        .iter()
        .chain(&rest.items)
        .map(|one| one.revision)
        .collect();
    assert_eq!(revisions, [3, 2, 1]);
    assert!(
        state
            .document(DocumentKind::Specialization)
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn of_two_who_write_from_one_revision_one_is_told() {
    let fresh = StateFixture::new().await;
    let put = |content| {
        fresh.state.put_document(
            DocumentKind::TenantImpact,
            content,
            "tok_7",
            Some(0),
            entry("patch_tenant_impact_config"),
        )
    };
    let (one, other) = tokio::join!(put(json!(1)), put(json!(2)));
    let refused = match (one, other) {
        (Ok(_), Err(error)) | (Err(error), Ok(_)) => error,
        both => panic!("{both:?}"),
    };
    assert!(matches!(refused, StateError::Changed { .. }));
}

#[tokio::test]
async fn tenants_that_work_with_a_revision_are_counted() {
    let fresh = StateFixture::new().await;
    for id in ["a", "b", "c"] {
        fresh.tenant(id).await;
    }
    let state = &fresh.state;
    let kind = DocumentKind::Specialization;
    let mark = |id: &str, revision| {
        let id = tenant_id(id);
        async move { state.mark_applied(&id, kind, revision).await.unwrap() }
    };
    mark("a", 1).await;
    mark("b", 2).await;
    let count = |applied, pending| AppliedCounts { applied, pending };
    assert_eq!(state.applied(kind, 1).await.unwrap(), count(2, 1));
    assert_eq!(state.applied(kind, 2).await.unwrap(), count(1, 2));
    mark("a", 2).await;
    assert_eq!(state.applied(kind, 2).await.unwrap(), count(2, 1));
    // A deleted tenant is none of them, whether it worked with the revision or not.
    for (id, left) in [("a", count(1, 1)), ("c", count(1, 0))] {
        let (id, deletion) = (tenant_id(id), TenantDeletion::Restorable);
        let deleted = state.delete_tenant(&id, deletion, None, entry("delete_tenant"));
        deleted.await.unwrap();
        assert_eq!(state.applied(kind, 2).await.unwrap(), left);
    }
}
