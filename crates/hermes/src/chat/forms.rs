//! Asks the person what MCP servers want to know: forms to fill in, pages to visit.

use futures::future::BoxFuture;
use hermes_agent::elicitation::{Answer, FormRequest, LinkRequest, NotAsked, Person as Asked};
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

    /// Refuses while a line is typed: a server must not interrupt the person's input.
    fn check(&self) -> Result<(), NotAsked> {
        if self.floor.is_editing() {
            return Err(NotAsked("nobody can be asked while a line is typed".into()));
        }
        Ok(())
    }
}

impl Asked for Person {
    fn fill_in(
        &self,
        request: FormRequest,
    ) -> BoxFuture<'_, Result<Answer<Map<String, Value>>, NotAsked>> {
        Box::pin(async move {
            self.check()?;
            let asked = self.floor.ask(move |_| Ok(form::ask(&request)?));
            Ok(asked.await.unwrap_or(Answer::Cancelled))
        })
    }

    fn visit(&self, request: LinkRequest) -> BoxFuture<'_, Result<Answer<()>, NotAsked>> {
        Box::pin(async move {
            self.check()?;
            let asked = self.floor.ask(move |_| Ok(visit::ask(&request)?));
            Ok(asked.await.unwrap_or(Answer::Cancelled))
        })
    }
}
