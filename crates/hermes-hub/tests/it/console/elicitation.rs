//! Forms that MCP servers ask to be filled in: on the page of the run, in the chat box and in the inbox.

use serde_json::{Value, json};

use super::{
    ConsoleBrowser, ConsolePage,
    runs::{reach, scripted_hub, start_run},
};
use crate::test_hub::TestHub;

/// The only approval that waits.
async fn waiting_form(hub: &TestHub) -> Value {
    let waiting = hub.get("/v1/approvals").await.expect(200);
    let waiting = waiting["approvals"].as_array().unwrap().clone();
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    waiting[0].clone()
}

/// Sends the answers of the form that a page shows, with these fields.
async fn fill_in(
    browser: &ConsoleBrowser,
    page: &ConsolePage,
    id: &str,
    fields: &[(&str, &str)],
) -> ConsolePage {
    let schema = page.attributes("value");
    let schema = schema.iter().find(|value| value.contains("properties"));
    let next = page.address.as_str();
    let mut all = vec![
        ("approval_id", id),
        ("choice", "once"),
        ("content:form", schema.unwrap().as_str()),
        ("next", next),
    ];
    all.extend_from_slice(fields);
    browser.submit("/do/respond_approval", &all).await
}

async fn output(hub: &TestHub, run: &str) -> String {
    reach(hub, "acme", run, "completed").await;
    let run = hub.get(&format!("/v1/tenants/acme/runs/{run}")).await;
    run.expect(200)["output"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_form_is_filled_in_on_the_page_of_its_run() {
    let (hub, _) = scripted_hub().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let run = start_run(&hub, "acme", "form=name").await;
    let page = reach(&hub, "acme", &run, "waiting_for_approval").await;
    let shown = admin.get(&page).await.expect_status(200);
    for text in [
        "The server people asks for data",
        "Who are you?",
        "name=\"arg.name\"",
        "minlength=\"2\"",
        "Your age &#60;b&#62;",
        "value=\"36\"",
        "type=\"number\"",
        ">Blue</option>",
        "type=\"checkbox\" name=\"arg.days\" value=\"tu\"",
        "Send the answers",
        "Decline",
        "Leave it without an answer",
    ] {
        shown.assert_shows(text);
    }
    // A plain yes says too little.
    shown.assert_lacks("Allow once");
    let waiting = waiting_form(&hub).await;
    assert_eq!(waiting["form"]["server"], "people");
    assert_eq!(waiting["choices"], json!(["deny"]));
    let id = waiting["approvalId"].as_str().unwrap();
    let bare = json!({"choice": "once"});
    let bare = hub.post(&format!("/v1/approvals/{id}"), &bare).await;
    assert_eq!(bare.expect(422)["details"][0]["field"], "content");
    let wrong = fill_in(
        &admin,
        &shown,
        id,
        &[("arg.name", "Ada"), ("arg.age", "old")],
    )
    .await;
    let wrong = wrong.expect_status(400);
    wrong.assert_shows("age: This is not a whole number.");
    let short = fill_in(&admin, &shown, id, &[("arg.name", "A")]).await;
    short
        .expect_status(422)
        .assert_shows("needs at least 2 characters");
    waiting_form(&hub).await;
    let fields = [
        ("arg.name", "Ada <i>"),
        ("arg.age", "40"),
        ("arg.colour", "b"),
        ("arg.days", "mo"),
        ("arg.days", "tu"),
    ];
    let after = fill_in(&admin, &shown, id, &fields).await;
    after.expect_status(200);
    let said = output(&hub, &run).await;
    let content = said.strip_prefix("once").unwrap();
    let content: Value = serde_json::from_str(content).unwrap();
    let wanted = json!({"name": "Ada <i>", "age": 40, "colour": "b", "days": ["mo", "tu"]});
    assert_eq!(content, wanted);
    // The answers are nobody else's.
    let audit = hub.get("/v1/audit").await.expect(200).to_string();
    assert!(!audit.contains("Ada <i>"), "{audit}");
    let events = admin.get(&page).await.expect_status(200);
    events.assert_lacks("respond_approval");
}

#[tokio::test]
async fn a_form_is_declined_or_left_in_the_chat_box() {
    let (hub, _) = scripted_hub().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    for (cancel, told) in [(None, "deny"), (Some("true"), "deny cancelled")] {
        let run = start_run(&hub, "acme", "form=name").await;
        reach(&hub, "acme", &run, "waiting_for_approval").await;
        let chat = format!("/tenants/acme/chat?session=s&run={run}");
        let shown = admin.get(&chat).await.expect_status(200);
        shown.assert_shows("name=\"arg.name\"");
        shown.assert_shows("name=\"cancel\" value=\"true\"");
        let waiting = waiting_form(&hub).await;
        let id = waiting["approvalId"].as_str().unwrap();
        let mut fields = vec![("approval_id", id), ("choice", "deny"), ("next", "/")];
        fields.extend(cancel.map(|cancel| ("cancel", cancel)));
        let after = admin.submit("/do/respond_approval", &fields).await;
        after.expect_status(200);
        assert_eq!(output(&hub, &run).await, told);
    }
}

#[tokio::test]
async fn a_page_that_a_server_wants_to_be_opened_is_linked_and_confirmed() {
    const PAGE: &str = "https://login.example.com/start?next=_a_&b=1";
    let (hub, _) = scripted_hub().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let viewer = ConsoleBrowser::with_rights(&hub, json!({"role": "viewer"})).await;
    for (choice, cancel, told) in [
        ("once", None, "once"),
        ("deny", None, "deny"),
        ("deny", Some("true"), "deny cancelled"),
    ] {
        let run = start_run(&hub, "acme", &format!("page={PAGE}")).await;
        let page = reach(&hub, "acme", &run, "waiting_for_approval").await;
        let chat = format!("/tenants/acme/chat?session=s&run={run}");
        for place in [page.as_str(), chat.as_str(), "/approvals"] {
            let shown = admin.get(place).await.expect_status(200);
            shown.assert_shows("The server people asks you to open a page");
            shown.assert_shows("Log in &#60;b&#62;there&#60;/b&#62;.");
            shown.assert_shows("Open login.example.com");
            assert!(shown.attributes("href").iter().any(|link| link == PAGE));
            shown.assert_shows("target=\"_blank\" rel=\"noopener noreferrer\"");
            shown.assert_lacks("content:form");
            // Who may not decide sees what is asked.
            let seen = viewer.get(place).await;
            assert!(!seen.attributes("href").iter().any(|link| link == PAGE));
            if place != chat {
                seen.assert_shows("<code>https://login.example.com/start?next=_a_&#38;b=1</code>");
            }
        }
        let waiting = waiting_form(&hub).await;
        assert_eq!(waiting["form"]["url"], PAGE);
        let id = waiting["approvalId"].as_str().unwrap();
        let filled = json!({"choice": "once", "content": {}});
        let path = format!("/v1/approvals/{id}");
        hub.post(&path, &filled).await.expect(422);
        let mut fields = vec![("approval_id", id), ("choice", choice), ("next", "/")];
        fields.extend(cancel.map(|cancel| ("cancel", cancel)));
        let after = admin.submit("/do/respond_approval", &fields).await;
        after.expect_status(200);
        assert_eq!(output(&hub, &run).await, told);
    }
}

#[tokio::test]
async fn what_is_not_a_page_of_the_web_is_shown_and_not_linked() {
    let (hub, _) = scripted_hub().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let run = start_run(&hub, "acme", "page=javascript:alert(1)").await;
    let page = reach(&hub, "acme", &run, "waiting_for_approval").await;
    for place in [page.as_str(), "/approvals"] {
        let shown = admin.get(place).await.expect_status(200);
        shown.assert_shows("<code>javascript:alert(1)</code>");
        let links = shown.attributes("href");
        assert!(
            !links.iter().any(|link| link.starts_with("javascript")),
            "{links:?}"
        );
    }
}

#[tokio::test]
async fn the_inbox_has_forms_apart_from_what_takes_a_yes() {
    let (hub, _) = scripted_hub().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    for _ in 0..2 {
        let run = start_run(&hub, "acme", "form=").await;
        reach(&hub, "acme", &run, "waiting_for_approval").await;
    }
    let inbox = admin.get("/approvals").await.expect_status(200);
    let forms = inbox.attributes("id").into_iter();
    let forms: Vec<_> = forms.filter(|id| id.starts_with("answer-")).collect();
    assert_eq!(forms.len(), 2, "each form is answered by itself");
    inbox.assert_lacks("name=\"each\"");
    let viewer = ConsoleBrowser::with_rights(&hub, json!({"role": "viewer"})).await;
    let seen = viewer.get("/approvals").await.expect_status(200);
    seen.assert_shows("Who are you?");
    seen.assert_lacks("/do/respond_approval");
    seen.assert_lacks("arg.age");
}

#[tokio::test]
async fn answers_go_only_to_forms_and_with_a_choice_that_fits() {
    let (hub, _) = scripted_hub().await;
    let run = start_run(&hub, "acme", "ask=rm").await;
    reach(&hub, "acme", &run, "waiting_for_approval").await;
    let path = format!("/v1/tenants/acme/runs/{run}/approval");
    for (decision, status) in [
        (json!({"choice": "once", "content": {"name": "Ada"}}), 422),
        (json!({"choice": "deny", "cancel": true}), 422),
        (json!({"choice": "deny", "content": {}}), 400),
        (json!({"choice": "once", "cancel": true}), 400),
        (json!({"choice": "once", "all": true, "content": {}}), 400),
        (json!({"choice": "once", "content": "Ada"}), 400),
    ] {
        hub.post(&path, &decision).await.expect(status);
    }
    hub.post(&path, &json!({"choice": "once"}))
        .await
        .expect(200);
    assert_eq!(output(&hub, &run).await, "once");
}
