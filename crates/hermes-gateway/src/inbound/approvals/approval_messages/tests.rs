use std::time::Duration;

use hermes_config::ServerName;

use super::{super::approval_cards::FormCardEnd, *};

fn approval(allow_permanent: bool) -> NewApproval {
    NewApproval {
        id: "ap_0123456789ab".into(),
        kind: "exec".into(),
        session_key: None,
        session: None,
        run_id: None,
        command: "rm -r x\n```\nfake".into(),
        description: "recursive delete".into(),
        pattern_keys: Vec::new(),
        allow_permanent,
        timeout: None,
        owner_pid: 1,
        owner_start: None,
    }
}

fn ended(outcome: ApprovalOutcome) -> CardEnd {
    CardEnd {
        outcome,
        form: FormCardEnd::default(),
    }
}

fn link(url: &str) -> LinkRequest {
    LinkRequest {
        server: ServerName::new("kit"),
        message: "Log in at [my bank](https://evil.example)".into(),
        url: url.into(),
        host: "example.org".into(),
        timeout: Duration::from_secs(1),
    }
}

#[test]
fn buttons_name_the_request_and_fit_a_platform() {
    let message = approval_request(&approval(true)).message;
    let buttons: Vec<_> = message.buttons.iter().flatten().collect();
    let choices: Vec<_> = buttons
        .iter()
        .map(|button| parse_button(&button.data).unwrap())
        .collect();
    assert_eq!(choices.len(), 4);
    assert!(choices.iter().all(|(_, id)| *id == "ap_0123456789ab"));
    assert!(buttons.iter().all(|button| button.data.len() <= 64));
    assert_eq!(message.text.matches("```").count(), 2);
    let message = approval_request(&approval(false)).message;
    let data: Vec<_> = message
        .buttons
        .iter()
        .flatten()
        .map(|button| &button.data)
        .collect();
    assert!(!data.iter().any(|data| data.contains("always")), "{data:?}");
    assert!(!message.text.contains("always"), "{}", message.text);
    for other in ["", "ea:", "ea:once", "ea:maybe:ap_1", "xx:once:ap_1"] {
        assert_eq!(parse_button(other), None, "{other}");
    }
}

#[test]
fn a_text_is_cut_and_without_buttons_it_is_short() {
    let long = NewApproval {
        command: "é".repeat(5000),
        ..approval(true)
    };
    let shown = approval_request(&long);
    assert_eq!(shown.message.text.matches('é').count(), MAX_TEXT_CHARS - 1);
    assert_eq!(shown.plain.text.matches('é').count(), MAX_PLAIN_CHARS - 1);
    assert!(shown.plain.buttons.is_empty());
}

#[test]
fn a_page_is_shown_with_its_whole_address_and_host() {
    let address = "https://example.org/login?a=1&b=_x_";
    let message = link_request(&approval(false), &link(address)).message;
    assert_eq!(message.format, TextFormat::Plain);
    assert!(message.text.contains(address), "{}", message.text);
    assert!(
        message.text.contains("Host: example.org"),
        "{}",
        message.text
    );
    assert!(!message.text.contains("]("), "{}", message.text);
    let button = &message.buttons[0][0];
    assert!(button.is_link && button.data == address, "{button:?}");
    assert_eq!(button.label, "Open example.org");
    let labels: Vec<_> = message.buttons[1]
        .iter()
        .map(|button| button.label.as_str())
        .collect();
    assert_eq!(labels, ["Done", "Decline"]);
    let long = format!("https://example.org/{}", "x".repeat(600));
    let message = link_request(&approval(false), &link(&long)).message;
    assert!(message.text.contains(&long));
    assert!(
        !message
            .buttons
            .iter()
            .flatten()
            .any(|button| button.is_link)
    );
}

#[test]
fn a_closed_request_says_what_was_decided() {
    let now = Zoned::now();
    let opened = approval_request(&approval(true)).message;
    let close = |kind, end: &CardEnd| closed_message(kind, &opened, end, None, &now).text;
    let denied = ended(ApprovalOutcome::Answered(ApprovalAnswer::Deny));
    let text = close(RequestKind::Approval, &denied);
    let time = now.strftime("%H:%M").to_string();
    assert!(text.ends_with(&format!("Denied, {time}.")), "{text}");
    assert!(!text.contains("Press a button"), "{text}");
    let text = close(RequestKind::Approval, &ended(ApprovalOutcome::Expired));
    assert!(text.contains("Expired"), "{text}");
    assert!(close(RequestKind::Link, &denied).contains("Declined, "));
    let confirmed = ended(ApprovalOutcome::Answered(ApprovalAnswer::Once));
    assert!(close(RequestKind::Link, &confirmed).contains("Confirmed, "));
    let mut left = denied;
    left.form.is_dismissed = true;
    assert!(close(RequestKind::Form, &left).contains("Cancelled, "));
    let mut filled = confirmed;
    filled.form.answered = Some("Ada".into());
    let text = close(RequestKind::Form, &filled);
    assert!(text.contains("→ Ada\nAnswered, "), "{text}");
}
