//! Who may write to a tenant's bots, by a code; a tenant that puts links in the place of the files gains nothing.

use std::{fs, os::unix::fs::symlink};

use hermes_config::Home;
use hermes_store::pairing::{CodeOffer, PairingStore};
use serde_json::json;

use crate::test_hub::TestHub;

const PAIRING: &str = "/v1/tenants/acme/pairing";

async fn site() -> TestHub {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "acme", "start": false})).await;
    site
}

/// The store that the tenant's agent uses.
fn agent_store(site: &TestHub) -> PairingStore {
    PairingStore::new(&Home::at(site.home("acme")))
}

fn code_for(store: &PairingStore, user: &str) -> String {
    match store.request_code("telegram", user, "Ann").unwrap() {
        CodeOffer::Issued(code) => code.expose().clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn somebody_is_let_in_by_a_code_and_shut_out_again() {
    let site = site().await;
    let nobody = site.get(PAIRING).await.expect(200);
    assert_eq!(nobody, json!({"pending": [], "approved": []}));
    let store = agent_store(&site);
    let code = code_for(&store, "5");
    let listed = site.get(PAIRING).await;
    assert!(!listed.text.contains(&code), "a code is only for who asked");
    let waiting = &listed.expect(200)["pending"][0];
    assert_eq!(
        (&waiting["account"], &waiting["userId"]),
        (&json!("telegram"), &json!("5"))
    );
    let approve = format!("{PAIRING}/approve");
    let wrong = json!({"account": "telegram", "code": "WRONGWRG"});
    assert_eq!(site.post(&approve, &wrong).await.status, 404);
    let right = json!({"account": "telegram", "code": code});
    let user = site.post(&approve, &right).await.expect(200);
    assert_eq!(
        (&user["userId"], &user["userName"]),
        (&json!("5"), &json!("Ann"))
    );
    assert!(
        store.is_approved("telegram", "5"),
        "the agent knows at once"
    );
    let listed = site.get(PAIRING).await.expect(200);
    assert_eq!(listed["approved"][0]["userId"], "5");
    assert_eq!(listed["pending"], json!([]));
    site.delete(&format!("{PAIRING}/telegram/5"))
        .await
        .expect(204);
    assert!(!store.is_approved("telegram", "5"));
    site.delete(&format!("{PAIRING}/telegram/5"))
        .await
        .expect(404);
}

#[tokio::test]
async fn five_wrong_codes_lock_the_account_for_an_hour() {
    let site = site().await;
    let code = code_for(&agent_store(&site), "5");
    let approve = format!("{PAIRING}/approve");
    let wrong = json!({"account": "telegram", "code": "WRONGWRG"});
    for _ in 0..4 {
        assert_eq!(site.post(&approve, &wrong).await.status, 404);
    }
    let locked = site.post(&approve, &wrong).await;
    assert_eq!(locked.status, 429, "{}", locked.text);
    assert_eq!(locked.json()["reason"], "locked_out");
    let right = json!({"account": "telegram", "code": code});
    assert_eq!(site.post(&approve, &right).await.status, 429);
    for account in ["../x", "fax", "telegram@", "telegram@a/b"] {
        let odd = json!({"account": account, "code": "X"});
        assert_eq!(site.post(&approve, &odd).await.status, 400, "{account}");
    }
}

#[tokio::test]
async fn links_in_the_place_of_the_files_are_not_followed() {
    let site = site().await;
    let outside = site.directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let theirs = r#"{"9": {"user_name": "Eve"}}"#;
    fs::write(outside.join("telegram-approved.json"), theirs).unwrap();
    symlink(&outside, site.home("acme").join("pairing")).unwrap();
    let listed = site.get(PAIRING).await.expect(200);
    assert_eq!(listed["approved"], json!([]));
    let removed = site.delete(&format!("{PAIRING}/telegram/9")).await;
    assert!([404, 409].contains(&removed.status), "{}", removed.text);
    let kept = fs::read_to_string(outside.join("telegram-approved.json")).unwrap();
    assert_eq!(kept, theirs);
}
