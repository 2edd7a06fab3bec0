//! What an open page hears of changes, and how soon.

use std::time::{Duration, Instant};

use reqwest::{Method, Response};
use serde_json::json;

use super::ConsoleBrowser;
use crate::test_hub::{TIMEOUT, TestHub};

/// How late a page may hear of a change.
const LATEST: Duration = Duration::from_secs(1);
const CHANGES: usize = 6;

/// The stream of a page that somebody has open.
struct OpenPage {
    response: Response,
    heard: String,
}

impl OpenPage {
    async fn new(browser: &ConsoleBrowser) -> Self {
        let response = browser.request(Method::GET, "/live").send().await.unwrap();
        assert_eq!(response.status(), 200);
        let mut page = Self {
            response,
            heard: String::new(),
        };
        // Its position is sent first.
        page.hear("id: ").await;
        page
    }

    /// Waits for a message with this text.
    async fn hear(&mut self, text: &str) {
        let come = async {
            while !self.heard.contains(text) {
                let part = self.response.chunk().await.unwrap();
                let part = part.expect("the stream has ended");
                self.heard.push_str(&String::from_utf8_lossy(&part));
            }
        };
        let come = tokio::time::timeout(TIMEOUT, come).await;
        assert!(come.is_ok(), "no `{text}` in {}", self.heard);
        self.heard.clear();
    }
}

/// Changes tenants at one Hub, each when the page at another has heard of the one before; the page hears of them in time.
/// Where another node only looked every two seconds, it would have looked just before each change.
pub(crate) async fn assert_changes_are_heard_in_time(changed: &TestHub, watched: &TestHub) {
    for number in 0..CHANGES {
        let tenant = json!({"id": format!("t{number}"), "start": false});
        changed.tenant(tenant).await;
    }
    let admin = ConsoleBrowser::as_admin(watched).await;
    let mut page = OpenPage::new(&admin).await;
    let mut waits = Vec::new();
    for number in 0..CHANGES {
        let path = format!("/v1/tenants/t{number}");
        let name = json!({"displayName": "Changed"});
        let begun = Instant::now();
        changed.patch(&path, &name).await.expect(200);
        page.hear(&format!("\"t{number}\"")).await;
        // When the other node looked before the first change is not known.
        if number > 0 {
            waits.push(begun.elapsed());
        }
    }
    // A machine under load delays some.
    waits.sort_unstable();
    assert!(waits[0] < LATEST, "{waits:?}");
}

#[tokio::test]
async fn an_open_page_hears_of_a_change_within_a_second() {
    let hub = TestHub::new().await;
    assert_changes_are_heard_in_time(&hub, &hub).await;
}
