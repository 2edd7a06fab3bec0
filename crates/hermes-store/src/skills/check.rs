//! Whether a skill that somebody hands in keeps the rules of the Agent Skills format.

use std::path::Path;

use serde_json::Value;

use super::{MAX_DESCRIPTION_LENGTH, MAX_NAME_LENGTH, Skill, frontmatter};

const MAX_COMPATIBILITY_LENGTH: usize = 500;

/// The rule that a skill breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkillFault {
    #[error(
        "`{name}` is not the name of a skill: 1 to {MAX_NAME_LENGTH} small letters, digits and single hyphens, none at its ends"
    )]
    BadName { name: String },
    #[error("its `SKILL.md` must begin with YAML between two lines `---`: {reason}")]
    BadFrontmatter { reason: String },
    #[error(
        "its `SKILL.md` says `name: {found}`, which must be `{name}` as its directory is called"
    )]
    OtherName { name: String, found: String },
    #[error("its `SKILL.md` needs a `{member}` of 1 to {most} characters")]
    BadText { member: &'static str, most: usize },
}

/// Whether this is a name that the format allows.
pub fn check_name(name: &str) -> Result<(), SkillFault> {
    let is_word = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    if name.len() <= MAX_NAME_LENGTH && name.split('-').all(is_word) {
        return Ok(());
    }
    Err(SkillFault::BadName {
        name: name.chars().take(80).collect(),
    })
}

impl Skill {
    /// Reads the skill of this name from the text of its `SKILL.md`, if both keep the rules.
    pub fn parse_checked(name: &str, text: &str) -> Result<Self, SkillFault> {
        check_name(name)?;
        let head = frontmatter::parse_strictly(text)
            .map_err(|reason| SkillFault::BadFrontmatter { reason })?;
        let said = |member: &str| head.get(member).and_then(Value::as_str).map(str::trim);
        let found = said("name").unwrap_or_default();
        if found != name {
            return Err(SkillFault::OtherName {
                name: name.to_owned(),
                found: found.chars().take(80).collect(),
            });
        }
        let fits = |text: &str, most| (1..=most).contains(&text.chars().count());
        if !said("description").is_some_and(|text| fits(text, MAX_DESCRIPTION_LENGTH)) {
            return Err(SkillFault::BadText {
                member: "description",
                most: MAX_DESCRIPTION_LENGTH,
            });
        }
        let compatibility = said("compatibility");
        if compatibility.is_some_and(|text| !fits(text, MAX_COMPATIBILITY_LENGTH)) {
            return Err(SkillFault::BadText {
                member: "compatibility",
                most: MAX_COMPATIBILITY_LENGTH,
            });
        }
        Self::parse(text, Path::new(name)).ok_or_else(|| SkillFault::BadName {
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_with_hyphens_between_them() {
        for name in ["a", "review", "pdf-2-text", &"a".repeat(64)] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in [
            "",
            "-a",
            "a-",
            "a--b",
            "A",
            "a_b",
            "a/b",
            "..",
            "ä",
            "a b",
            &"a".repeat(65),
        ] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn what_a_skill_says_of_itself_is_checked() {
        let checked = |text: &str| Skill::parse_checked("review", text);
        let skill = checked("---\nname: review\ndescription: Reviews.\n---\nRead.\n").unwrap();
        assert_eq!(
            (skill.name.as_str(), skill.description.as_str()),
            ("review", "Reviews.")
        );
        for text in [
            "",
            "Read.",
            "---\nname: review\n",
            "---\n- a\n---\n",
            "---\na: [\n---\n",
        ] {
            assert!(
                matches!(checked(text), Err(SkillFault::BadFrontmatter { .. })),
                "{text:?}"
            );
        }
        let other = checked("---\nname: other\ndescription: x\n---\n");
        assert!(matches!(other, Err(SkillFault::OtherName { .. })));
        let long = format!(
            "---\nname: review\ndescription: {}\n---\n",
            "x".repeat(1025)
        );
        for text in [
            "---\nname: review\n---\n",
            "---\nname: review\ndescription: ''\n---\n",
            &long,
        ] {
            assert!(
                matches!(checked(text), Err(SkillFault::BadText { .. })),
                "{text:?}"
            );
        }
    }
}
