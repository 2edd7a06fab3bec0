//! The core: recovery after a crash, deferred work, quotas, agents that are always on.

pub(crate) mod always_on;
pub(crate) mod crash_recovery;
pub(crate) mod home_quota;
pub(crate) mod lifecycle;
pub(crate) mod logins;

use serde_json::{Value, json};

use crate::test_hub::TestHub;

// The cache of tenants never returns outdated data.

const TENANT: &str = "/v1/tenants/a";

async fn tenant(site: &TestHub) -> Value {
    // The second read uses the cache.
    site.get(TENANT).await.expect(200);
    site.get(TENANT).await.expect(200)
}

#[tokio::test]
async fn a_read_sees_every_change_before_it() {
    let site = TestHub::new().await;
    site.post("/v1/groups", &json!({"id": "team"}))
        .await
        .expect(201);
    site.tenant(json!({"id": "a", "displayName": "A"})).await;
    assert_eq!(tenant(&site).await["displayName"], "A");

    site.patch(TENANT, &json!({"displayName": "B"}))
        .await
        .expect(200);
    assert_eq!(tenant(&site).await["displayName"], "B");

    let member = "/v1/groups/team/members/a";
    site.put(member, &json!({"access": "read"})).await;
    assert_eq!(tenant(&site).await["groups"][0]["id"], "team");
    site.delete(member).await;
    assert_eq!(tenant(&site).await["groups"], json!([]));

    let before = tenant(&site).await["generation"].as_u64().unwrap();
    site.put(&format!("{TENANT}/env/NAME"), &json!({"value": "x"}))
        .await;
    assert!(tenant(&site).await["generation"].as_u64().unwrap() > before);

    // A changed document changes no tenant's record, but what is shown of each.
    let config = "/v1/config/tenant-impact";
    for seconds in [61, 62] {
        let impact = json!({"agent": {"idleStopSeconds": seconds}});
        site.patch(config, &impact).await.expect(200);
        assert_eq!(tenant(&site).await["agent"]["idleStopSeconds"], seconds);
    }

    let blocked = json!({"status": "blocked"});
    site.put(&format!("{TENANT}/access"), &blocked)
        .await
        .expect(200);
    assert_eq!(tenant(&site).await["access"]["status"], "blocked");
    let refused = site
        .post(&format!("{TENANT}/runs"), &json!({"input": "hi"}))
        .await;
    assert_eq!(refused.status, 403, "{}", refused.text);

    site.delete(TENANT).await;
    assert_eq!(site.get(TENANT).await.status, 404);
}
