//! The questions of one form, one after the other, and the answers so far.
//!
//! Knows neither platforms nor people: it takes what was written or pressed, and says what comes next. What is asked
//! looks as [`super::form_prompts`] has it.

use hermes_agent::server_requests::elicitation::{FieldKind, FormField, FormRequest};
use serde_json::{Map, Value};

use super::form_prompts;
use crate::platform::OutboundMessage;

/// What the data of a form's buttons begins with.
const BUTTON_PREFIX: &str = "ef:";

/// A form while it is filled in.
pub(in crate::inbound) struct FormDialogue {
    id: String,
    request: FormRequest,
    place: FormAudience,
    answers: Map<String, Value>,
    position: FormPosition,
    /// Counts what was asked: buttons of earlier questions do nothing.
    step: usize,
}

/// Where a form is filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::inbound) enum FormAudience {
    Direct,
    /// Others read along.
    Group,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::inbound) enum FormPosition {
    Field(usize),
    /// A last look at several answers, or the consent to a form without fields.
    Review,
    Over,
}

/// What comes after something was written or pressed.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::inbound) enum FormStep {
    /// This is asked next. `answered` is what the last question got.
    Ask {
        answered: Option<String>,
        prompt: OutboundMessage,
    },
    Complete {
        answered: Option<String>,
        answers: Map<String, Value>,
    },
    Declined,
    Dismissed,
    /// The button belongs to an earlier question.
    Outdated,
}

/// What a button of a form does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::inbound) enum FormAction {
    Choose(usize),
    UseDefault,
    Skip,
    Send,
    StartOver,
    Decline,
    Dismiss,
}

impl FormAction {
    fn encode(self) -> String {
        match self {
            Self::Choose(index) => format!("c{index}"),
            Self::UseDefault => "d".into(),
            Self::Skip => "s".into(),
            Self::Send => "y".into(),
            Self::StartOver => "e".into(),
            Self::Decline => "n".into(),
            Self::Dismiss => "x".into(),
        }
    }

    fn decode(text: &str) -> Option<Self> {
        Some(match text {
            "d" => Self::UseDefault,
            "s" => Self::Skip,
            "y" => Self::Send,
            "e" => Self::StartOver,
            "n" => Self::Decline,
            "x" => Self::Dismiss,
            other => Self::Choose(other.strip_prefix('c')?.parse().ok()?),
        })
    }

    /// Whether it refuses: then the right to deny is enough.
    pub(in crate::inbound) fn is_refusal(self) -> bool {
        matches!(self, Self::Decline | Self::Dismiss)
    }
}

/// A pressed button of a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::inbound) struct FormPress<'a> {
    pub(in crate::inbound) id: &'a str,
    pub(in crate::inbound) step: usize,
    pub(in crate::inbound) action: FormAction,
}

/// The data of a button: `ef:<step>:<action>:<id>`.
pub(in crate::inbound) fn button_data(id: &str, step: usize, action: FormAction) -> String {
    format!("{BUTTON_PREFIX}{step}:{}:{id}", action.encode())
}

pub(in crate::inbound) fn parse_form_button(data: &str) -> Option<FormPress<'_>> {
    let (step, rest) = data.strip_prefix(BUTTON_PREFIX)?.split_once(':')?;
    let (action, id) = rest.split_once(':')?;
    Some(FormPress {
        id,
        step: step.parse().ok()?,
        action: FormAction::decode(action)?,
    })
}

impl FormDialogue {
    /// A form, and what is asked first.
    pub(in crate::inbound) fn new(
        id: &str,
        request: FormRequest,
        place: FormAudience,
    ) -> (Self, OutboundMessage) {
        let mut dialogue = Self {
            id: id.to_owned(),
            request,
            place,
            answers: Map::new(),
            position: FormPosition::Review,
            step: 0,
        };
        dialogue.position = dialogue.first_position();
        let prompt = form_prompts::first_prompt(&dialogue);
        (dialogue, prompt)
    }

    pub(in crate::inbound) fn id(&self) -> &str {
        &self.id
    }

    pub(in crate::inbound) fn request(&self) -> &FormRequest {
        &self.request
    }

    pub(in crate::inbound) fn place(&self) -> FormAudience {
        self.place
    }

    pub(in crate::inbound) fn position(&self) -> FormPosition {
        self.position
    }

    pub(in crate::inbound) fn step(&self) -> usize {
        self.step
    }

    pub(in crate::inbound) fn answer(&self, field: &FormField) -> Option<&Value> {
        self.answers.get(&field.name)
    }

    pub(in crate::inbound) fn is_over(&self) -> bool {
        self.position == FormPosition::Over
    }

    /// The fields that are asked for, with their places in the form.
    pub(in crate::inbound) fn asked_fields(&self) -> impl Iterator<Item = (usize, &FormField)> {
        let fields = self.request.form.fields.iter().enumerate();
        // Nobody writes a secret where others read along, unless the form needs it.
        fields.filter(|(_, field)| {
            self.place == FormAudience::Direct || !field.is_sensitive || field.is_required
        })
    }

