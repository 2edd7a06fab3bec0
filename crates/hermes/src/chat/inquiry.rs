//! Asks the person what an MCP server wants to know, or to visit.

use futures::future::BoxFuture;
use hermes_agent::elicitation::{self, Answer, FormRequest, LinkRequest, NotAsked};
use serde_json::{Map, Value};

use super::floor::Floor;
use crate::question::{form, visit};

/// The person at the terminal.
pub(crate) struct Person {
    floor: Floor,
}

impl Person {
    pub(crate) fn new(floor: Floor) -> Self {
        Self { floor }
    }
}

impl elicitation::Person for Person {
    fn fill_in(
        &self,
        request: FormRequest,
    ) -> BoxFuture<'_, Result<Answer<Map<String, Value>>, NotAsked>> {
        Box::pin(async move {
            let asked = self.floor.ask(move |_| Ok(form::ask(&request)?)).await;
            asked.ok_or_else(not_asked)
        })
    }

    fn visit(&self, request: LinkRequest) -> BoxFuture<'_, Result<Answer<()>, NotAsked>> {
        Box::pin(async move {
            let asked = self.floor.ask(move |_| Ok(visit::ask(&request)?)).await;
            asked.ok_or_else(not_asked)
        })
    }
}

fn not_asked() -> NotAsked {
    NotAsked("the terminal can not be used".into())
}
