//! `clarify`: a question to the user.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::{ToolError, arguments::ToolArguments, into_output, tool_definition};
use crate::{
    model::ToolDefinition,
    tools::tool::{Tool, ToolContext, ToolOutput},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub text: String,
    /// Suggested answers; the user may also answer freely.
    pub choices: Vec<String>,
}

/// Asks the user: at a terminal, in a chat.
pub trait Questioner: Send + Sync {
    /// Asks and waits. `None` without an answer.
    fn ask_question(&self, question: Question) -> BoxFuture<'_, Option<String>>;
}

pub struct ClarifyTool {
    questioner: Option<Arc<dyn Questioner>>,
}

impl ClarifyTool {
    pub fn new(questioner: Option<Arc<dyn Questioner>>) -> Self {
        Self { questioner }
    }
}

impl Tool for ClarifyTool {
    fn definition(&self) -> ToolDefinition {
        tool_definition(
            "clarify",
            "Asks the user a question and waits for the answer. Use it when a decision is theirs and a wrong guess would \
             cost much. Do not use it for permission to run commands: approval is requested automatically.",
            json!({
                "question": {"type": "string", "description": "The question"},
                "choices": {"type": "array", "items": {"type": "string"}, "description": "Answers to choose from; the user can always answer freely"},
            }),
            &["question"],
        )
    }

    fn toolset(&self) -> &'static str {
        "clarify"
    }

    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            into_output(self.ask_user(&ToolArguments::new(arguments), context).await)
        })
    }
}

impl ClarifyTool {
    async fn ask_user(
        &self,
        arguments: &ToolArguments,
        context: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let text = arguments.required_text("question")?;
        let mut choices = arguments.texts("choices")?;
        choices.retain(|choice| !choice.trim().is_empty());
        let Some(questioner) = &self.questioner else {
            return Err(ToolError::new(
                "no user is present; decide yourself and say what you assumed",
            ));
        };
        let question = Question {
            text: text.clone(),
            choices,
        };
        tokio::select! {
            () = context.cancel.cancelled() => Err(ToolError::new("interrupted before the user answered")),
            answer = questioner.ask_question(question) => match answer {
                Some(answer) => Ok(ToolOutput::json(&json!({"question": text, "user_response": answer}))),
                None => Err(ToolError::new("the user did not answer; decide yourself and say what you assumed")),
            },
        }
    }
}
