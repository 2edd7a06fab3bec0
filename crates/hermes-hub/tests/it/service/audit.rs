//! A changed audit log: verification names the first changed entry.

use serde_json::{Value, json};

use crate::{hub::lifecycle::run_sql, test_hub::TestHub};

async fn broken_chain(site: &TestHub) -> Value {
    let verified = site.get("/v1/audit/verify").await.expect(200);
    assert_eq!(verified["ok"], false, "{verified}");
    verified["chains"][0].clone()
}

#[tokio::test]
async fn the_first_entry_that_is_not_as_it_was_written_is_named() {
    let mut site = TestHub::new().await;
    for tenant in ["a", "b", "c"] {
        site.tenant(json!({"id": tenant})).await;
    }
    assert_eq!(site.get("/v1/audit/verify").await.expect(200)["ok"], true);
    let made = site.get("/v1/audit?action=create_tenant").await.expect(200);
    let made = made["entries"].as_array().unwrap();
    assert_eq!(made.len(), 3, "{made:?}");
    // Newest first, so that each is the first changed entry so far.
    for entry in &made[..2] {
        let seq = &entry["seq"];
        let one_byte = format!(
            "UPDATE audit SET text = replace(text, '\"create_', '\"Create_') WHERE seq = {seq}"
        );
        run_sql(&site, &one_byte).await;
        let chain = broken_chain(&site).await;
        assert_eq!(&chain["firstBrokenSeq"], seq, "{chain}");
        assert_ne!(chain["reason"], Value::Null, "{chain}");
    }
    // Neither a restart nor later entries hide it.
    let before = broken_chain(&site).await;
    site.restart().await;
    site.tenant(json!({"id": "d"})).await;
    let made = site.get("/v1/audit?action=create_tenant").await.expect(200);
    assert_eq!(made["entries"].as_array().unwrap().len(), 4, "{made}");
    let after = broken_chain(&site).await;
    assert_eq!(after["firstBrokenSeq"], before["firstBrokenSeq"], "{after}");
}
