//! Asks the person what the model wants to know.

use futures::future::BoxFuture;
use hermes_agent::{
    printable::printable,
    tools::clarify::{Question, Questioner},
};

use super::{
    floor::{Asking, Floor},
    strip,
    style::{Paint, Style},
};
use crate::failure::Failure;

/// The person at the terminal.
pub(crate) struct Person {
    floor: Floor,
    paint: Paint,
}

impl Person {
    pub(crate) fn new(floor: Floor, paint: Paint) -> Self {
        Self { floor, paint }
    }
}

impl Questioner for Person {
    fn ask(&self, question: Question) -> BoxFuture<'_, Option<String>> {
        let paint = self.paint;
        Box::pin(self.floor.ask(move |asking| ask(asking, &question, paint)))
    }
}

fn ask(asking: &Asking<'_>, question: &Question, paint: Paint) -> Result<String, Failure> {
    for line in printable(&question.text).lines() {
        asking.say(&paint.paint(Style::bold(), line));
    }
    for (number, choice) in (1..).zip(&question.choices) {
        asking.say(&format!("  {number}. {}", strip::one_line(choice, 200)));
    }
    let prompt = if question.choices.is_empty() {
        "Your answer"
    } else {
        "A number, or an answer of your own"
    };
    loop {
        let answer = asking.line(prompt)?;
        if let Some(answer) = read(&answer, &question.choices) {
            return Ok(answer);
        }
        asking.say("Ctrl-C leaves the question and the turn.");
    }
}

/// The choice that was meant, or the answer as it was typed.
fn read(answer: &str, choices: &[String]) -> Option<String> {
    let answer = answer.trim();
    let number = answer.trim_end_matches('.').parse::<usize>().ok();
    let chosen = number.and_then(|number| choices.get(number.checked_sub(1)?));
    match chosen {
        Some(choice) => Some(choice.clone()),
        None if answer.is_empty() => None,
        None => Some(answer.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_means_a_choice_and_other_words_themselves() {
        let choices = ["red".to_owned(), "green".to_owned()];
        assert_eq!(read("2", &choices).as_deref(), Some("green"));
        assert_eq!(read(" 1. ", &choices).as_deref(), Some("red"));
        assert_eq!(read("3", &choices).as_deref(), Some("3"));
        assert_eq!(read("0", &choices).as_deref(), Some("0"));
        assert_eq!(read("blue", &choices).as_deref(), Some("blue"));
        assert_eq!(read("  ", &choices), None);
    }
}
