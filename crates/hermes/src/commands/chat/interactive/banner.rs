//! What is shown before the first line: model, session, servers.

use std::fmt::Write as _;

use hermes_agent::{
    conversation::{Conversation, ConversationSetup},
    printable::printable,
};

use crate::{
    commands::chat::{
        commands::by_state,
        rendering::{
            style::{Attribute, Colour, ColourMode, Style},
            wrap,
        },
        start,
    },
    failure::Failure,
};

/// What there is to say at the beginning.
pub(super) struct Banner {
    model: Option<String>,
    session: String,
    servers: String,
    /// The file with the project's rules.
    rules: Option<String>,
    hint: &'static str,
}

impl Banner {
    pub(super) async fn from_conversation(
        conversation: &Conversation,
        setup: &ConversationSetup,
    ) -> Self {
        let settings = conversation.agent().settings();
        let session = conversation.session().await.ok().flatten();
        let configured = settings.model.choice.name.clone();
        let remembered = session.and_then(|session| session.model);
        let model = setup
            .model_overrides
            .model
            .clone()
            .or(remembered)
            .or(configured);
        let servers = match conversation.agent().host() {
            Some(host) => by_state(&host.status()),
            None => "none in safe mode".to_owned(),
        };
        Self {
            model,
            session: conversation.id().to_string(),
            servers,
            rules: start::project_rules(conversation, setup.project_rules)
                .await
                .map(|rules| rules.notice()),
            hint: "`/help` lists commands, Ctrl-D leaves",
        }
    }

    /// Whether no model is named and one has to be looked for.
    pub(super) fn looks_for_model(&self) -> bool {
        self.model.is_none()
    }

    pub(super) fn render(&self, paint: ColourMode) -> String {
        let title = paint.paint(Style::bold().coloured(Colour::Cyan), "hermes");
        let version = paint.paint(Style::faint(), env!("CARGO_PKG_VERSION"));
        let mut text = format!("{title} {version}\n");
        let model = self
            .model
            .as_deref()
            .map(|model| wrap::first_line(model, 80));
        let model = model.unwrap_or_else(|| "none is configured; searching this machine".into());
        let mut rows = vec![
            ("model", &model),
            ("session", &self.session),
            ("servers", &self.servers),
        ];
        rows.extend(self.rules.as_ref().map(|rules| ("rules", rules)));
        for (name, value) in rows {
            let value = printable(value);
            let name = paint.paint(Style::faint(), &format!("{name:<8}"));
            let _ = writeln!(text, "{name} {value}");
        }
        let hint = Style::PLAIN.with(Attribute::Faint);
        text.push_str(&paint.paint(hint, self.hint));
        text
    }
}

/// How to get a model, in three lines.
pub(super) const NO_MODEL: &str = "There is no model yet; `/tools`, `/call` and `/mcp` work without one. Any of these helps:\n  \
    `hermes model` asks for one and writes it to the configuration; `hermes -m NAME` names one for this run\n  \
    a local server, such as `ollama run qwen3`, is detected";

/// A failure as lines of the conversation.
pub(super) fn render_failure(failure: &Failure, paint: ColourMode) -> String {
    let red = Style::bold().coloured(Colour::Red);
    let mut text = format!(
        "{} {}",
        paint.paint(red, "error:"),
        printable(&failure.message)
    );
    for hint in &failure.hints {
        let _ = write!(text, "\n{} {hint}", paint.paint(Style::bold(), "hint:"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn banner(model: Option<&str>) -> Banner {
        Banner {
            model: model.map(str::to_owned),
            session: "20261115_080000_ab12cd".into(),
            servers: "2 connecting (files, time)".into(),
            rules: None,
            hint: "`/help` lists commands, Ctrl-D leaves",
        }
    }

    #[test]
    fn the_banner_names_model_session_and_servers() {
        let text = banner(Some("qwen3")).render(ColourMode::Plain);
        let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
        insta::assert_snapshot!(text, @r"
        hermes VERSION
        model    qwen3
        session  20261115_080000_ab12cd
        servers  2 connecting (files, time)
        `/help` lists commands, Ctrl-D leaves
        ");
    }

    #[test]
    fn the_file_with_the_rules_of_the_project_is_named() {
        let banner = Banner {
            rules: Some("/work/site/AGENTS.md".into()),
            ..banner(Some("qwen3"))
        };
        let text = banner.render(ColourMode::Plain);
        assert!(text.contains("\nrules    /work/site/AGENTS.md\n"), "{text}");
    }

    #[test]
    fn without_a_model_it_says_that_this_machine_is_searched() {
        let banner = banner(None);
        assert!(banner.looks_for_model());
        assert!(
            banner
                .render(ColourMode::Plain)
                .contains("searching this machine")
        );
        assert_eq!(NO_MODEL.lines().count(), 3);
    }

    #[test]
    fn a_failure_is_told_with_its_hints_and_without_control_characters() {
        let failure = Failure::failed("no\x1b[2J way").hint("another way");
        assert_eq!(
            render_failure(&failure, ColourMode::Plain),
            "error: no way\nhint: another way"
        );
    }
}
