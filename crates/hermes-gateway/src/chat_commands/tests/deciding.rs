use super::{fake_gateway::FakeGateway, say};
use crate::chat_commands::{ApprovalWord, CommandName, approval_word, execute_approval_word};

#[tokio::test]
async fn approving_takes_the_oldest_or_all() {
    let gateway = FakeGateway::with_waiting(&["rm -r build", "rm -r `x`", "chmod 777 y"]);
    assert_eq!(
        say(&gateway, "/approve").await.text,
        "Allowed once: `rm -r build`"
    );
    assert_eq!(
        say(&gateway, "/approve session").await.text,
        "Allowed in this conversation: `rm -r 'x'`"
    );
    assert_eq!(
        say(&gateway, "/approve always").await.text,
        "Allowed always: `chmod 777 y`"
    );
    assert_eq!(
        say(&gateway, "/approve").await.text,
        "Nothing waits for approval."
    );
    assert_eq!(gateway.done(), ["ap_0 Once", "ap_1 Session", "ap_2 Always"]);
    let gateway = FakeGateway::with_waiting(&["a", "b"]);
    assert_eq!(
        say(&gateway, "/approve all session").await.text,
        "Allowed in this conversation: 2 requests."
    );
    assert_eq!(gateway.done(), ["ap_0 Session", "ap_1 Session"]);
}

#[tokio::test]
async fn what_cannot_be_allowed_always_is_allowed_for_the_session() {
    let gateway = FakeGateway::with_waiting(&["secret thing"]);
    let text = say(&gateway, "/approve always").await.text;
    assert!(text.contains("cannot be allowed always"), "{text}");
    assert_eq!(gateway.done(), ["ap_0 Session"]);
}

#[tokio::test]
async fn a_form_is_denied_but_not_approved_by_a_command() {
    let gateway = FakeGateway::with_waiting(&["form", "a"]);
    assert_eq!(say(&gateway, "/approve").await.text, "Allowed once: `a`");
    let text = say(&gateway, "/approve all").await.text;
    assert!(text.contains("waits for its answers"), "{text}");
    assert_eq!(say(&gateway, "/deny").await.text, "Denied: `form`");
    assert_eq!(
        gateway.done(),
        ["ap_1 Once", "ap_0 Denied { reason: None }"]
    );
}

#[tokio::test]
async fn a_refusal_has_a_reason_of_at_most_280_characters() {
    let gateway = FakeGateway::with_waiting(&["a", "b", "c"]);
    assert_eq!(say(&gateway, "/deny").await.text, "Denied: `a`");
    say(&gateway, &format!("/deny {}", "é".repeat(300))).await;
    say(&gateway, "/deny all use the trash").await;
    let done = gateway.done();
    assert_eq!(done[0], "ap_0 Denied { reason: None }");
    assert!(
        done[1].contains(&format!("\"{}\"", "é".repeat(280))),
        "{}",
        done[1]
    );
    assert_eq!(done[2], "ap_2 Denied { reason: Some(\"use the trash\") }");
}

#[tokio::test]
async fn single_words_decide_only_while_something_waits() {
    for (text, word) in [
        ("yes", ApprovalWord::Once),
        (" OK ", ApprovalWord::Once),
        ("approve", ApprovalWord::Once),
        ("y", ApprovalWord::Once),
        ("session", ApprovalWord::Session),
        ("Always!", ApprovalWord::Always),
        ("no.", ApprovalWord::Deny),
        ("deny", ApprovalWord::Deny),
        ("cancel", ApprovalWord::Deny),
        ("n", ApprovalWord::Deny),
    ] {
        assert_eq!(approval_word(text), Some(word), "{text}");
    }
    for text in ["yes please", "nope", "okay then", "", "always and ever"] {
        assert_eq!(approval_word(text), None, "{text}");
    }
    let gateway = FakeGateway::with_waiting(&["a", "b"]);
    let reply = execute_approval_word(ApprovalWord::Deny, &gateway)
        .await
        .unwrap();
    assert_eq!(reply.text, "Denied: `a`");
    execute_approval_word(ApprovalWord::Once, &gateway)
        .await
        .unwrap();
    assert_eq!(
        execute_approval_word(ApprovalWord::Once, &gateway).await,
        None
    );
    assert_eq!(
        gateway.done(),
        ["ap_0 Denied { reason: None }", "ap_1 Once"]
    );
    assert_eq!(ApprovalWord::Deny.command(), CommandName::Deny);
    assert_eq!(ApprovalWord::Always.command(), CommandName::Approve);
}
