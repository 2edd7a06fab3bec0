//! Asks the person what the model or an MCP server wants to know: questions, forms to fill in, pages to visit.

use futures::future::BoxFuture;
use hermes_agent::{
    printable::printable,
    server_requests::elicitation::{
        ElicitationAnswer, ElicitationUi, ElicitationUnavailable, FormRequest, LinkRequest,
    },
    tools::clarify::{Question, Questioner},
};
use serde_json::{Map, Value};

use crate::{
    commands::chat::{
        prompts::queue::{OpenPrompt, PromptQueue},
        rendering::{
            style::{ColourMode, Style},
            wrap,
        },
    },
    failure::Failure,
    question::{browser, form},
};

/// The person at the terminal.
pub(crate) struct ClarifyPrompt {
    queue: PromptQueue,
    paint: ColourMode,
}

impl ClarifyPrompt {
    pub(crate) fn new(queue: PromptQueue, paint: ColourMode) -> Self {
        Self { queue, paint }
    }
}

impl Questioner for ClarifyPrompt {
    fn ask_question(&self, question: Question) -> BoxFuture<'_, Option<String>> {
        let paint = self.paint;
        Box::pin(
            self.queue
                .prompt(move |prompt| ask_question(prompt, &question, paint)),
        )
    }
}

fn ask_question(
    open_prompt: &OpenPrompt<'_>,
    question: &Question,
    paint: ColourMode,
) -> Result<String, Failure> {
    for line in printable(&question.text).lines() {
        open_prompt.say(&paint.paint(Style::bold(), line));
    }
    for (number, choice) in (1..).zip(&question.choices) {
        open_prompt.say(&format!("  {number}. {}", wrap::first_line(choice, 200)));
    }
    let prompt = if question.choices.is_empty() {
        "Your answer"
    } else {
        "A number, or an answer of your own"
    };
    loop {
        let answer = open_prompt.read_line(prompt)?;
        if let Some(answer) = parse_choice(&answer, &question.choices) {
            return Ok(answer);
        }
        open_prompt.say("Ctrl-C leaves the question and the turn.");
    }
}

/// The choice that was meant, or the answer as it was typed.
fn parse_choice(answer: &str, choices: &[String]) -> Option<String> {
    let answer = answer.trim();
    let number = answer.trim_end_matches('.').parse::<usize>().ok();
    let chosen = number.and_then(|number| choices.get(number.checked_sub(1)?));
    match chosen {
        Some(choice) => Some(choice.clone()),
        None if answer.is_empty() => None,
        None => Some(answer.to_owned()),
    }
}

/// The person at the terminal.
pub(crate) struct FormPrompt {
    queue: PromptQueue,
}

impl FormPrompt {
    pub(crate) fn new(queue: PromptQueue) -> Self {
        Self { queue }
    }

    /// Refuses while a line is typed: a server must not interrupt the person's input.
    fn check_not_editing(&self) -> Result<(), ElicitationUnavailable> {
        if self.queue.is_editing() {
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
            let answer = self.queue.prompt(move |_| Ok(form::ask_form(&request)?));
            Ok(answer.await.unwrap_or(ElicitationAnswer::Cancelled))
        })
    }

    fn confirm_link(
        &self,
        request: LinkRequest,
    ) -> BoxFuture<'_, Result<ElicitationAnswer<()>, ElicitationUnavailable>> {
        Box::pin(async move {
            self.check_not_editing()?;
            let answer = self.queue.prompt(move |_| Ok(browser::ask_link(&request)?));
            Ok(answer.await.unwrap_or(ElicitationAnswer::Cancelled))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_means_a_choice_and_other_words_themselves() {
        let choices = ["red".to_owned(), "green".to_owned()];
        assert_eq!(parse_choice("2", &choices).as_deref(), Some("green"));
        assert_eq!(parse_choice(" 1. ", &choices).as_deref(), Some("red"));
        assert_eq!(parse_choice("3", &choices).as_deref(), Some("3"));
        assert_eq!(parse_choice("0", &choices).as_deref(), Some("0"));
        assert_eq!(parse_choice("blue", &choices).as_deref(), Some("blue"));
        assert_eq!(parse_choice("  ", &choices), None);
    }
}