    fn first_position(&self) -> FormPosition {
        let first = self.asked_fields().next();
        first.map_or(FormPosition::Review, |(index, _)| {
            FormPosition::Field(index)
        })
    }

    /// Takes what somebody wrote.
    pub(in crate::inbound) fn take_text(&mut self, text: &str) -> FormStep {
        let text = text.trim();
        let word = text.trim_end_matches(['.', '!']).to_lowercase();
        match self.position {
            FormPosition::Field(index) => self.take_field_text(index, text, &word),
            FormPosition::Review => match word.as_str() {
                "yes" | "y" | "ok" | "send" | "approve" => self.complete(None),
                "no" | "n" | "decline" | "deny" => self.end(FormStep::Declined),
                "cancel" => self.end(FormStep::Dismissed),
                "edit" | "start over" => self.start_over(),
                _ => self.ask_again("Please press a button, or write yes or no"),
            },
            FormPosition::Over => FormStep::Outdated,
        }
    }

    fn take_field_text(&mut self, index: usize, text: &str, word: &str) -> FormStep {
        let field = &self.request.form.fields[index];
        let parsed = match field.kind {
            // "No." is a no.
            FieldKind::Boolean => field.parse_text(word),
            _ => field.parse_text(text),
        };
        // A choice may be called like one of the words.
        let is_choice = !field.choices().is_empty() && parsed.is_ok();
        match word {
            "cancel" if !is_choice => return self.end(FormStep::Dismissed),
            "decline" if !is_choice => return self.end(FormStep::Declined),
            "default" if !is_choice && field.default.is_some() => return self.use_default(index),
            "skip" if !is_choice && may_be_skipped(field) => return self.accept(index, None),
            _ => {}
        }
        match parsed {
            _ if text.is_empty() => self.ask_again("Please write an answer"),
            Ok(value) => self.accept(index, Some(value)),
            Err(invalid) => {
                let problem = format!("{} {invalid}", field.title);
                self.ask_again(&problem)
            }
        }
    }

    /// Takes a pressed button.
    pub(in crate::inbound) fn take_press(&mut self, step: usize, action: FormAction) -> FormStep {
        // A refusal holds for the whole form.
        if !self.is_over() && action.is_refusal() {
            return self.end(match action {
                FormAction::Dismiss => FormStep::Dismissed,
                _ => FormStep::Declined,
            });
        }
        if step != self.step {
            return FormStep::Outdated;
        }
        match (self.position, action) {
            (FormPosition::Field(index), FormAction::Choose(choice)) => {
                match form_prompts::button_choices(&self.request.form.fields[index]).get(choice) {
                    Some((_, value)) => self.accept(index, Some(value.clone())),
                    None => FormStep::Outdated,
                }
            }
            (FormPosition::Field(index), FormAction::UseDefault) => self.use_default(index),
            (FormPosition::Field(index), FormAction::Skip)
                if may_be_skipped(&self.request.form.fields[index]) =>
            {
                self.accept(index, None)
            }
            (FormPosition::Review, FormAction::Send) => self.complete(None),
            (FormPosition::Review, FormAction::StartOver) => self.start_over(),
            _ => FormStep::Outdated,
        }
    }

    fn use_default(&mut self, index: usize) -> FormStep {
        match self.request.form.fields[index].default.clone() {
            Some(default) => self.accept(index, Some(default)),
            None => FormStep::Outdated,
        }
    }

    /// Keeps an answer, which is valid, and goes on.
    fn accept(&mut self, index: usize, value: Option<Value>) -> FormStep {
        let field = &self.request.form.fields[index];
        let answered = form_prompts::shown_answer(field, value.as_ref());
        match value {
            Some(value) => self.answers.insert(field.name.clone(), value),
            None => self.answers.remove(&field.name),
        };
        let next = self.asked_fields().find(|(place, _)| *place > index);
        let next = next.map(|(place, _)| FormPosition::Field(place));
        match next {
            // One answer is sent as it is given; several are looked at once more.
            None if self.asked_fields().count() == 1 => self.complete(Some(answered)),
            next => {
                self.position = next.unwrap_or(FormPosition::Review);
                self.ask(Some(answered), None)
            }
        }
    }

    fn start_over(&mut self) -> FormStep {
        self.position = self.first_position();
        self.ask(None, None)
    }

    fn ask_again(&mut self, problem: &str) -> FormStep {
        self.ask(None, Some(problem))
    }

    fn ask(&mut self, answered: Option<String>, problem: Option<&str>) -> FormStep {
        self.step += 1;
        FormStep::Ask {
            answered,
            prompt: form_prompts::next_prompt(self, problem),
        }
    }

    fn complete(&mut self, answered: Option<String>) -> FormStep {
        self.end(FormStep::Complete {
            answered,
            answers: self.answers.clone(),
        })
    }

    fn end(&mut self, step: FormStep) -> FormStep {
        self.position = FormPosition::Over;
        step
    }
}

/// Whether a field can be left empty. One with a default is not: the default stands for nothing.
pub(in crate::inbound) fn may_be_skipped(field: &FormField) -> bool {
    !field.is_required && field.default.is_none()
}

#[cfg(test)]
mod tests;
