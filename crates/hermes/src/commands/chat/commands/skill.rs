//! `/<skill>`: a message that asks to work by a skill.

use std::fmt::Write as _;

use hermes_agent::message::Content;
use hermes_store::skills::SkillView;

use super::PendingMessage;

/// The skill's instructions and what the user says to them.
pub(super) fn skill_message(desk: &mut PendingMessage, view: &SkillView, request: &str) -> Content {
    let name = &view.skill.name;
    let mut text = format!(
        "[Use the skill `{name}`. Its instructions:]\n\n{}",
        view.body.trim()
    );
    if !view.files.is_empty() {
        let files = view.files.join(", ");
        let _ = write!(
            text,
            "\n\n[Files of the skill, to be read with `skill_view`: {files}]"
        );
    }
    if !request.is_empty() {
        let _ = write!(text, "\n\n{request}");
    }
    desk.take_message(&text)
}

#[cfg(test)]
mod tests {
    use hermes_store::skills::Skill;
    use serde_json::Map;

    use super::*;

    #[test]
    fn the_request_follows_the_instructions() {
        let view = SkillView {
            skill: Skill {
                name: "review".into(),
                description: String::new(),
                category: None,
                directory: "/s".into(),
                frontmatter: Map::new(),
            },
            body: "Look twice.\n".into(),
            files: vec!["references/list.md".into()],
        };
        let text = skill_message(&mut PendingMessage::default(), &view, "src/main.rs");
        let text = text.text();
        assert!(
            text.contains("`review`") && text.contains("Look twice.\n\n[Files"),
            "{text}"
        );
        assert!(
            text.ends_with("references/list.md]\n\nsrc/main.rs"),
            "{text}"
        );
    }
}
