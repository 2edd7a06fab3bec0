//! Verifying the whole audit log for somebody who asks for it. The page is sent while the log is read in parts, and says
//! how far that is; whoever leaves the page ends it.

use std::{collections::BTreeMap, convert::Infallible};

use askama::Template;
use axum::{
    Form,
    body::Body,
    response::{Html, IntoResponse, Response},
};
use futures::{StreamExt, stream};
use serde::Deserialize;
use serde_json::json;

use crate::{
    Problem, ProblemCode,
    console::{
        form_fields::{Fields, find_field},
        frame::Frame,
        pages::{full_problem_page, render},
        request::PageRequest,
    },
};

/// Entries of a part. Nobody else waits for more than that.
const PART: u32 = 2000;
/// Parts between two lines about the progress.
const PARTS_OF_A_LINE: u32 = 25;
/// Where the progress is shown in the page.
const PROGRESS: &str = "<!-- progress -->";

#[derive(Template)]
#[template(path = "pages/audit/check.html")]
struct AuditCheckPage {
    page: Frame,
}

/// What is added to the page.
#[derive(Template)]
#[template(path = "pages/audit/check_progress.html")]
struct CheckProgress<'a> {
    page: &'a Frame,
    entries: u64,
    outcome: CheckOutcome<'a>,
}

enum CheckOutcome<'a> {
    GoesOn,
    Verified(Vec<&'a CheckedChain>),
    Stopped(&'a Problem),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuditPartView {
    chains: Vec<CheckedChain>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CheckedChain {
    chain: String,
    entries: u64,
    first_broken_seq: Option<u64>,
    reason: Option<String>,
}

impl CheckedChain {
    /// Adds another part of the chain.
    fn add(&mut self, part: Self) {
        self.entries += part.entries;
        let is_earlier = match (self.first_broken_seq, part.first_broken_seq) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(known), Some(found)) => found < known,
        };
        if is_earlier {
            self.first_broken_seq = part.first_broken_seq;
            self.reason = part.reason;
        }
    }
}

impl CheckProgress<'_> {
    fn is_whole(&self) -> bool {
        match &self.outcome {
            CheckOutcome::Verified(chains) => {
                chains.iter().all(|chain| chain.first_broken_seq.is_none())
            }
            CheckOutcome::GoesOn | CheckOutcome::Stopped(_) => false,
        }
    }
}

/// A verification under way.
struct LogCheck {
    request: PageRequest,
    page: Frame,
    cursor: Option<String>,
    chains: BTreeMap<String, CheckedChain>,
    /// The page behind the progress.
    rest: String,
}

pub(in crate::console) async fn verify(
    request: PageRequest,
    Form(fields): Form<Fields>,
) -> Response {
    if let Err(problem) = request.csrf.check(find_field(&fields, "csrf")) {
        return full_problem_page(&request, &problem);
    }
    if !request.may("verify_audit") {
        let problem = Problem::not_found("there is no such page").with_reason("no_page");
        return full_problem_page(&request, &problem);
    }
    let mut page = Frame::new(&request, request.texts.get("audit.checking"));
    page.live = None;
    "/audit".clone_into(&mut page.address);
    let shown = AuditCheckPage { page };
    let text = match render(&shown) {
        Ok(text) => text,
        Err(problem) => return full_problem_page(&request, &problem),
    };
    let (begin, rest) = text.split_once(PROGRESS).unwrap_or((text.as_str(), ""));
    let check = LogCheck {
        page: shown.page,
        request,
        cursor: None,
        chains: BTreeMap::new(),
        rest: rest.to_owned(),
    };
    let progress = stream::unfold(
        Some(check),
        |check| async move { Some(check?.advance().await) },
    );
    let pieces = stream::iter([begin.to_owned()]).chain(progress);
    let pieces = pieces.map(Ok::<_, Infallible>);
    Html(Body::from_stream(pieces)).into_response()
}

impl LogCheck {
    /// Verifies some parts, and returns what is added to the page for them.
    async fn advance(mut self) -> (String, Option<Self>) {
        for _ in 0..PARTS_OF_A_LINE {
            match self.verify_part().await {
                Ok(true) => {}
                Ok(false) => {
                    let chains = self.chains.values().collect();
                    return (self.end(CheckOutcome::Verified(chains)), None);
                }
                Err(problem) => return (self.end(CheckOutcome::Stopped(&problem)), None),
            }
        }
        let text = self.show(CheckOutcome::GoesOn);
        (text, Some(self))
    }

    /// Returns whether there is more.
    async fn verify_part(&mut self) -> Result<bool, Problem> {
        if self.request.hub.shutdown().is_cancelled() {
            let message = "the Hub is being stopped; verify the log again later";
            return Err(Problem::new(ProblemCode::Unavailable, message));
        }
        let mut arguments = json!({"limit": PART});
        if let Some(cursor) = self.cursor.take() {
            arguments["cursor"] = cursor.into();
        }
        let part: AuditPartView = self.request.read("verify_audit", arguments).await?;
        for chain in part.chains {
            match self.chains.get_mut(&chain.chain) {
                Some(known) => known.add(chain),
                None => {
                    self.chains.insert(chain.chain.clone(), chain);
                }
            }
        }
        self.cursor = part.next_cursor;
        Ok(self.cursor.is_some())
    }

    fn show(&self, outcome: CheckOutcome<'_>) -> String {
        let progress = CheckProgress {
            page: &self.page,
            entries: self.chains.values().map(|chain| chain.entries).sum(),
            outcome,
        };
        render(&progress).unwrap_or_default()
    }

    fn end(&self, outcome: CheckOutcome<'_>) -> String {
        self.show(outcome) + &self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_parts_the_first_changed_entry_counts() {
        let part = |entries, broken: Option<u64>| CheckedChain {
            chain: "n1".into(),
            entries,
            first_broken_seq: broken,
            reason: broken.map(|seq| format!("entry {seq}")),
        };
        let mut all = part(3, None);
        for (entries, broken) in [(2, Some(9)), (0, Some(4)), (5, Some(7)), (1, None)] {
            all.add(part(entries, broken));
        }
        assert_eq!((all.entries, all.first_broken_seq), (11, Some(4)));
        assert_eq!(all.reason.as_deref(), Some("entry 4"));
    }
}
