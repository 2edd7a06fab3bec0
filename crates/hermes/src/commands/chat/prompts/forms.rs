//! Asks the person what MCP servers want to know: forms to fill in, pages to visit.

use futures::future::BoxFuture;
use hermes_agent::server_requests::elicitation::{
    ElicitationAnswer, ElicitationUi, ElicitationUnavailable, FormRequest, LinkRequest,
};
use serde_json::{Map, Value};

use crate::{
    commands::chat::prompts::queue::PromptQueue,
    question::{form, link},
};

/// The person at the terminal.
pub(crate) struct FormPrompt {
    floor: PromptQueue,
}

impl FormPrompt {
    pub(crate) fn new(floor: PromptQueue) -> Self {
        Self { floor }
    }

    /// Refuses while a line is typed: a server must not interrupt the person's input.
    fn check_not_editing(&self) -> Result<(), ElicitationUnavailable> {
        if self.floor.is_editing() {
            return Err(ElicitationUnavailable(
                "nobody can be asked while a line is typed".into(),
            ));
        }
        Ok(())
    }
}

impl ElicitationUi for FormPrompt {
    fn fill_form(
        &self,
        request: FormRequest,
    ) -> BoxFuture<'_, Result<ElicitationAnswer<Map<String, Value>>, ElicitationUnavailable>> {
        Box::pin(async move {
            self.check_not_editing()?;
            let asked = self.floor.prompt(move |_| Ok(form::ask_form(&request)?));
            Ok(asked.await.unwrap_or(ElicitationAnswer::Cancelled))
        })
    }

    fn confirm_link(
        &self,
        request: LinkRequest,
    ) -> BoxFuture<'_, Result<ElicitationAnswer<()>, ElicitationUnavailable>> {
        Box::pin(async move {
            self.check_not_editing()?;
            let asked = self.floor.prompt(move |_| Ok(link::ask_link(&request)?));
            Ok(asked.await.unwrap_or(ElicitationAnswer::Cancelled))
        })
    }
}
