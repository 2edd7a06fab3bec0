//! What runs wait for: oldest first, decided with one press, also on a phone. The same command of several runs is one card.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{render, run::WaitingForm};
use crate::{
    Problem,
    api_types::{Approval, Time},
    console::{
        frame::Frame,
        request::PageRequest,
        schema_form::{FieldControl, FormItem},
    },
};

const PAGE_SIZE: u32 = 100;

#[derive(Template)]
#[template(path = "pages/approvals.html")]
struct ApprovalsPage {
    page: Frame,
    cards: Vec<ApprovalCard>,
    count: u64,
    more: Option<String>,
    newest: Option<String>,
    may_decide: bool,
}

/// Approvals of one command for one reason.
struct ApprovalCard {
    approvals: Vec<Approval>,
    command: String,
    description: String,
    /// The first of them.
    since: Time,
    ends: Option<Time>,
    /// How many they are.
    number: u64,
    /// To fill in instead of a plain yes. Then it is a card of its own.
    form: Option<WaitingForm>,
}

impl ApprovalCard {
    fn new(mut approval: Approval) -> Self {
        let form = approval.form.take();
        let is_form = form.is_some();
        Self {
            form: form.map(|form| WaitingForm::new(approval.approval_id.as_str(), form)),
            command: approval.command.clone(),
            description: approval.description.clone(),
            since: approval.created_at,
            // The server decides how long it waits for a form.
            ends: approval.expires_at.filter(|_| !is_form),
            number: 1,
            approvals: vec![approval],
        }
    }

    fn is_about(&self, approval: &Approval) -> bool {
        self.form.is_none()
            && approval.form.is_none()
            && self.command == approval.command
            && self.description == approval.description
            && self.approvals[0].choices == approval.choices
    }

    fn first(&self) -> &Approval {
        &self.approvals[0]
    }

    /// One a line.
    fn ids(&self) -> String {
        let ids = self.approvals.iter();
        let ids: Vec<_> = ids.map(|approval| approval.approval_id.as_str()).collect();
        ids.join("\n")
    }

    fn offers(&self, choice: &str) -> bool {
        let mut choices = self.approvals[0].choices.iter();
        choices.any(|offered| offered.as_str() == choice)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WaitingList {
    approvals: Vec<Approval>,
    next_cursor: Option<String>,
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let mut arguments = json!({"limit": PAGE_SIZE});
    let cursor = request.query("cursor");
    if let Some(cursor) = cursor {
        arguments["cursor"] = Value::from(cursor);
    }
    let list: WaitingList = request.read("list_approvals", arguments).await?;
    let more = list.next_cursor.as_deref();
    let count = u64::try_from(list.approvals.len()).unwrap_or(u64::MAX);
    let mut cards: Vec<ApprovalCard> = Vec::new();
    for approval in list.approvals {
        match cards.iter_mut().find(|card| card.is_about(&approval)) {
            Some(card) => {
                card.approvals.push(approval);
                card.number += 1;
            }
            None => cards.push(ApprovalCard::new(approval)),
        }
    }
    render(&ApprovalsPage {
        page: Frame::new(&request, request.texts.get("nav.approvals")),
        more: more.map(|cursor| request.address_with("cursor", cursor)),
        newest: cursor.map(|_| request.address_with("cursor", "")),
        cards,
        count,
        may_decide: request.may("respond_approval"),
    })
}
